"""Boston housing: prices of houses in 506 places, with 13 attributes."""

from __future__ import annotations

from tapegrad.keras.datasets.files import Split, arrays_of, split_rows

_HASH = "f553886a1f8d56431e820c5b82552d9d95cfcb96d1e678153f8839538947dff5"


def load_data(path: str = "boston_housing.npz", test_split: float = 0.2, seed: int = 113) -> Split:
    """Return training attributes with prices in k$, and test attributes with prices.

    One attribute assumes that the prices depend on the origin of the inhabitants: prefer
    `california_housing`, unless that is what you want to show.
    """
    found = arrays_of(path, "boston_housing", _HASH)
    return split_rows(found["x"], found["y"], test_split, seed)
