"""TensorBoard: contents of the event files, read by an independent reader."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.errors import ArgumentError
from tapegrad.extend import register_backend, unregister_backend
from tapegrad.io.checksums import crc32c
from tapegrad.io.wire import message
from tapegrad.keras.callbacks.event_files import EventFile
from tapegrad.keras.callbacks.summaries import buckets
from tests.keras.event_reader import curve, fields, read_entries, read_events

keras = tf.keras
X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
Y = X.sum(1, keepdims=True)


def dense_model(rate: Any = 0.05) -> Any:
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(rate), "mse", metrics=["mae"])
    return made


def fit(folder: Path, model: Any = None, epochs: int = 3, **options: Any) -> Any:
    """Train on five batches per epoch, with validation."""
    callback = keras.callbacks.TensorBoard(folder, **options)
    return (model or dense_model()).fit(
        X, Y, batch_size=8, epochs=epochs, validation_data=(X, Y), callbacks=[callback], verbose=0
    )


# The format


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"123456789", 0xE3069283),
        # RFC 3720, B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_checksums_are_those_of_the_literature(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_messages_are_encoded_as_protocol_buffers_are() -> None:
    data = message([(1, 150), (2, "testing"), (3, b"\x00"), (16, -1), (4, 1.5)])

    assert data == (
        b"\x08\x96\x01"
        b"\x12\x07testing"
        b"\x1a\x01\x00"
        b"\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        b"\x21" + struct.pack("<d", 1.5)
    )


def test_a_file_begins_with_the_version_of_the_format(tmp_path: Path) -> None:
    file = EventFile(tmp_path / "a" / "b")
    file.close()

    (event,) = read_events(tmp_path / "a" / "b")
    assert event[3] == [b"brain.Event:2"]
    assert event[1][0] > 1.6e9


def test_two_files_at_the_same_time_have_different_names(tmp_path: Path) -> None:
    first, second = EventFile(tmp_path), EventFile(tmp_path)
    first.close()
    second.close()

    assert first.path != second.path


# Scalars


def test_epochs_of_training_and_validation_are_curves(tmp_path: Path) -> None:
    values = fit(tmp_path).history

    for part, prefix in (("train", ""), ("validation", "val_")):
        for name in ("loss", "mae"):
            expected = dict(enumerate(values[prefix + name]))
            assert curve(tmp_path / part, f"epoch_{name}") == pytest.approx(expected)


def test_the_learning_rate_is_a_curve(tmp_path: Path) -> None:
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=5, decay_rate=0.5)

    fit(tmp_path, dense_model(rate))

    expected = {0: 0.05, 1: 0.025, 2: 0.0125}
    assert curve(tmp_path / "train", "epoch_learning_rate") == pytest.approx(expected)


def test_nothing_of_batches_is_written_by_default(tmp_path: Path) -> None:
    fit(tmp_path, write_steps_per_second=True)

    tags = {entry.tag for entry in read_entries(tmp_path / "train")}
    assert tags == {"epoch_loss", "epoch_mae", "epoch_learning_rate", "epoch_steps_per_second"}


@pytest.mark.parametrize(("freq", "steps"), [("batch", range(1, 16)), (4, [4, 8, 12])])
def test_batches_are_written_as_often_as_asked(tmp_path: Path, freq: Any, steps: Any) -> None:
    seen: dict[int, float] = {}

    def note(batch: int, logs: Any) -> None:
        seen[len(seen) + 1] = float(logs["loss"])

    callback = keras.callbacks.TensorBoard(tmp_path, update_freq=freq)
    noting = keras.callbacks.LambdaCallback(on_train_batch_end=note)
    dense_model().fit(X, Y, batch_size=8, epochs=3, callbacks=[callback, noting], verbose=0)

    found = curve(tmp_path / "train", "batch_loss")
    assert found == pytest.approx({step: seen[step] for step in steps})


def test_batches_that_are_run_together_are_counted_one_by_one(tmp_path: Path) -> None:
    callback = keras.callbacks.TensorBoard(tmp_path, update_freq=5, write_graph=False)
    callback.set_model(dense_model())
    callback.on_train_begin()
    for epoch in range(2):
        callback.on_epoch_begin(epoch)
        for last in (3, 7):
            callback.on_train_batch_begin(last - 3)
            callback.on_train_batch_end(last, {"loss": float(last)})
        callback.on_epoch_end(epoch, {})
    callback.on_train_end()

    assert curve(tmp_path / "train", "batch_loss") == {8: 7.0, 12: 3.0, 16: 7.0}


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_the_metrics_of_a_batch_are_read_when_a_later_one_is_written(tmp_path: Path) -> None:
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            callback = keras.callbacks.TensorBoard(tmp_path, update_freq=1)
            callback.set_model(dense_model())
            callback.on_train_begin()
            counts = []
            for batch in range(3):
                callback.on_train_batch_begin(batch)
                logs = {"loss": tf.constant(float(batch))}
                with tf.debug.transfers("count") as seen:
                    callback.on_train_batch_end(batch, logs)
                counts.append(seen.count)
            callback.on_train_end()
    finally:
        unregister_backend("strict")

    assert counts == [0, 1, 1]
    assert curve(tmp_path / "train", "batch_loss") == {1: 0.0, 2: 1.0, 3: 2.0}


def test_steps_per_second_are_written_for_batches_and_epochs(tmp_path: Path) -> None:
    fit(tmp_path, epochs=1, update_freq=1, write_steps_per_second=True)

    assert len(curve(tmp_path / "train", "batch_steps_per_second")) == 5
    (pace,) = curve(tmp_path / "train", "epoch_steps_per_second").values()
    assert 0 < pace < 1e6


def test_an_evaluation_by_itself_is_written_at_the_number_of_steps(tmp_path: Path) -> None:
    model = dense_model()
    model.fit(X, Y, batch_size=8, verbose=0)

    callback = keras.callbacks.TensorBoard(tmp_path)
    found = model.evaluate(X, Y, callbacks=[callback], verbose=0, return_dict=True)

    written = curve(tmp_path / "validation", "evaluation_loss_vs_iterations")
    assert written == pytest.approx({5: found["loss"]})


def test_a_metric_of_several_numbers_is_left_out(tmp_path: Path) -> None:
    callback = keras.callbacks.TensorBoard(tmp_path)
    callback.set_model(dense_model())
    callback.on_train_begin()
    callback.on_epoch_end(0, {"loss": float("nan"), "per_class": np.ones(3)})
    callback.on_train_end()

    assert np.isnan(curve(tmp_path / "train", "epoch_loss")[0])
    assert curve(tmp_path / "train", "epoch_per_class") == {}


def test_another_training_adds_files(tmp_path: Path) -> None:
    callback = keras.callbacks.TensorBoard(tmp_path)
    for _ in range(2):
        dense_model().fit(X, Y, callbacks=[callback], verbose=0)

    assert len(list((tmp_path / "train").iterdir())) == 2


# Weights


def test_histograms_count_the_weights(tmp_path: Path) -> None:
    model = dense_model()

    fit(tmp_path, model, epochs=3, histogram_freq=2)

    found = [entry for entry in read_entries(tmp_path / "train") if entry.plugin == "histograms"]
    last = {entry.tag: entry.value for entry in found if entry.step == 2}
    assert {entry.step for entry in found} == {0, 2}
    assert list(last) == [f"{name}/histogram" for name in model.named_variables()]
    for layer in model.layers:
        values = layer.get_weights()[0].astype("float64")
        counts, edges = np.histogram(values, 30)
        rows = last[f"{layer.name}/kernel/histogram"]
        np.testing.assert_array_equal(rows[:, 2], counts)
        np.testing.assert_allclose(rows[:, 0], edges[:-1], rtol=1e-14)
        np.testing.assert_allclose(rows[:, 1], edges[1:], rtol=1e-14)


def test_histograms_of_one_value_and_of_none() -> None:
    same = buckets(np.full((2, 3), 7.0))

    assert (same[:, :2] == 7.0).all()
    assert same[:, 2].tolist() == [0.0] * 29 + [6.0]
    assert buckets(np.zeros(0)).shape == (30, 3)
    assert buckets(np.array([1.0, np.nan, np.inf]))[:, 2].sum() == 1


def grey_values(png: bytes) -> Any:
    """The pixels of a grey PNG without filters."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, bits, colours = struct.unpack(">IIBB", png[16:26])
    assert (bits, colours) == (8, 0)
    start = png.index(b"IDAT")
    (length,) = struct.unpack(">I", png[start - 4 : start])
    body = png[start : start + 4 + length]
    assert struct.unpack(">I", png[start + 4 + length : start + 8 + length]) == (zlib.crc32(body),)
    lines = np.frombuffer(zlib.decompress(body[4:]), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def test_weights_are_pictures_from_their_lowest_to_their_highest_value(tmp_path: Path) -> None:
    model = dense_model()
    fit(tmp_path, model, epochs=1, histogram_freq=1, write_images=True)

    name = model.layers[0].name
    (entry,) = [e for e in read_entries(tmp_path / "train") if e.tag == f"{name}/kernel/image"]
    width, height, png = entry.value
    kernel = model.layers[0].get_weights()[0]
    expected = (kernel - kernel.min()) / (kernel.max() - kernel.min()) * 255
    assert (entry.plugin, width, height) == ("images", b"4", b"3")
    np.testing.assert_allclose(grey_values(png), expected, atol=1.0)


# The graph


def graph_of(folder: Path) -> dict[str, tuple[str, list[str]]]:
    """The class and the inputs of each node by name."""
    (graph,) = [event[4][0] for event in read_events(folder) if 4 in event]
    nodes = [fields(node) for node in fields(graph)[1]]
    return {
        node[1][0].decode(): (node[2][0].decode(), [name.decode() for name in node.get(3, [])])
        for node in nodes
    }


def test_the_graph_has_the_calls_of_all_layers(tmp_path: Path) -> None:
    x = keras.Input((3,), name="x")
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, name="a")], name="inner")
    shared = keras.layers.Dense(3, name="shared")
    joined = keras.layers.Add(name="join")([inner(x), shared(shared(x))])
    model = keras.Model(x, keras.layers.Dense(1, name="end")(joined))
    model.compile("sgd", "mse")

    fit(tmp_path, model)

    assert graph_of(tmp_path / "train") == {
        "x": ("InputLayer", []),
        "inner/a": ("Dense", ["x"]),
        "shared": ("Dense", ["x"]),
        "shared_call_2": ("Dense", ["shared"]),
        "join": ("Add", ["inner/a", "shared_call_2"]),
        "end": ("Dense", ["join"]),
    }


