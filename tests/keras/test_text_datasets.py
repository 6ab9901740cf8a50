"""imdb, reuters, boston_housing and california_housing, from files in a cache."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapegrad.errors import ArgumentError, FileFormatError, TapegradError
from tapegrad.keras.datasets import (
    boston_housing,
    california_housing,
    files,
    imdb,
    reuters,
    texts as texts_module,
)

RNG = np.random.default_rng(0)
TEXTS = [RNG.integers(1, 30, size=RNG.integers(2, 9)).tolist() for _ in range(20)]
LABELS = RNG.integers(0, 2, size=20)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    (tmp_path / "datasets").mkdir()
    return tmp_path / "datasets"


def objects(lists: list[Any]) -> Any:
    found = np.empty(len(lists), dtype=object)
    found[:] = lists
    return found


def put(cache: Path, monkeypatch: Any, module: Any, name: str, **arrays: Any) -> None:
    """Write a file to the cache, and let the module expect its hash."""
    np.savez(cache / name, **arrays)
    digest = hashlib.sha256((cache / name).read_bytes()).hexdigest()
    monkeypatch.setattr(module, "_HASH", digest)


@pytest.fixture
def reviews(cache, monkeypatch):
    put(cache, monkeypatch, imdb, "imdb.npz", x_train=objects(TEXTS[:12]), y_train=LABELS[:12],
        x_test=objects(TEXTS[12:]), y_test=LABELS[12:])  # fmt: skip


@pytest.fixture
def messages(cache, monkeypatch):
    put(cache, monkeypatch, reuters, "reuters.npz", x=objects(TEXTS), y=LABELS)


def orders(seed: int, *counts: int) -> list[Any]:
    rng, found = np.random.RandomState(seed), []
    for count in counts:
        order = np.arange(count)
        rng.shuffle(order)
        found.append(order)
    return found


def test_reviews_are_shuffled_marked_and_limited(reviews):
    (x_train, y_train), (x_test, y_test) = imdb.load_data(num_words=20)

    first, second = orders(113, 12, 8)
    train = [[1, *(w + 3 if w + 3 < 20 else 2 for w in TEXTS[k])] for k in first]
    test = [[1, *(w + 3 if w + 3 < 20 else 2 for w in TEXTS[12 + k])] for k in second]
    assert (x_train.tolist(), x_test.tolist()) == (train, test)
    np.testing.assert_array_equal(y_train, LABELS[:12][first])
    np.testing.assert_array_equal(y_test, LABELS[12:][second])


def test_other_numbers_for_words(reviews):
    (x_train, _), _ = imdb.load_data(
        skip_top=5, num_words=25, start_char=None, oov_char=None, index_from=0
    )

    (first,) = orders(113, 12)
    assert x_train.tolist() == [[w for w in TEXTS[k] if 5 <= w < 25] for k in first]


def test_long_reviews_are_left_out_with_their_labels(reviews):
    (x_train, y_train), (x_test, y_test) = imdb.load_data(maxlen=6, num_words=100)

    assert max(map(len, [*x_train, *x_test])) == 5
    first, _ = orders(113, 12, 8)
    short = [k for k in first if len(TEXTS[k]) + 1 < 6]
    assert [len(x) for x in x_train] == [len(TEXTS[k]) + 1 for k in short]
    np.testing.assert_array_equal(y_train, LABELS[short])
    assert len(x_test) == len(y_test)
    with pytest.raises(ArgumentError, match="No text has fewer than maxlen=2 words"):
        imdb.load_data(maxlen=2)


def test_messages_are_split(messages):
    (x_train, y_train), (x_test, y_test) = reuters.load_data(num_words=1000, test_split=0.25)

    (order,) = orders(113, 20)
    wanted = [[1, *(w + 3 for w in TEXTS[k])] for k in order]
    assert x_train.tolist() + x_test.tolist() == wanted
    assert (len(x_train), len(x_test)) == (15, 5)
    np.testing.assert_array_equal(np.concatenate([y_train, y_test]), LABELS[order])
    with pytest.raises(ArgumentError, match="test_split must be at least 0 and below 1"):
        reuters.load_data(test_split=1.0)


def test_houses_are_shuffled_and_split(cache, monkeypatch):
    x, y = RNG.normal(size=(1000, 8)), RNG.normal(size=1000)
    put(cache, monkeypatch, california_housing, "california_housing.npz", x=x, y=y)
    put(cache, monkeypatch, boston_housing, "boston_housing.npz", x=x, y=y)

    for count, load in [
        (1000, california_housing.load_data),
        (600, lambda: california_housing.load_data("small")),
        (1000, boston_housing.load_data),
    ]:
        (x_train, y_train), (x_test, y_test) = load()
        (order,) = orders(113, count)
        np.testing.assert_array_equal(np.concatenate([x_train, x_test]), x[order])
        np.testing.assert_array_equal(np.concatenate([y_train, y_test]), y[order])
        assert len(x_train) == int(0.8 * count)
    with pytest.raises(ArgumentError, match="version must be 'small' or 'large'"):
        california_housing.load_data("tiny")


def test_a_word_index_is_a_dictionary(cache, monkeypatch):
    path = cache / "imdb_word_index.json"
    path.write_text(json.dumps({"the": 1, "of": 2}))
    digest = hashlib.md5(path.read_bytes()).hexdigest()
    monkeypatch.setattr(imdb, "_INDEX_HASH", digest)

    assert imdb.get_word_index() == {"the": 1, "of": 2}


def test_an_absent_file_is_named_with_its_place(cache, monkeypatch):
    for module in (files, texts_module):
        monkeypatch.setattr(module, "ORIGIN", "file:///nowhere/")

    calls: dict[str, Any] = {
        "imdb.npz": imdb.load_data,
        "reuters_word_index.json": reuters.get_word_index,
        "boston_housing.npz": boston_housing.load_data,
        "california_housing.npz": california_housing.load_data,
    }
    for name, call in calls.items():
        with pytest.raises(TapegradError, match=rf"put the file at {cache / name}\."):
            call()


def test_a_file_with_code_or_of_another_kind_is_refused(cache, monkeypatch):
    put(cache, monkeypatch, imdb, "imdb.npz", x_train=objects([print, print]))
    with pytest.raises(FileFormatError, match=r"must not contain builtins\.print"):
        imdb.load_data()
    (cache / "imdb.npz").write_bytes(b"text")
    monkeypatch.setattr(imdb, "_HASH", hashlib.sha256(b"text").hexdigest())
    with pytest.raises(FileFormatError, match=r"imdb.npz is not a file of the dataset imdb"):
        imdb.load_data()
