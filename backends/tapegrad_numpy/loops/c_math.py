"""C source of elementary functions, as templates for float and double; see vector_maths.py.

There are no branches: all cases are computed and one is selected, so that compilers vectorise the
loop. The error is about 2 ulp in single precision and 4 in double, for `erfc` and `normcdf` 5.
"""

from __future__ import annotations

from string import Template

BASE = Template(r"""
static INLINE $I bits_$T($T x) { union { $T x; $I i; } u = {.x = x}; return u.i; }
static INLINE $T from_bits_$T($I i) { union { $I i; $T x; } u = {.i = i}; return u.x; }
static INLINE $T power_of_two_$T($I k) { return from_bits_$T(($I)(($U)(k + $BIAS) << $MANTISSA)); }
static INLINE $T magnitude_$T($T x) { return $FABS(x); }
static INLINE $T signed_as_$T($T x, $T y) { return $COPYSIGN(x, y); }
/* a if the condition is true, else b; by masks, because compilers generate worse code for ?: */
static INLINE $T choose_$T(int condition, $T a, $T b) {
    $I mask = -($I)condition;
    return from_bits_$T((bits_$T(a) & mask) | (bits_$T(b) & ~mask));
}
#ifdef FUSED
static INLINE $T mad_$T($T a, $T b, $T c) { return $FMA(a, b, c); }
/* a * a - h, exactly, for h the rounded square */
static INLINE $T rest_of_square_$T($T a, $T h) { return $FMA(a, a, -h); }
#else
static INLINE $T mad_$T($T a, $T b, $T c) { return a * b + c; }
static INLINE $T rest_of_square_$T($T a, $T h) {
    $T top = from_bits_$T(bits_$T(a) & -(($I)1 << ($MANTISSA / 2 + 1))), low = a - top;
    return ((top * top - h) + 2 * top * low) + low * low;
}
#endif
""")

TEXTS: dict[str, tuple[str, Template]] = {}
"""The functions that each function needs, and its source."""

