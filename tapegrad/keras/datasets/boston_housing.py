"""506 districts of Boston: 13 numbers about each, and what its houses cost."""

from __future__ import annotations

from tapegrad.keras.datasets.files import Split, arrays_of, houses

_HASH = "f553886a1f8d56431e820c5b82552d9d95cfcb96d1e678153f8839538947dff5"


def load_data(path: str = "boston_housing.npz", test_split: float = 0.2, seed: int = 113) -> Split:
    """Return rows and prices to learn from, and some for tests."""
    return houses(arrays_of(path, "boston_housing", _HASH), test_split, seed)
