"""Coefficients of the functions in vector_maths.py: polynomials, and constants split in parts.

The polynomials interpolate the function at the Chebyshev points of the interval next to them. They
were computed in quadruple precision and rounded. Coefficients are in order of rising powers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Precision:
    """The constants of a floating point type."""

    type: str
    integer: str
    unsigned: str
    mantissa: int
    bias: int
    shifter: str
    """1.5 * 2**mantissa: adding it rounds to an integer, which is then in the last bits."""
    least_normal: str
    ln2: tuple[str, str]
    exp_range: tuple[str, str]
    """Outside this range the result is 0 or infinity."""
    exp2_high: str
    """Above it 2**x is infinity, below its negative 0."""
    cbrt_scale: tuple[str, str]
    """A power of 8 that makes subnormal numbers normal, and the reciprocal of its cube root."""
    expm1_low: str
    tanh_high: str
    sinh_high: str
    """Above it sinh and cosh are infinity."""
    log_of_double: str
    """Above it asinh(x) and acosh(x) round to log(2 * x)."""
    tiny: str
    """The magnitude below which x + x**2 rounds to x."""
    sqrt_half_bits: str
    exp: tuple[str, ...]
    """(exp(r) - 1 - r) / r**2 for abs(r) < 0.3467."""
    sin: tuple[str, ...]
    """(sin(r) - r) / r**3 in r**2 < 0.617."""
    cos: tuple[str, ...]
    """(cos(r) - 1 + r**2 / 2) / r**4 in r**2 < 0.617."""
    erf: tuple[str, ...]
    """erf(x) / x - 1 in x**2 < 1."""
    tail: tuple[str, ...]
    """exp(a**2) erfc(a) (1 + 2 a) in t = (a - k) / (a + k), for a >= 0 until erfc underflows."""
    tail_middle: str
    """k in the line above."""


FLOAT = Precision(
    type="float",
    integer="int32_t",
    unsigned="uint32_t",
    mantissa=23,
    bias=127,
    shifter="0x1.8p23f",
    least_normal="0x1p-126f",
    ln2=("0x1.62e4p-1f", "0x1.7f7d1cp-20f"),
    exp_range=("-104.0f", "89.0f"),
    exp2_high="160.0f",
    cbrt_scale=("0x1p24f", "0x1p-8f"),
    expm1_low="-18.0f",
    tanh_high="20.0f",
    sinh_high="89.6f",
    log_of_double="1e4f",
    tiny="0x1p-25f",
    sqrt_half_bits="0x3f3504f3",
    exp=("0x1p-1f", "0x1.5554dcp-3f", "0x1.555518p-5f", "0x1.120b9ap-7f", "0x1.6d12e0p-10f"),
    sin=("-0x1.555556p-3f", "0x1.11110ep-7f", "-0x1.a013a6p-13f", "0x1.6dbdd2p-19f"),
    cos=("0x1.555556p-5f", "-0x1.6c16c0p-10f", "0x1.a015c4p-16f", "-0x1.25242ap-22f"),
    erf=(
        "0x1.06eba8p-3f", "-0x1.81273ep-2f", "0x1.ce2d10p-4f", "-0x1.b7fabap-6f",
        "0x1.541270p-8f", "-0x1.a45088p-11f", "0x1.4a5690p-14f",
    ),
    tail=(
        "0x1.3ba592p+0f", "-0x1.1df1a4p-3f", "0x1.f7e3f0p-7f", "0x1.16e852p-4f",
        "-0x1.9dac70p-4f", "0x1.804fa6p-4f", "-0x1.10cdb4p-4f", "0x1.2a65f2p-5f",
        "-0x1.05f6c8p-6f", "0x1.c49f14p-8f", "0x1.b9e9b6p-11f",
    ),
    tail_middle="4.0f",
)  # fmt: skip

DOUBLE = Precision(
    type="double",
    integer="int64_t",
    unsigned="uint64_t",
    mantissa=52,
    bias=1023,
    shifter="0x1.8p52",
    least_normal="0x1p-1022",
    ln2=("0x1.62e42fee00000p-1", "0x1.a39ef35793c76p-33"),
    exp_range=("-746.0", "710.0"),
    exp2_high="1100.0",
    cbrt_scale=("0x1p54", "0x1p-18"),
    expm1_low="-38.0",
    tanh_high="40.0",
    sinh_high="710.6",
    log_of_double="1e9",
    tiny="0x1p-54",
    sqrt_half_bits="0x3fe6a09e667f3bcd",
    exp=(
        "0x1p-1", "0x1.5555555555556p-3", "0x1.5555555555555p-5", "0x1.11111111109aep-7",
        "0x1.6c16c16c1677ap-10", "0x1.a01a01a7c81b1p-13", "0x1.a01a01a4b4415p-16",
        "0x1.71de0d9ee3ffap-19", "0x1.27e4e13d86545p-22", "0x1.af38ce89f7055p-26",
        "0x1.1f685eaf46f16p-29",
    ),
    sin=(
        "-0x1.5555555555555p-3", "0x1.1111111111110p-7", "-0x1.a01a01a019936p-13",
        "0x1.71de3a54605eep-19", "-0x1.ae64541266378p-26", "0x1.61217ec017451p-33",
        "-0x1.ab17a7923544ap-41",
    ),
    cos=(
        "0x1.5555555555555p-5", "-0x1.6c16c16c16c16p-10", "0x1.a01a01a019d0ap-16",
        "-0x1.27e4fb7712bd9p-22", "0x1.1eed8deb6cd71p-29", "-0x1.9394b9c91d646p-37",
        "0x1.ab7833247a361p-45",
    ),
    erf=(
        "0x1.06eba8214db69p-3", "-0x1.812746b0379e6p-2", "0x1.ce2f21a042b30p-4",
        "-0x1.b82ce31284e00p-6", "0x1.565bcd0dbaa38p-8", "-0x1.c02db3dac435fp-11",
        "0x1.f9a321d5b8e1dp-14", "-0x1.f4d1e3183f78ep-17", "0x1.b9df224ca4a27p-20",
        "-0x1.5f1ecb6f06afdp-23", "0x1.f7b4bf3b0c7bfp-27", "-0x1.389d4f262cbc8p-30",
        "0x1.05ffd737c6602p-34",
    ),
    tail=(
        "0x1.3ba5916e9fd7fp+0", "-0x1.1df1ad154a28fp-3", "0x1.f7f5df66fd6b2p-7",
        "0x1.16ecefcfa5420p-4", "-0x1.9ddb23c3e88bdp-4", "0x1.7fee004e11047p-4",
        "-0x1.0fb06dfe55b64p-4", "0x1.3079edf6afb72p-5", "-0x1.096238829a103p-6",
        "0x1.49c672795ae39p-8", "-0x1.8d4a9c358d161p-11", "-0x1.a1df1d0157977p-13",
        "0x1.3be068468cff1p-13", "-0x1.995a165bfb90ap-16", "-0x1.788cb6125d278p-17",
        "0x1.7f2e89022af89p-18", "0x1.3b7bf198a88ddp-22", "-0x1.bb383d84837e3p-21",
        "0x1.4093bbdb2244ap-24", "0x1.d8f553235570ep-24", "-0x1.33de9402c1f5dp-26",
        "-0x1.e45a279d29f94p-27", "0x1.f8e6ce33532f8p-30", "0x1.58a12a6de32b4p-30",
    ),
    tail_middle="4.0",
)  # fmt: skip

LOG_FLOAT = (
    "0x1.555554p-2f", "-0x1.0000cep-2f", "0x1.999f14p-3f", "-0x1.54d03ep-3f", "0x1.231ce6p-3f",
    "-0x1.0a33eap-3f", "0x1.02814ep-3f", "-0x1.43b246p-4f",
)  # fmt: skip
"""(log(1 + f) - f + f**2 / 2) / f**3 for 1 + f between sqrt(1/2) and sqrt(2)."""

LOG_DOUBLE = (
    "0x1.5555555555558p-1", "0x1.99999999952d9p-2", "0x1.2492492df24c9p-2",
    "0x1.c71c62e434ba9p-3", "0x1.7462b50978dd3p-3", "0x1.39fe54273f781p-3",
    "0x1.2b58e1fea56cfp-3",
)  # fmt: skip
"""(log((1 + s) / (1 - s)) - 2 s) / s**3 in s**2, for the same 1 + f = (1 + s) / (1 - s)."""

LOG_POWER = (
    "0x1.5555555564eb1p-1", "0x1.999998caea16ep-2", "0x1.249323f316088p-2",
    "0x1.c67ad2f112133p-3", "0x1.8c8c9b24e0b35p-3",
)  # fmt: skip
"""The same to 43 bits, which is enough for powers in single precision."""

EXP_POWER = (
    "0x1p-1", "0x1.555555556e01cp-3", "0x1.555519186cc0ap-5", "0x1.1110f5b37cebcp-7",
    "0x1.6d1134cf56ff1p-10", "0x1.a0fa3e0340f6fp-13",
)  # fmt: skip
"""Like `Precision.exp`, to 31 bits, for powers in single precision."""

CBRT = ("0x1.fdd56cp-2", "0x1.6d14dap-1", "-0x1.105a08p-2", "0x1.f2824ep-5", "-0x1.679da8p-8")
"""The cube root of m to 9 bits, for m between 1/2 and 4."""

HALF_PI = ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2e037073p-69")
"""In parts of 33 bits, so that their products with integers below 2**20 are exact."""
HALF_PI_FLOAT = ("0x1.921fbp+0f", "0x1.5110b4p-22f", "0x1.84698ap-48f")
"""The product of the first part with an integer below 2**16 is exact enough for cancellation."""
HALF_PI_REST = "0x1.0b4611a626331p-34"
"""pi / 2 without its first part."""
TWO_OVER_PI = "0x1.45f306dc9c883p-1"
LOG2_E = "0x1.71547652b82fep+0"
