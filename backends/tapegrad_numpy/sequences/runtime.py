"""C text that runs a sequence of instructions: compiled loops, matrix products, copies, calls.

An instruction is a list of integers: its length, its kind, the number of its arrays, then a place
and an offset in bytes for each array, then what the kind needs. Places are addresses: those of the
arrays of the call, of constants, and of parts of the memory for intermediate values.
"""

from __future__ import annotations

from tapegrad.core.backend.native_sequences import ENDLESS
from tapegrad_numpy.loops.small_results import TEXT as SMALL_RESULTS

LOOP, PRODUCT, COPY, FILL, ROWS, ROUNDS, CALL, TABLE, SEQUENCE, TAPED = range(10)
"""The kinds of instructions; instructions.py writes them."""

OPERATIONS_PER_ELEMENT = 16
"""Multiplications of a matrix product that take about as long as an element of a loop."""

_SHARED_PRODUCTS = 1 << 20
"""The multiplications of a task where the products of a stack are divided among threads."""

FIXED = 12
"""The number of integers before those of the arrays: see `run_sequence` below."""

TEXT = r"""
/* One matrix product: precision (4 or 8 bytes), which operands are transposed, the sizes, the
   leading dimensions, and the axes of the stack, each with its size and three strides in bytes.
   Last the team, and functions that return and set the number of threads of BLAS; 0 without them.
   The first three integers are functions of BLAS and how many bytes their integers have. */
typedef void (*Sgemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                        float, float *, int);
typedef void (*Dgemm32)(int, int, int, int, int, int, double, const double *, int, const double *,
                        int, double, double *, int);
typedef void (*Sgemm64)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t,
                        const float *, int64_t, float, float *, int64_t);
typedef void (*Dgemm64)(int, int, int, int64_t, int64_t, int64_t, double, const double *, int64_t,
                        const double *, int64_t, double, double *, int64_t);
typedef void (*Sgemv32)(int, int, int, int, float, const float *, int, const float *, int, float,
                        float *, int);
typedef void (*Dgemv32)(int, int, int, int, double, const double *, int, const double *, int,
                        double, double *, int);
typedef void (*Sgemv64)(int, int, int64_t, int64_t, float, const float *, int64_t, const float *,
                        int64_t, float, float *, int64_t);
typedef void (*Dgemv64)(int, int, int64_t, int64_t, double, const double *, int64_t, const double *,
                        int64_t, double, double *, int64_t);

/* On processors with AVX-512, OpenBLAS has kernels for small products. That for a transposed second
   matrix takes twice as long as the others, longer than to transpose the matrix before. */
#ifdef __AVX512F__
#define MOST_TRANSPOSED 4096
#else
#define MOST_TRANSPOSED 0
#endif
#define TRANSPOSE(real) for (int64_t i = 0; i < k; ++i) for (int64_t j = 0; j < n; ++j) \
    ((real *)to)[i * n + j] = ((const real *)b)[j * lb + i]
static int transpose_small(const int64_t *h, const char *b, double *to) {
    const int64_t m = h[5], n = h[6], k = h[7], lb = h[9];
    if (h[3] || !h[4] || m < 16 || k > 64 || n * k > MOST_TRANSPOSED) return 0;
    if (h[2] == 4) TRANSPOSE(float);
    else TRANSPOSE(double);
    return 1;
}
static void matrix_product(const int64_t *h, char *a, char *b, char *c) {
    void *function = (void *)h[0];
    const int wide = h[1] == 8, is_float = h[2] == 4;
    const int64_t m = h[5], n = h[6], k = h[7], la = h[8], lc = h[10];
    double transposed[MOST_TRANSPOSED + 1];
    const int is_done = transpose_small(h, b, transposed);
    const int ta = h[3] ? 112 : 111, tb = h[4] && !is_done ? 112 : 111;
    const int64_t lb = is_done ? n : h[9];
    if (is_done) b = (char *)transposed;
#define GEMM(Type, real) ((Type)function)(101, ta, tb, m, n, k, 1, (const real *)a, la, \
                                          (const real *)b, lb, 0, (real *)c, lc)
    if (wide && is_float) GEMM(Sgemm64, float);
    else if (wide) GEMM(Dgemm64, double);
    else if (is_float) GEMM(Sgemm32, float);
    else GEMM(Dgemm32, double);
}
/* A matrix or its transpose times a vector. */
static void vector_product(const int64_t *h, char *a, char *x, char *y) {
    void *function = (void *)h[0];
    const int wide = h[1] == 8, is_float = h[2] == 4, ta = h[3] ? 112 : 111;
    const int64_t m = h[5], n = h[6], la = h[8], ix = h[9], iy = h[10];
#define GEMV(Type, real) ((Type)function)(101, ta, m, n, 1, (const real *)a, la, \
                                          (const real *)x, ix, 0, (real *)y, iy)
    if (wide && is_float) GEMV(Sgemv64, float);
    else if (wide) GEMV(Dgemv64, double);
    else if (is_float) GEMV(Sgemv32, float);
    else GEMV(Dgemv32, double);
}
/* The products of a part of the stack: `count` ones from the one with number `first`. */
static void some_products(const int64_t *h, char **data, int64_t first, int64_t count) {
    const int64_t axes = h[11], *axis = h + 12;
    int64_t at[8] = {0}, rest = first;
    char *a = data[0], *b = data[1], *c = data[2];
    for (int64_t k = axes - 1; k >= 0; --k) {
        const int64_t *one = axis + 4 * k;
        at[k] = rest % one[0];
        rest /= one[0];
        a += one[1] * at[k]; b += one[2] * at[k]; c += one[3] * at[k];
    }
    while (count-- > 0) {
        if (h[4] == 2) vector_product(h, a, b, c);
        else matrix_product(h, a, b, c);
        for (int64_t k = axes - 1; k >= 0; --k) {
            const int64_t *one = axis + 4 * k;
            a += one[1]; b += one[2]; c += one[3];
            if (++at[k] < one[0]) break;
            a -= one[1] * one[0]; b -= one[2] * one[0]; c -= one[3] * one[0];
            at[k] = 0;
        }
    }
}
/* Threads of BLAS divide each product, and wait for each other at its end. Products of a stack are
   divided among our threads instead. BLAS has one number of threads for all callers: the first one
   sets it to 1, and the last one restores it. */
typedef struct {
    const int64_t *h;
    char **data;
    int64_t count, share;
} Stack;
static int64_t stacks_under_way, blas_threads;
static char changes_threads;

static void use_one_thread(const int64_t *functions, int64_t step) {
    while (__atomic_test_and_set(&changes_threads, __ATOMIC_ACQUIRE)) {}
    if (step > 0 && !stacks_under_way) blas_threads = ((int (*)(void))functions[0])();
    if (step > 0 && !stacks_under_way && blas_threads > 1) ((void (*)(int))functions[1])(1);
    stacks_under_way += step;
    if (!stacks_under_way && blas_threads > 1) ((void (*)(int))functions[1])((int)blas_threads);
    __atomic_clear(&changes_threads, __ATOMIC_RELEASE);
}
static void products_of_task(char **given, const int64_t *z, int64_t task, Slot *slots) {
    const Stack *s = (const Stack *)given;
    const int64_t first = task * s->share, left = s->count - first;
    const unsigned state = flush_small_results();
    some_products(s->h, s->data, first, left < s->share ? left : s->share);
    keep_small_results(state);
}
static void products(const int64_t *h, char **data) {
    const int64_t axes = h[11], *axis = h + 12, *divided = axis + 4 * axes;
    const int64_t each = h[5] * h[6] * (h[4] == 2 ? 1 : h[7]);
    Stack s = {h, data, 1, 0};
    for (int64_t k = 0; k < axes; ++k) s.count *= axis[4 * k];
    s.share = 1 + SHARED_PRODUCTS / (each + 1);
    if (!divided[0] || s.count < 4 || s.count * each < 2 * SHARED_PRODUCTS) {
        some_products(h, data, 0, s.count);
        return;
    }
    int64_t z[ELEMENTS + 1] = {0};
    z[TASKS] = (s.count + s.share - 1) / s.share;
    z[ELEMENTS] = s.count * each / OPERATIONS_PER_ELEMENT;
    use_one_thread(divided + 1, 1);
    run_tasks((char **)&s, z, (const Team *)divided[0], 0, products_of_task, 0);
    use_one_thread(divided + 1, -1);
}
/* Copy elements between arrays with strides: bytes of an element, the number of axes, then per
   axis the size and both strides in bytes. */
#define ROW(type) for (int64_t i = 0; i < n; ++i) \
    *(type *)(to + i * down) = *(const type *)(from + i * step)
typedef struct { double parts[2]; } Pair;
static void copy_row(char *to, const char *from, int64_t n, int64_t step, int64_t down,
                     int64_t size) {
    if (step == size && down == size) {
        if (to != from) memcpy(to, from, n * size);
    } else if (size == 4) ROW(int32_t);
    else if (size == 8) ROW(int64_t);
    else if (size == 1) ROW(char);
    else if (size == 2) ROW(int16_t);
    else if (size == 16) ROW(Pair);
    else for (int64_t i = 0; i < n; ++i) memcpy(to + i * down, from + i * step, size);
}
static void copy_elements(const int64_t *h, const char *from, char *to) {
    const int64_t size = h[0], axes = h[1], *axis = h + 2;
    const int64_t *last = axis + 3 * (axes - 1);
    int64_t at[16] = {0};
    for (;;) {
        copy_row(to, from, last[0], last[1], last[2], size);
        int64_t k = axes - 2;
        for (; k >= 0; --k) {
            const int64_t *one = axis + 3 * k;
            from += one[1]; to += one[2];
            if (++at[k] < one[0]) break;
            from -= one[1] * one[0]; to -= one[2] * one[0];
            at[k] = 0;
        }
        if (k < 0) return;
    }
}
/* Write one element everywhere: its size, the number of elements, its bytes. */
static void fill(const int64_t *h, char *to) {
    const int64_t size = h[0], count = h[1];
    const char *element = (const char *)(h + 2);
    int is_zero = 1;
    for (int64_t i = 0; i < size; ++i) is_zero &= !element[i];
    if (is_zero) memset(to, 0, size * count);
    else for (int64_t i = 0; i < count; ++i) memcpy(to + i * size, element, size);
}

/* A function of functions.py. It returns 0, 2 if there is no memory, or 3 if the steps have to run
   from Python, where they raise the error that belongs to their operands. */
typedef int Function(const int64_t *h, char **data);

static int run_steps(const int64_t *p, const int64_t *end, char **place);
static int run_plan(int64_t *s, char **given);
static int run_taped(const int64_t *h, char **data);

/* What rounds keep that are not counted before they run. */
typedef struct { char *data; int64_t capacity, rounds; } Tape;

/* Make room for one more round, of so many bytes. */
static int grow(Tape *tape, int64_t size) {
    if (tape->rounds < tape->capacity) return 0;
    const int64_t more = tape->capacity ? 2 * tape->capacity : 65536 / (size + 1) + 16;
    char *data = realloc(tape->data, more * size + 1);
    if (!data) return 2;
    tape->data = data;
    tape->capacity = more;
    return 0;
}

static void copy_carried(char *to, const char *from, int64_t size) {
    if (to != from) memcpy(to, from, size);
}

/* Run a round of a loop again and again. First the number of rounds, whether the last entry comes
   first, whether the first carried value is a condition, whether it is an error if that is true
   after the last round, the place of the tape or -1, the bytes that a round keeps there, and the
   numbers of carried values, of entries of stacks and of values on the tape. Per carried value:
   the places where a round reads and writes it, which are the same if rounds change it there, the
   place of its first value, two parts of the memory (-1 if an entry of a stack is written, or the
   value is changed where it is), the place for the last value or -1, and its bytes.
   Per entry: its place in a round, the place of the stack, its bytes, and by how many entries it is
   shifted. Per value on the tape: its place in a round, and its offset in what the round keeps.
   Then the instructions of a round. */
static int run_rounds(const int64_t *h, const int64_t *end, char **place) {
    const int64_t backwards = h[1], is_while = h[2], size = h[5];
    const int64_t carried = h[6], entries = h[7], kept = h[8];
    const int64_t *carry = h + 9, *entry = carry + 7 * carried, *keep = entry + 4 * entries;
    const int64_t *steps = keep + 2 * kept;
    Tape *tape = h[4] < 0 ? 0 : (Tape *)place[h[4]];
    const int64_t rounds = tape && !is_while ? tape->rounds : h[0];
    for (int64_t i = 0; i < carried; ++i) {
        const int64_t *one = carry + 7 * i;
        if (one[0] == one[1]) copy_carried(place[one[0]], place[one[2]], one[6]);
        else place[one[0]] = place[one[2]];
    }
    int code = 0;
    for (int64_t r = 0; r <= rounds; ++r) {
        if (is_while && !*place[carry[0]]) break;
        if (r == rounds) {
            code = is_while && h[3] ? ENDLESS : 0;
            break;
        }
        const int64_t k = backwards ? rounds - 1 - r : r;
        if (tape && is_while && (code = grow(tape, size))) return code;
        for (int64_t i = 0; i < kept; ++i)
            place[keep[2 * i]] = tape->data + k * size + keep[2 * i + 1];
        for (int64_t i = 0; i < entries; ++i) {
            const int64_t *one = entry + 4 * i;
            place[one[0]] = place[one[1]] + (k + one[3]) * one[2];
        }
        for (int64_t i = 0; i < carried; ++i) {
            const int64_t *one = carry + 7 * i;
            if (one[3] >= 0) place[one[1]] = place[one[3 + (r & 1)]];
        }
        code = run_steps(steps, end, place);
        if (code) return code;
        if (tape && is_while) tape->rounds += 1;
        for (int64_t i = 0; i < carried; ++i) place[carry[7 * i]] = place[carry[7 * i + 1]];
    }
    for (int64_t i = 0; i < carried; ++i) {
        const int64_t *one = carry + 7 * i;
        if (one[5] >= 0) copy_carried(place[one[5]], place[one[0]], one[6]);
    }
    return code;
}

static int run_loop(const int64_t *h, char **data) {
    const int64_t *z = (const int64_t *)h[0];
    return run_tasks(data, z, (const Team *)h[1], h[2], (Work *)h[3], (Close *)h[4]);
}
static int run_steps(const int64_t *p, const int64_t *end, char **place) {
    for (; p < end; p += p[0]) {
        const int64_t count = p[2];
        char *data[count + 1];
        for (int64_t i = 0; i < count; ++i) data[i] = place[p[3 + 2 * i]] + p[4 + 2 * i];
        const int64_t *h = p + 3 + 2 * count;
        int code = 0;
        switch (p[1]) {
        case TABLE:
            data[count] = (char *)h[5];
            /* fall through */
        case LOOP:
            code = run_loop(h, data);
            break;
        case ROWS: {
            int64_t is_wrong = 0;
            data[count] = (char *)&is_wrong;
            code = run_loop(h, data);
            if (is_wrong) code = 3;
            break;
        }
        case PRODUCT: {
            const unsigned state = flush_small_results();
            products(h, data);
            keep_small_results(state);
            break;
        }
        case COPY: copy_elements(h, data[0], data[1]); break;
        case FILL: fill(h, data[0]); break;
        case CALL: code = ((Function *)h[0])(h + 1, data); break;
        case ROUNDS: code = run_rounds(h, p + p[0], place); break;
        case SEQUENCE: code = run_plan((int64_t *)h[0], data); break;
        case TAPED: code = run_taped(h, data); break;
        }
        if (code) return code;
    }
    return 0;
}

/* Run two sequences that share a tape: per sequence its integers, the number of its arrays and
   which arrays of the instruction they are, -1 for the tape. */
static int run_taped(const int64_t *h, char **data) {
    Tape tape = {0};
    int code = 0;
    for (int part = 0; part < 2 && !code; ++part) {
        const int64_t count = h[1], *which = h + 2;
        char *given[count + 1];
        for (int64_t i = 0; i < count; ++i)
            given[i] = which[i] < 0 ? (char *)&tape : data[which[i]];
        code = run_plan((int64_t *)h[0], given);
        h = which + count;
    }
    free(tape.data);
    return code;
}

/* Run the instructions of a sequence with the addresses of its arrays; `s` is described below. */
static int run_plan(int64_t *s, char **given) {
    const int64_t arrays = s[4], constants = s[5], parts = s[6];
    char *place[arrays + constants + parts + 1];
    const int64_t *p = s + FIXED + 4 * arrays;
    for (int64_t i = 0; i < arrays; ++i) place[i] = given[i];
    for (int64_t i = 0; i < constants; ++i) place[arrays + i] = (char *)*p++;
    char *memory = (char *)s[8];
    const int is_own = memory && !__atomic_exchange_n(s + 10, 1, __ATOMIC_ACQUIRE);
    if (!is_own && !(memory = malloc(s[9] + 64))) return 2;
    char *start = is_own ? memory : (char *)(((intptr_t)memory + 63) & ~(intptr_t)63);
    for (int64_t i = 0; i < parts; ++i) place[arrays + constants + i] = start + *p++;
    const int code = run_steps(p, p + s[7], place);
    if (is_own) __atomic_store_n(s + 10, 0, __ATOMIC_RELEASE);
    else free(memory);
    return code;
}

/* A builtin function of Python. Its self is an array of integers: addresses of NumPy's type and
   three functions of Python, the numbers of arrays, of constants and of parts of the memory, the
   number of integers of the instructions, the address and the size of the memory, whether it is in
   use, and whether other Python threads go on; then dtype, size, scalar type and flags of every
   array; addresses of constants; offsets in the memory; the instructions.
   Returns 0, 1 if an array does not fit, 2 if there is no memory, 3 if an index or a matrix is
   wrong, or 4 if a loop did not end. */
void *run_sequence(Array *self, Array **given, intptr_t count) {
    int64_t *s = (int64_t *)self->data;
    void *(*integer)(long) = (void *(*)(long))s[1];
    const int64_t arrays = s[4];
    if (count != arrays) return integer(1);
    char *data[arrays + 1];
    const int64_t *p = s + FIXED;
    for (int64_t i = 0; i < arrays; ++i, p += 4) {
        data[i] = elements(given[i], (void *)s[0], p, (int)p[3]);
        if (!data[i]) return integer(1);
    }
    void *state = s[11] ? ((void *(*)(void))s[2])() : 0;
    const int code = run_plan(s, data);
    if (s[11]) ((void (*)(void *))s[3])(state);
    return integer(code);
}
"""


def sequence_text() -> str:
    """Return the text with its constants; it follows that of the runtime and of direct calls."""
    names = (
        "LOOP", "PRODUCT", "COPY", "FILL", "ROWS", "ROUNDS", "CALL", "TABLE", "SEQUENCE", "TAPED",
    )  # fmt: skip
    lines = [f"#define {name} {globals()[name]}" for name in names]
    lines.append(f"#define OPERATIONS_PER_ELEMENT {OPERATIONS_PER_ELEMENT}")
    lines.append(f"#define SHARED_PRODUCTS {_SHARED_PRODUCTS}")
    # The text of direct calls has a number of the same name.
    lines.append(f"#define ENDLESS {ENDLESS}")
    lines += ["#undef FIXED", f"#define FIXED {FIXED}"]
    return "\n".join(lines) + SMALL_RESULTS + TEXT
