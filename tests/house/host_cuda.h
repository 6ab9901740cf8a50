// Enough of CUDA to run a block of threads on the host, one after the other.
//
// A barrier or a shuffle passes control on until all threads have arrived, so it needs the same
// barriers and shuffles in all threads of a block. Each kernel includes this header; it has no
// containers or streams, which took most of the time of a compilation.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
using namespace std;

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))

struct Place { unsigned int x; };
static Place blockIdx, threadIdx;

// In host_threads.cpp, which is compiled once.
extern "C" {
void host_pass_on(Place* own);
int host_arrivals(unsigned int thread);
void host_run_block(void (*body)(), Place* current, int count, int backwards);
}

namespace host {
alignas(16) static char slots[2][1024][16];
inline void pass_on() { host_pass_on(&threadIdx); }
}  // namespace host

inline void __syncthreads() { host::pass_on(); }
inline void __threadfence() {}
template <class T> T atomicAdd(T* to, T value) { T old = *to; *to += value; return old; }
template <class T> T __shfl_xor_sync(unsigned int mask, T x, int step) {
    static_assert(sizeof(T) <= 16, "");
    if (mask != 0xffffffffu) abort();
    const unsigned int own = threadIdx.x;
    const int turn = host_arrivals(own) % 2;
    memcpy(host::slots[turn][own], &x, sizeof(T));
    host::pass_on();
    memcpy(&x, host::slots[turn][own ^ step], sizeof(T));
    return x;
}
template <class T> T __shfl_up_sync(unsigned int mask, T x, int step) {
    static_assert(sizeof(T) <= 16, "");
    if (mask != 0xffffffffu) abort();
    const unsigned int own = threadIdx.x;
    const int turn = host_arrivals(own) % 2;
    memcpy(host::slots[turn][own], &x, sizeof(T));
    host::pass_on();
    if (own % 32 >= (unsigned int)step) memcpy(&x, host::slots[turn][own - step], sizeof(T));
    return x;
}
inline int __float_as_int(float x) { int i; memcpy(&i, &x, 4); return i; }
inline float __int_as_float(int i) { float x; memcpy(&x, &i, 4); return x; }
inline int __clz(int x) { return __builtin_clz(x); }
inline float __double2float_rz(double x) {
    const float y = (float)x;
    return fabs((double)y) > fabs(x) ? nextafterf(y, 0.0f) : y;
}

struct __nv_bfloat16 { uint16_t bits; };
inline float __bfloat162float(__nv_bfloat16 x) { return __int_as_float((int)x.bits << 16); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    const unsigned int bits = __float_as_int(x), odd = bits >> 16 & 1;
    return {(uint16_t)(x != x ? 0x7fff : (bits + 0x7fff + odd) >> 16)};
}

// No kernel in half precision runs here, but sources mention the type.
struct __half { uint16_t bits; };
inline float __half2float(__half) { abort(); }
inline __half __float2half_rn(float) { abort(); }

template <class... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, index_sequence<I...>) {
    kernel((A)(conditional_t<is_pointer_v<A>, void*, intptr_t>)arguments[I]...);
}
static void** the_arguments;
template <class... A> void launch_all(void (*kernel)(A...), void** arguments, int blocks,
                                      int threads, int backwards) {
    static void (*own)(A...);
    own = kernel;
    the_arguments = arguments;
    void (*body)() = [] { call(own, the_arguments, index_sequence_for<A...>()); };
    for (int block = 0; block < blocks; ++block) {
        blockIdx.x = backwards ? blocks - 1 - block : block;
        host_run_block(body, &threadIdx, threads, backwards);
    }
}
