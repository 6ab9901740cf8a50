"""20,640 districts of California: 8 numbers about each, and what its houses cost."""

from __future__ import annotations

from tapegrad.core.choices import check_choice
from tapegrad.keras.datasets.files import Split, arrays_of, houses

_HASH = "1a2e3a52e0398de6463aebe6f4a8da34fb21fbb6b934cf88c3425e766f2a1a6f"


def load_data(
    version: str = "large",
    path: str = "california_housing.npz",
    test_split: float = 0.2,
    seed: int = 113,
) -> Split:
    """Return rows and prices to learn from, and some for tests; "small" takes 600 districts."""
    check_choice("version", version, ("small", "large"))
    number = 600 if version == "small" else None
    found = arrays_of(path, "california_housing", _HASH)
    return houses({name: rows[:number] for name, rows in found.items()}, test_split, seed)