def test_a_model_that_is_built_by_its_first_batch_has_a_graph(tmp_path: Path) -> None:
    model = keras.Sequential([keras.layers.Dense(1, name="only")])
    model.compile("sgd", "mse")

    fit(tmp_path, model)

    assert "only" in graph_of(tmp_path / "train")


class Own(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)


@pytest.mark.parametrize("is_own", [True, False])
def test_no_graph_is_written_where_there_is_none_or_nobody_wants_it(
    tmp_path: Path, is_own: bool
) -> None:
    model = Own() if is_own else dense_model()
    model.compile("sgd", "mse")

    fit(tmp_path, model, write_graph=is_own)

    assert not any(4 in event for event in read_events(tmp_path / "train"))


# Errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"update_freq": 0},
            r"update_freq must be 'epoch', 'batch' or a number of batches. Got 0.",
        ),
        ({"update_freq": "step"}, "Got 'step'"),
        (
            {"histogram_freq": -1},
            "histogram_freq must be a number of epochs, or 0 for never. Got -1.",
        ),
        ({"embeddings_freq": True}, "embeddings_freq must be a number of epochs"),
    ],
)
def test_what_is_not_there_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        keras.callbacks.TensorBoard(**options)


def test_embeddings_are_written_for_the_projector(tmp_path: Path) -> None:
    words = keras.layers.Embedding(5, 2, name="words")
    model = keras.Sequential([words, keras.layers.Flatten(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    board = keras.callbacks.TensorBoard(
        tmp_path, embeddings_freq=2, embeddings_metadata={"words": "words.tsv"}
    )

    model.fit(np.array([[1, 2], [3, 4]]), np.ones(2), epochs=3, verbose=0, callbacks=[board])

    text = (tmp_path / "train" / "projector_config.pbtxt").read_text()
    assert text.count("embeddings {") == text.count('metadata_path: "words.tsv"') == 1
    names = sorted(path.name for path in (tmp_path / "train").glob("*.h5"))
    assert names == [f"keras_embedding.ckpt-{epoch}.weights.h5" for epoch in (0, 2)]
    last = words.embeddings.numpy()
    words.embeddings.assign(0 * last)
    model.load_weights(tmp_path / "train" / names[-1])
    np.testing.assert_array_equal(words.embeddings, last)
    board = keras.callbacks.TensorBoard(
        tmp_path, embeddings_freq=1, embeddings_metadata={"letters": "a.tsv"}
    )
    with pytest.raises(ArgumentError, match=r"names \['letters'\]. The embeddings .* \['words'\]"):
        model.fit(np.array([[1, 2]]), np.ones(1), verbose=0, callbacks=[board])


def test_a_profile_is_not_written_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"no profile for profile_batch=\(2, 4\)"):
        keras.callbacks.TensorBoard(profile_batch=(2, 4))
