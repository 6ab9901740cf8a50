// Enough of CUDA to run a block of threads on the host, one after the other.
//
// Each thread is a context of its own. A barrier or a shuffle passes control on until all threads
// have arrived, so it needs the same barriers and shuffles in all threads of a block.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>
using namespace std;

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))

struct Place { unsigned int x; };
static Place blockIdx, threadIdx;

namespace host {
struct Thread { ucontext_t context; vector<char> stack; bool is_done; int arrivals; };
static vector<Thread> threads;
static ucontext_t caller;
static void (*body)();
alignas(16) static char slots[2][1024][16];

inline void enter() { body(); threads[threadIdx.x].is_done = true; }
inline void pass_on() {
    const Place own = threadIdx;
    ++threads[own.x].arrivals;
    swapcontext(&threads[own.x].context, &caller);
    threadIdx = own;
}
inline void run_block(int count, bool backwards) {
    threads.resize(count);
    for (Thread& one : threads) {
        one.stack.resize(1 << 16);
        getcontext(&one.context);
        one.context.uc_stack.ss_sp = one.stack.data();
        one.context.uc_stack.ss_size = one.stack.size();
        one.context.uc_link = &caller;
        one.is_done = false;
        one.arrivals = 0;
        makecontext(&one.context, enter, 0);
    }
    for (bool is_done = false; !is_done;) {
        is_done = true;
        for (int t = 0; t < count; ++t) {
            threadIdx.x = backwards ? count - 1 - t : t;
            Thread& one = threads[threadIdx.x];
            if (!one.is_done) swapcontext(&caller, &one.context);
            is_done = is_done && one.is_done;
        }
        for (Thread& one : threads) {
            if (one.arrivals == threads[0].arrivals && one.is_done == threads[0].is_done) continue;
            fprintf(stderr, "The threads of a block reach different barriers.\n");
            abort();
        }
    }
}
}  // namespace host

inline void __syncthreads() { host::pass_on(); }
inline void __threadfence() {}
template <class T> T atomicAdd(T* to, T value) { T old = *to; *to += value; return old; }
template <class T> T __shfl_xor_sync(unsigned int mask, T x, int step) {
    static_assert(sizeof(T) <= 16, "");
    if (mask != 0xffffffffu) abort();
    const unsigned int own = threadIdx.x;
    const int turn = host::threads[own].arrivals % 2;
    memcpy(host::slots[turn][own], &x, sizeof(T));
    host::pass_on();
    memcpy(&x, host::slots[turn][own ^ step], sizeof(T));
    return x;
}
template <class T> T __shfl_up_sync(unsigned int mask, T x, int step) {
    static_assert(sizeof(T) <= 16, "");
    if (mask != 0xffffffffu) abort();
    const unsigned int own = threadIdx.x;
    const int turn = host::threads[own].arrivals % 2;
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
    host::body = [] { call(own, the_arguments, index_sequence_for<A...>()); };
    for (int block = 0; block < blocks; ++block) {
        blockIdx.x = backwards ? blocks - 1 - block : block;
        host::run_block(threads, backwards);
    }
}