TEXTS["power_of_root"] = (
    "",
    Template(r"""
/* x to the power of n / 2 for an odd number n; the power of -infinity is that of infinity */
static INLINE $T power_of_root_$T($T x, int n) {
    $T base = choose_$T(x == -($T)INFINITY, ($T)INFINITY, x + 0), y = $SQRT(base);
    if (n > 1 || n < -1) y *= base; /* no loop, because compilers would not vectorise around it */
    if (n > 3 || n < -3) y *= base;
    if (n > 5 || n < -5) y *= base;
    return n < 0 ? 1 / y : y;
}
"""),
)
TEXTS["whole_power"] = (
    "",
    Template(r"""
/* x to the power of n; in double precision each power of a float is exact enough */
static INLINE $T whole_power_$T($T x, int n) {
    const int m = n < 0 ? -n : n;
    const double square = (double)x * x, fourth = square * square;
    double y = m & 8 ? fourth * fourth : 1;
    if (m & 4) y *= fourth;
    if (m & 2) y *= square;
    if (m & 1) y *= x;
    return n < 0 ? 1 / y : y;
}
"""),
)
TEXTS["exp_parts"] = (
    "",
    Template(r"""
/* exp(y) - 1 = 2**k * (1 + p) - 1 */
static INLINE $T exp_parts_$T($T y, $I *k) {
    $T t = mad_$T(y, ($T)$LOG2_E, $SHIFTER), n = t - $SHIFTER;
    $T r = mad_$T(n, -$LN2_LOW, mad_$T(n, -$LN2_HIGH, y));
    *k = bits_$T(t) - bits_$T($SHIFTER);
    return mad_$T(r * r, $EXP, r);
}
"""),
)
TEXTS["times_two_to"] = (
    "",
    Template(r"""
/* y * 2**k for t = k + SHIFTER + 2 * BIAS, in two steps, because 2**k may overflow or underflow:
   the last bits of t are the sum of the biased exponents of both factors */
static INLINE $T times_two_to_$T($T t, $T y) {
    const $U both = bits_$T(t), one = both >> 1;
    return y * from_bits_$T(one << $MANTISSA) * from_bits_$T((both - one) << $MANTISSA);
}
static INLINE $T between_$T($T x, $T low, $T high) {
    x = choose_$T(x > high, high, x);
    return choose_$T(x < low, low, x);
}
"""),
)
TEXTS["exp"] = (
    "times_two_to",
    Template(r"""
static INLINE $T exp_$T($T given) {
    const $T shift = $SHIFTER + 2 * $BIAS, x = between_$T(given, $EXP_LOW, $EXP_HIGH);
    $T t = mad_$T(x, ($T)$LOG2_E, shift), n = t - shift;
    $T r = mad_$T(n, -$LN2_LOW, mad_$T(n, -$LN2_HIGH, x));
    return times_two_to_$T(t, 1 + mad_$T(r * r, $EXP, r));
}
"""),
)
TEXTS["exp2"] = (
    "times_two_to",
    Template(r"""
static INLINE $T exp2_$T($T given) {
    const $T shift = $SHIFTER + 2 * $BIAS, x = between_$T(given, -$EXP2_HIGH, $EXP2_HIGH);
    $T t = x + shift, r = (x - (t - shift)) * ($T)0.693147180559945309417232121458;
    return times_two_to_$T(t, 1 + mad_$T(r * r, $EXP, r));
}
"""),
)
TEXTS["expm1"] = (
    "exp_parts",
    Template(r"""
static INLINE $T expm1_$T($T x) {
    $I k;
    $T p = exp_parts_$T(x, &k), half = power_of_two_$T(k - 1);
    $T y = choose_$T(magnitude_$T(x) < $TINY, x, 2 * mad_$T(half, p, half - ($T)0.5));
    y = choose_$T(x > $EXP_HIGH, ($T)INFINITY, y);
    return choose_$T(x < $EXPM1_LOW, -1, y);
}
"""),
)
TEXTS["tanh"] = (
    "exp_parts",
    Template(r"""
static INLINE $T tanh_$T($T x) {
    $T a = magnitude_$T(x), b = a + a;
    $I k;
    $T p = exp_parts_$T(b, &k), s = power_of_two_$T(k), t = mad_$T(s, p, s - 1);
    return signed_as_$T(choose_$T(b > $TANH_HIGH, 1, t / (t + 2)), x);
}
"""),
)
TEXTS["log"] = (
    "",
    Template(r"""
static INLINE $T log_$T($T x) {
    int small = x < $LEAST_NORMAL;
    $T y = choose_$T(small, x * ($T)((int64_t)1 << ($MANTISSA + 1)), x);
    $I k = (bits_$T(y) - $SQRT_HALF) >> $MANTISSA;
    $T f = from_bits_$T(bits_$T(y) - ($I)(($U)k << $MANTISSA)) - 1;
    $T e = from_bits_$T(k + bits_$T($SHIFTER)) - $SHIFTER - choose_$T(small, $MANTISSA + 1, 0);
    $T half = ($T)0.5 * f * f, result;
    $LOG_STEPS
    result = choose_$T(x < ($T)INFINITY, result, x);
    result = choose_$T(x < 0, ($T)NAN, result);
    return choose_$T(x == 0, -($T)INFINITY, result);
}
"""),
)
TEXTS["log1p"] = (
    "log",
    Template(r"""
static INLINE $T log1p_$T($T x) {
    $T u = 1 + x, rest = choose_$T(x < 1, x - (u - 1), 1 - (u - x)), y = log_$T(u);
    $T result = choose_$T((u > 0) & (u < ($T)INFINITY), y + rest / u, y);
    return choose_$T(magnitude_$T(x) < $TINY, x, result);
}
"""),
)
TEXTS["half_exp"] = (
    "exp_parts",
    Template(r"""
/* exp(a) / 2 and (exp(a) - 1) / 2 for a >= 0; half of exp(a) overflows later than exp(a) */
static INLINE $T half_exp_$T($T a, $T *without_half) {
    $I k;
    $T p = exp_parts_$T(choose_$T(a > $SINH_HIGH, $SINH_HIGH, a), &k), q = power_of_two_$T(k - 2);
    *without_half = 2 * mad_$T(q, p, q - ($T)0.25);
    return 2 * mad_$T(q, p, q);
}
"""),
)
TEXTS["sinh"] = (
    "half_exp",
    Template(r"""
static INLINE $T sinh_$T($T x) {
    $T a = magnitude_$T(x), e, h = half_exp_$T(a, &e);
    $T y = choose_$T(a > 20, h, e + e / mad_$T(2, e, 1));
    return signed_as_$T(choose_$T(a < $TINY, a, y), x);
}
"""),
)
TEXTS["cosh"] = (
    "half_exp",
    Template(r"""
static INLINE $T cosh_$T($T x) {
    $T e, h = half_exp_$T(magnitude_$T(x), &e);
    return h + ($T)0.25 / h;
}
"""),
)
TEXTS["asinh"] = (
    "log1p",
    Template(r"""
static INLINE $T asinh_$T($T x) {
    $T a = magnitude_$T(x), square = a * a;
    int far = a > $LOG_OF_DOUBLE; /* log(2 * a), as log(1 + (a - 1)) + log(2) */
    $T w = choose_$T(far, a - 1, a + square / (1 + $SQRT(1 + square)));
    return signed_as_$T(log1p_$T(w) + choose_$T(far, ($T)0.693147180559945309417232, 0), x);
}
"""),
)
TEXTS["acosh"] = (
    "log1p",
    Template(r"""
static INLINE $T acosh_$T($T x) {
    $T t = x - 1;
    int far = x > $LOG_OF_DOUBLE;
    $T w = choose_$T(far, t, t + $SQRT(t * (t + 2)));
    $T y = log1p_$T(w) + choose_$T(far, ($T)0.693147180559945309417232, 0);
    return choose_$T(x < 1, ($T)NAN, y);
}
"""),
)
TEXTS["atanh"] = (
    "log1p",
    Template(r"""
static INLINE $T atanh_$T($T x) {
    $T a = magnitude_$T(x);
    return signed_as_$T(($T)0.5 * log1p_$T(2 * a / (1 - a)), x);
}
"""),
)
TEXTS["erfc_scaled"] = (
    "exp",
    Template(r"""
/* erfc(a) for a >= 0, from exp(-a * a) */
static INLINE $T erfc_scaled_$T($T a, $T e) {
    $T t = (a - $TAIL_MIDDLE) / (a + $TAIL_MIDDLE);
    return e * ($TAIL / mad_$T(2, a, 1));
}
static INLINE $T exp_of_square_$T($T a, $T factor) {
    $T h = a * a, e = exp_$T(factor * h);
    return mad_$T(e, factor * rest_of_square_$T(a, h), e);
}
static INLINE $T bounded_$T($T x, $T bound) {
    $T a = magnitude_$T(x);
    return choose_$T(a > bound, bound, a);
}
static INLINE $T erf_small_$T($T x) {
    $T z = x * x;
    return mad_$T(x, $ERF, x);
}
"""),
)
TEXTS["erf"] = (
    "erfc_scaled",
    Template(r"""
static INLINE $T erf_$T($T x) {
    $T a = bounded_$T(x, 28), y = 1 - erfc_scaled_$T(a, exp_$T(-a * a));
    return choose_$T(a < 1, erf_small_$T(x), signed_as_$T(y, x));
}
"""),
)
TEXTS["erfc"] = (
    "erfc_scaled",
    Template(r"""
static INLINE $T erfc_$T($T x) {
    $T a = bounded_$T(x, 28), y = erfc_scaled_$T(a, exp_of_square_$T(a, -1));
    y = choose_$T(x < 0, 2 - y, y);
    return choose_$T(a < ($T)0.5, 1 - erf_small_$T(x), y);
}
"""),
)
TEXTS["normcdf"] = (
    "erfc_scaled",
    Template(r"""
/* the part of the normal distribution below x */
static INLINE $T normcdf_$T($T x) {
    $T a = bounded_$T(x, 39), e = exp_of_square_$T(a, -($T)0.5);
    $T b = a * ($T)0.70710678118654752440, y = ($T)0.5 * erfc_scaled_$T(b, e);
    $T near = mad_$T(($T)0.5, erf_small_$T(signed_as_$T(b, x)), ($T)0.5);
    y = choose_$T(x > 0, 1 - y, y);
    return choose_$T(b < ($T)0.5, near, y);
}
"""),
)
TEXTS["sin_cos"] = (
    "",
    Template(r"""
/* sin(x + turns * pi / 2) */
static INLINE $T sin_cos_$T($T x, $I turns) {
    $REDUCTION
    $T z = r * r;
    $T s = mad_$T(r * z, $SIN, r + $REST), c = mad_$T(z * z, $COS, 1 - ($T)0.5 * z) - r * $REST;
    $T y = choose_$T((q & 1) != 0, c, s);
    return choose_$T((q & 2) != 0, -y, y);
}
"""),
)
TEXTS["sin"] = (
    "sin_cos",
    Template(r"""
static INLINE $T sin_$T($T x) {
    return choose_$T(magnitude_$T(x) < $TINY, x, sin_cos_$T(x, 0));
}
"""),
)
TEXTS["cos"] = (
    "sin_cos",
    Template(r"""
static INLINE $T cos_$T($T x) { return sin_cos_$T(x, 1); }
"""),
)
TEXTS["cbrt"] = (
    "",
    Template(r"""
static INLINE $T better_root_$T($T g, $T m) { /* Halley's step triples the number of exact bits */
    $T cube = g * g * g;
    return mad_$T(g, (m - cube) / (mad_$T(2, cube, m)), g);
}
static INLINE $T cbrt_$T($T x) {
    $T a = magnitude_$T(x);
    int small = a < $LEAST_NORMAL;
    $T y = choose_$T(small, a * $CBRT_SCALE, a);
    $I e = (bits_$T(y) >> $MANTISSA) - $BIAS;
    $T t = mad_$T(from_bits_$T(e + bits_$T($SHIFTER)) - $SHIFTER, ($T)(1.0 / 3), $SHIFTER);
    $I third = bits_$T(t) - bits_$T($SHIFTER); /* of the exponent: m is between 1/2 and 4 */
    $T m = from_bits_$T(bits_$T(y) - ($I)(($U)(3 * third) << $MANTISSA));
    $T g = better_root_$T($CBRT, m);
    $CBRT_STEP
    g = g * power_of_two_$T(third) * choose_$T(small, $CBRT_UNSCALE, 1);
    g = choose_$T((a > 0) & (a < ($T)INFINITY), g, a);
    return signed_as_$T(g, x);
}
"""),
)
TEXTS["exponent_of"] = (
    "",
    Template(r"""
/* the exponent of frexp */
static INLINE int32_t exponent_of_$T($T x) {
    $T a = magnitude_$T(x);
    $I small = a < $LEAST_NORMAL;
    $T y = choose_$T(small, a * ($T)((int64_t)1 << ($MANTISSA + 1)), a);
    $I e = (bits_$T(y) >> $MANTISSA) - ($BIAS - 1) - (-small & ($MANTISSA + 1));
    return (int32_t)(e & -($I)((a > 0) & (a < ($T)INFINITY)));
}
"""),
)
TEXTS["times_power_of_two"] = (
    "",
    Template(r"""
/* x * 2**n in steps of which only the last can round; n is between -4000 and 4000 */
static INLINE $T scaled_up_$T($T x, $I *n) {
    int far = *n > $BIAS;
    *n -= -($I)far & $BIAS;
    return choose_$T(far, x * power_of_two_$T($BIAS), x);
}
static INLINE $T scaled_down_$T($T x, $I *n) {
    int far = *n < 1 - $BIAS;
    *n += -($I)far & ($BIAS - $MANTISSA - 2);
    return choose_$T(far, x * power_of_two_$T($MANTISSA + 2 - $BIAS), x);
}
static INLINE $T times_power_of_two_$T($T x, int32_t n) {
    $I k = n;
    x = scaled_up_$T(scaled_up_$T(x, &k), &k);
    x = scaled_down_$T(scaled_down_$T(x, &k), &k);
    k = k > $BIAS ? $BIAS : k;
    k = k < 1 - $BIAS ? 1 - $BIAS : k;
    return x * power_of_two_$T(k);
}
"""),
)
TEXTS["floored_quotient"] = (
    "",
    Template(r"""
/* the quotient that belongs to the floored remainder, as in Python */
static INLINE $T floored_quotient_$T($T a, $T b) {
    $T r = $FMOD(a, b), q = (a - r) / b;
    q = choose_$T((r != 0) & ((r < 0) != (b < 0)), q - 1, q);
    $T whole = $FLOOR(q);
    whole = choose_$T(q - whole > ($T)0.5, whole + 1, whole);
    whole = choose_$T(q == 0, signed_as_$T(0, a / b), whole);
    return choose_$T(b == 0, a / b, whole);
}
"""),
)
TEXTS["floored_remainder"] = (
    "",
    Template(r"""
/* the remainder with the sign of the divisor, as in Python */
static INLINE $T floored_remainder_$T($T a, $T b) {
    $T r = $FMOD(a, b);
    $T shifted = choose_$T((r < 0) != (b < 0), r + b, r);
    return choose_$T(r == 0, signed_as_$T(0, b), shifted);
}
"""),
)
TEXTS["larger"] = (
    "",
    Template(r"""
static INLINE $T larger_$T($T a, $T b) {
    /* equal numbers have equal bits, except for 0.0 and -0.0 */
    $T tie = from_bits_$T(bits_$T(a) & bits_$T(b));
    return choose_$T((a > b) | (a != a), a, choose_$T(a == b, tie, b));
}
"""),
)
TEXTS["smaller"] = (
    "",
    Template(r"""
static INLINE $T smaller_$T($T a, $T b) {
    $T tie = from_bits_$T(bits_$T(a) | bits_$T(b));
    return choose_$T((a < b) | (a != a), a, choose_$T(a == b, tie, b));
}
"""),
)
TEXTS["log_of_sum"] = (
    "exp log1p",
    Template(r"""
static INLINE $T log_of_sum_$T($T a, $T b) {
    $T gap = a - b, top = choose_$T(a > b, a, b);
    $T far = top + log1p_$T(exp_$T(-magnitude_$T(gap)));
    $T equal = a + ($T)0.693147180559945309417232121458;
    return choose_$T(a == b, equal, choose_$T(gap != gap, gap, far));
}
"""),
)
TEXTS["log2_of_sum"] = (
    "exp2 log1p",
    Template(r"""
static INLINE $T log2_of_sum_$T($T a, $T b) {
    $T gap = a - b, top = choose_$T(a > b, a, b);
    $T far = mad_$T(log1p_$T(exp2_$T(-magnitude_$T(gap))), ($T)$LOG2_E, top);
    return choose_$T(a == b, a + 1, choose_$T(gap != gap, gap, far));
}
"""),
)

