"""Why a library does not agree with tapegrad about a sample, or was not asked.

A reason names what differs and, for results that differ, which side NumPy, SciPy or differences
support; see `arbiter.py`. An outcome without a reason is a fault of tapegrad until it has one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.oracles.comparison import Outcome


class Reason(NamedTuple):
    """A reason, and the outcomes that it is about."""

    text: str
    verdict: str
    """"differs" or "not compared"."""
    words: str = ""
    """A pattern that is in the outcome's text."""
    samples: str = ""
    """A pattern that the sample's name matches."""
    library: str = ""
    right: str = ""
    """The side that must be right."""
    has_own_rule: bool | None = None

    def explains(self, outcome: Outcome) -> bool:
        """Return whether this is the reason of an outcome."""
        return (
            outcome.verdict == self.verdict
            and re.search(self.words, outcome.text) is not None
            and re.match(self.samples, outcome.sample) is not None
            and self.library in ("", outcome.library)
            and self.right in ("", outcome.right)
            and self.has_own_rule in (None, outcome.has_own_rule)
        )


NOT_COMPARED = [
    Reason("tapegrad refuses these arguments, in words.", "not compared", "^tapegrad refuses"),
    Reason(
        "The program is so long that XLA compiles it for minutes; PyTorch is asked about it.",
        "not compared",
        "^the program has",
        library="jax",
    ),
    Reason(
        "The library does not have the function in double precision, or draws random numbers by "
        "rejection in another way.",
        "not compared",
        "has no translation of",
    ),
    Reason(
        "The library has no order of complex numbers. tapegrad has that of NumPy: by the real "
        "part, then by the imaginary part.",
        "not compared",
        "omplex|iinfo|'torch.dtype' object|Invalid integer data type 'c'",
    ),
    Reason(
        "The library has no derivative of the function, or none for this argument.",
        "not compared",
        "(?i)derivative|differentia|vjp not implemented|gradient with respect to",
    ),
    Reason(
        "The kernel of the Schur decomposition writes in place, which PyTorch does not "
        "differentiate.",
        "not compared",
        "inplace operation",
        library="torch",
    ),
    Reason(
        "PyTorch has no slices with negative steps.",
        "not compared",
        "step must be greater than zero",
        library="torch",
    ),
]

DIFFERS = [
    Reason(
        "The derivative is defined separately, because the formula of the value is not meant  "
        "to be differentiated. The library differentiates that formula.",
        "differs",
        "^gradient",
        right="tapegrad",
        has_own_rule=True,
    ),
    Reason(
        "PyTorch computes the factor `2**y` of an integer `y` in integers.",
        "differs",
        "^gradient",
        "ldexp|frexp",
        "torch",
        "tapegrad",
    ),
    Reason(
        "PyTorch has the function without a derivative and returns a result without a gradient.",
        "differs",
        "^gradient",
        "bessel_k",
        "torch",
        "tapegrad",
    ),
    Reason(
        "PyTorch gives 0 at a singular matrix, where the gradient is that of the cofactors.",
        "differs",
        "^gradient",
        "det-singular",
        "torch",
        "tapegrad",
    ),
    Reason(
        "PyTorch has no such function. It differentiates the steps of the generic kernel, an "
        "iteration that stops by values, which does not give the function's derivative.",
        "differs",
        "^gradient",
        "sqrtm|logm|scipy-fractional_matrix_power",
        "torch",
        "tapegrad",
    ),
    Reason(
        "PyTorch passes a gradient to the imaginary part of the diagonal, which the decomposition "
        "does not read.",
        "differs",
        "^gradient",
        "scipy-cholesky_banded",
        "torch",
        "tapegrad",
    ),
    Reason(
        "JAX takes the derivative of a sign for 0; that of `z / |z|` is not 0 for complex `z`.",
        "differs",
        "^gradient",
        "sign",
        "jax",
        "tapegrad",
    ),
    Reason(
        "JAX takes the other root of `z**2 - 1` in a part of the plane.",
        "differs",
        "^gradient",
        "acosh",
        "jax",
        "tapegrad",
    ),
    Reason(
        "The parts of the formula have kinks at 0 that cancel. JAX differentiates each by itself.",
        "differs",
        "^gradient",
        "sigmoid_cross_entropy_with_logits-zero",
        "jax",
        "tapegrad",
    ),
    Reason(
        "JAX gives NaN at one of the arguments.",
        "differs",
        "^gradient 0 is finite",
        "spence",
        "jax",
        "tapegrad",
    ),
    Reason(
        "The real and the imaginary part are replaced apart, as NumPy does; the library replaces "
        "only some of them.",
        "differs",
        "^value",
        "nan_to_num",
    ),
]

REASONS = [*NOT_COMPARED, *DIFFERS]


def reason_of(outcome: Outcome) -> str:
    """Return why an outcome is as it is, or "" if nobody has said so."""
    return next((reason.text for reason in REASONS if reason.explains(outcome)), "")
