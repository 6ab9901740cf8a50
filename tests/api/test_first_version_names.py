"""Names of TensorFlow's first version: the error says where they are now."""

from __future__ import annotations

from functools import reduce

import pytest

import tapegrad as tf
from tapegrad import first_version

SENTENCES = {
    "log": "Use tapegrad.math.log.",
    "random_normal": "Use tapegrad.random.normal.",
    "train.AdamOptimizer": "Use tapegrad.compat.v1.train.AdamOptimizer.",
    "train.Saver": "Use tapegrad.train.Checkpoint.",
    "global_variables_initializer": "Use tapegrad.compat.v1.global_variables_initializer.",
    "get_default_graph": "there are no graphs",
    "python.framework": "internal to TensorFlow; use the public names",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_error_says_what_to_use(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        reduce(getattr, name.split("."), tf)

    assert SENTENCES[name] in str(caught.value)


@pytest.mark.parametrize("name", sorted({*first_version.MOVED, *first_version._IN_V1}))
def test_the_named_places_exist(name: str) -> None:
    sentence = first_version.place_of(name)
    place = sentence.rpartition("Use tapegrad.")[2].removesuffix(".")

    assert callable(reduce(getattr, place.split("."), tf)) or name == "AUTO_REUSE"