LOG_STEPS = {
    "float": Template(r"""
    result = mad_float(e, $LN2_LOW, f * f * f * $LOG_FLOAT) - half;
    result = mad_float(e, $LN2_HIGH, f + result);"""),
    "double": Template(r"""
    double s = f / (2 + f), z = s * s, R = z * $LOG_DOUBLE;
    result = e * $LN2_HIGH - ((half - mad_double(s, half + R, e * $LN2_LOW)) - f);"""),
}
# Double precision needs the remainder besides r. Single precision uses exact products instead.
REDUCTION = {
    "float": Template(r"""
#ifdef FUSED
    float t = x * (float)$TWO_OVER_PI + 0x1.8p23f, n = t - 0x1.8p23f;
    float r = mad_float(n, -$HALF_PI_FLOAT_1, mad_float(n, -$HALF_PI_FLOAT_0, x));
    r = mad_float(n, -$HALF_PI_FLOAT_2, r);
    int32_t q = bits_float(t) + turns;
#else
    double n = ((double)x * $TWO_OVER_PI + 0x1.8p52) - 0x1.8p52;
    float r = (float)(((double)x - n * $HALF_PI_0) - n * $HALF_PI_REST);
    int32_t q = (int32_t)(float)n + turns;
#endif"""),
    "double": Template(r"""
    double t = x * $TWO_OVER_PI + 0x1.8p52, n = t - 0x1.8p52;
    double a = x - n * $HALF_PI_0, b = n * $HALF_PI_1, head = a - b, back = head - a;
    double low = ((a - (head - back)) - (b + back)) - n * $HALF_PI_2;
    double r = head + low, rest = (head - r) + low;
    int64_t q = bits_double(t) + turns;"""),
}

