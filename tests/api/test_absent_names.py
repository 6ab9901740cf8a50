"""Names of TensorFlow that tapegrad does not have: the error says what it offers instead."""

from __future__ import annotations

import traceback
from functools import reduce

import pytest

import tapegrad as tf
from tapegrad.absent import ABSENT, RULES


@pytest.mark.parametrize("name", ABSENT)
def test_the_error_for_an_absent_name_says_what_is_offered(name):
    *places, last = name.split(".")
    module = reduce(getattr, places, tf)

    assert not hasattr(module, last), "it exists now: remove it from the table"
    with pytest.raises(AttributeError) as caught:
        getattr(module, last)

    assert str(caught.value).startswith(f"module '{module.__name__}' has no attribute '{last}'. ")
    assert str(caught.value).endswith(ABSENT[name])


@pytest.mark.parametrize("module", [tf, tf.io, tf.compat, tf.data])
def test_a_name_that_nobody_has_gets_the_usual_error(module):
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        module.nothing  # noqa: B018


@pytest.mark.parametrize("sentence", sorted({*ABSENT.values(), *RULES.values()}))
def test_sentences_name_what_exists(sentence):
    words = sentence.replace(";", " ").replace(",", " ").replace("`", " ").split()
    for word in words:
        path = word.rstrip(".")
        if path.startswith(("tapegrad.", "keras.", "Dataset.")):
            start = {"tapegrad": tf, "keras": tf.keras, "Dataset": tf.data.Dataset}
            first, *rest = path.split(".")
            assert reduce(getattr, rest, start[first]) is not None


def test_a_suggestion_is_made_once() -> None:
    with pytest.raises(AttributeError) as caught:
        tf.keras.layers.Dens  # noqa: B018
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("Did you mean") == 1
