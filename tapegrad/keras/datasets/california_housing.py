"""California housing: prices of houses in 20,640 places, with 8 attributes."""

from __future__ import annotations

from tapegrad.core.argument_checks import check_choice
from tapegrad.keras.datasets.files import Split, arrays_of, split_rows

_HASH = "1a2e3a52e0398de6463aebe6f4a8da34fb21fbb6b934cf88c3425e766f2a1a6f"
_SMALL = 600


def load_data(
    version: str = "large",
    path: str = "california_housing.npz",
    test_split: float = 0.2,
    seed: int = 113,
) -> Split:
    """Return training attributes with prices in $, and test attributes with prices.

    The "small" version has 600 places.
    """
    check_choice("version", version, ("small", "large"))
    found = arrays_of(path, "california_housing", _HASH)
    count = _SMALL if version == "small" else None
    return split_rows(found["x"][:count], found["y"][:count], test_split, seed)
