"""Samples of special functions made of hundreds of calls: too many to record each at every run."""

from __future__ import annotations

from collections.abc import Sequence

from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import scipy_special
from tests.seeds import LONG, is_chosen

NAMES = {sample.name for sample in scipy_special.SAMPLES}


def affordable(samples: Sequence[Sample], one_in: int) -> list[Sample]:
    """Return all samples but the long formulas, of which each commit takes another part.

    Their values and derivatives are tested at every run (tests/rules/test_samples.py). Recorded or
    on another device, they are elementwise calls like those of the other samples.
    """
    return [s for s in samples if LONG or s.name not in NAMES or is_chosen(s.name, one_in)]
