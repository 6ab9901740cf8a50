"""What sorting kernels share: keys that are compared as numbers, and a network that sorts them.

Elements are compared by their keys and then by their positions, so that the order of equal elements
is kept.
"""

from __future__ import annotations

from tapegrad_cupy.launch.cuda_prelude import C_TYPES

LONGEST = 4096
"""The most elements that a block sorts. With keys of eight bytes they take all of 48 KB."""

AT_ONCE = 1024
"""The least elements that a block sorts; of short rows it sorts several."""

MOST_THREADS = 1024

SOURCE = r"""
// A number that grows with the value. Zeros are equal, and NaN comes last.
__device__ __forceinline__ KEY key_of(T stored) {
#if KIND == 2
    W value = (W)stored;
    KEY bits = WIDE ? (KEY)__double_as_longlong((double)value) : (KEY)__float_as_uint((float)value);
    KEY key = bits >> (8 * sizeof(KEY) - 1) ? ~bits : bits | SIGN;
    key = value == (W)0 ? SIGN : key;
    key = value != value ? ~(KEY)0 : key;
#elif KIND == 1
    KEY key = (KEY)(W)stored ^ SIGN;
#else
    KEY key = (KEY)stored;
#endif
    return DESCENDING ? ~key : key;
}

// Sort ROWS rows of SIZE keys in shared memory, with the positions that they come from.
__device__ __forceinline__ void sort_shared(KEY* keys, int* from) {
    for (int size = 2; size <= SIZE; size *= 2) {
        for (int apart = size / 2; apart > 0; apart /= 2) {
            __syncthreads();
            for (int t = threadIdx.x; t < ROWS * SIZE / 2; t += THREADS) {
                int low = 2 * t - (t & (apart - 1)), high = low + apart;
                KEY a = keys[low], b = keys[high];
                int p = from[low], q = from[high];
                bool is_wrong = a > b || (a == b && p > q);
                bool is_down = (low & (SIZE - 1)) & size;
                if (is_wrong != is_down) {
                    keys[low] = b; keys[high] = a;
                    from[low] = q; from[high] = p;
                }
            }
        }
    }
    __syncthreads();
}
"""


def power_of_two(length: int) -> int:
    """Return the smallest power of two that is no smaller, at least 2.

    >>> [power_of_two(n) for n in (1, 2, 3, 1000)]
    [2, 2, 4, 1024]
    """
    return 1 << max(1, (length - 1).bit_length())


def macros(dtype: str, size: int, descending: bool, wants: str) -> dict[str, str | int]:
    """Return the macros of the source for rows of `size` elements, a power of two.

    `wants` is "values", "places" or "both".
    """
    stored = C_TYPES[dtype]
    is_half = dtype in ("float16", "bfloat16")
    is_wide = dtype in ("float64", "int64", "uint64")
    kind = 2 if "float" in dtype else int(dtype.startswith("int"))
    elements = max(size, AT_ONCE)
    return {
        "T": stored,
        "W": "float" if is_half else stored,
        "KEY": "unsigned long long" if is_wide else "unsigned int",
        "SIGN": "0x8000000000000000ull" if is_wide else "0x80000000u",
        "WIDE": int(is_wide),
        "KIND": kind,
        "SIZE": size,
        "ROWS": elements // size,
        "THREADS": min(MOST_THREADS, elements // 2),
        "DESCENDING": int(descending),
        "VALUES": int(wants != "places"),
        "PLACES": int(wants != "values"),
    }
