"""The memory budget of a function: the bytes that its intermediate values may need."""

from __future__ import annotations

from typing import Any

from tapegrad.core.out_of_memory import readable
from tapegrad.errors import ArgumentError
from tapegrad.program.building import Building


def check_budget(budget: Any) -> None:
    """Raise if a budget is neither None nor a positive number of bytes."""
    if budget is not None and (type(budget) is not int or budget <= 0):
        raise ArgumentError(
            f"memory_budget must be a positive int, a number of bytes. Got {budget!r}."
        )


def budget_warning(building: Building, budget: int | None) -> str:
    """Return a warning if a program needs more than its budget, else ""."""
    peak = 0 if budget is None else building.program().memory().peak
    if budget is None or peak <= budget:
        return ""
    return (
        f"its intermediate values need {readable(peak)}, more than its memory budget of "
        f"{readable(budget)}. Wrap parts of it in recompute_grad, or use smaller batches."
    )
