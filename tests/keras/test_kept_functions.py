"""Models with functions that have no name a file could refer to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapegrad.errors import ArgumentError
from tapegrad.keras import Input, Sequential, layers
from tapegrad.keras.models import load_model
from tapegrad.keras.saving import kept_functions
from tests.keras.test_model_files import X, same


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_functions_without_a_name_are_found_in_the_process_that_saved_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Sequential([
        Input((4,)),
        layers.Lambda(lambda x: x * x),
        layers.Dense(2, activation=lambda x: x + 1.0),
        layers.Lambda(abs),
    ])  # fmt: skip
    model.compile("sgd", loss=lambda y, p: abs(y - p))
    model.save(tmp_path / name)

    loaded = load_model(tmp_path / name)

    same(loaded.predict(X, verbose=0), model.predict(X, verbose=0))
    monkeypatch.setattr(kept_functions, "_PROCESS", "another")
    with pytest.raises(ArgumentError, match=r"custom_objects=\{'<lambda>': \.\.\.\}"):
        load_model(tmp_path / name)
    assert b"lambda x: x * x" not in (tmp_path / name).read_bytes()