POWER = Template(r"""
/* computed in double, so that the result is rounded once */
static INLINE float pow_float(float x, float y) {
    double a = magnitude_float(x), half = 0.5 * (double)y;
    int64_t k = (bits_double(a) - $SQRT_HALF) >> 52;
    double f = from_bits_double(bits_double(a) - (int64_t)((uint64_t)k << 52)) - 1;
    double s = f / (2 + f), z = s * s;
    double e = from_bits_double(k + bits_double(0x1.8p52)) - 0x1.8p52;
    double log2 = mad_double(mad_double(s * z, $LOG_POWER, s + s), $LOG2_E, e);
    log2 = choose_double(a == 0, -(double)INFINITY, log2);
    double w = (double)y * choose_double(a < (double)INFINITY, log2, a);
    w = choose_double(w < -200, -200, w);
    w = choose_double(w > 200, 200, w);
    double t = w + 0x1.8p52, r = (w - (t - 0x1.8p52)) * 0x1.62e42fefa39efp-1;
    double p = mad_double(r * r, $EXP_POWER, r) + 1;
    float result = (float)(p * power_of_two_double(bits_double(t) - bits_double(0x1.8p52)));
    int whole = rint((double)y) == (double)y, odd = whole & (rint(half) != half);
    result = choose_float(odd, signed_as_float(result, x), result);
    result = choose_float((x < 0) & (a < (double)INFINITY) & !whole, (float)NAN, result);
    int one = (y == 0) | (x == 1) | ((a == 1) & (magnitude_float(y) == (float)INFINITY));
    return choose_float(one, 1, result);
}
static INLINE double pow_double(double x, double y) { return pow(x, y); }
""")
