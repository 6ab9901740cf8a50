"""Damaged and hostile files end in one sentence, before they cost much time or memory."""

from __future__ import annotations

import copy
import io
import json
import random
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.core.files.limits import MOST_ROUNDS, limited
from tapegrad.data import Dataset
from tapegrad.errors import FileFormatError, TapegradError
from tapegrad.keras import Input, Model, Sequential, layers, ops
from tapegrad.keras.models import load_model, model_from_json
from tapegrad.keras.operation_sizes import estimate
from tapegrad.train import Checkpoint, latest_checkpoint

CONFIG = "config.json"


def function_named(name: str) -> dict[str, Any]:
    return {"class_name": "__name__", "config": {"module": "keras.ops", "class_name": name}}


def graph() -> Any:
    x = Input((4,))
    model = Model(x, layers.Dense(2)(ops.relu(x)))
    model.compile("adam", "mse", metrics=["mae"])
    return model


def parts_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "graph.keras"
    graph().save(path)
    return path.read_bytes()


def with_operation(saved: bytes, name: str, operands: list[Any], **options: Any) -> bytes:
    """The saved graph with another function in place of relu; "x" is its input."""
    parts = parts_of(saved)
    config = json.loads(parts[CONFIG])
    network = config["model"]["config"]
    (number,) = [i for i, one in enumerate(network["layers"]) if one["class_name"] == "Operation"]
    network["layers"][number]["config"] |= {"function": function_named(name), "options": options}
    (call,) = [one for one in network["calls"] if one[0] == number]
    place = call[1]["config"][0]
    call[1]["config"] = [place if operand == "x" else operand for operand in operands]
    return archive_of({**parts, CONFIG: json.dumps(config).encode()})


def with_config(saved: bytes, **changes: Any) -> bytes:
    parts = parts_of(saved)
    return archive_of(
        {**parts, CONFIG: json.dumps({**json.loads(parts[CONFIG]), **changes}).encode()}
    )


# Work

LOOP = function_named("maximum")
ENDLESS: dict[str, list[Any]] = {
    "fori_loop": [0, 10**12, LOOP, "x"],
    "scan": [LOOP, "x", None, 10**12],
    "diff": ["x", 10**9],
    "array_split": ["x", 10**9],
    "tile": ["x", [10**5, 10**5]],
    "repeat": ["x", 10**12],
    "one_hot": ["x", 10**10],
    "pad": ["x", [[0, 0], [10**9, 10**9]]],
    "broadcast_to": ["x", [10**6, 10**6, 4]],
    "zeros": [[10**5, 10**5], "float32", "x"],
    "arange": ["x", 10**12],
    "linspace": ["x", "x", 10**10],
    "bincount": ["x", None, 10**11],
    "histogram": ["x", 10**11],
}


@pytest.mark.parametrize("name", ENDLESS)
def test_work_that_a_file_asks_for_is_refused_before_it_begins(
    name: str, saved: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.keras"
    path.write_bytes(with_operation(saved, name, ENDLESS[name]))
    before = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=r"a\.keras' asks for .*safe_mode=False"):
            load_model(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert time.process_time() - before < 20  # with all imports
    assert peak < 2**26


def test_a_trusted_file_may_ask_for_more(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.keras"
    path.write_bytes(with_operation(saved, "fori_loop", [0, MOST_ROUNDS, LOOP, "x"]))
    with pytest.raises(FileFormatError, match=r"more than 10,000 rounds"):
        load_model(path)
    loaded = load_model(path, safe_mode=False)
    assert loaded(np.ones((1, 4), "float32")).shape == (1, 2)


def test_usual_work_is_not_refused(tmp_path: Path) -> None:
    x, y = Input((64, 64, 8)), Input((64, 64, 8))
    z = ops.concatenate([x + y, ops.tile(x, [1, 1, 1, 2])], axis=-1)
    z = ops.matmul(z, ops.transpose(z, (0, 1, 3, 2)))
    z = (
        ops.einsum("bijk,bljk->bil", z, z)
        + ops.sum(ops.pad(y, [[0, 0], [0, 0], [0, 0], [1, 1]]), (2, 3))[:, :, None]
    )
    model = Model([x, y], ops.fori_loop(0, 3, ops.maximum, z))
    model.save(tmp_path / "a.keras")

    assert load_model(tmp_path / "a.keras").output_shape == model.output_shape


@pytest.mark.parametrize("units", [2**20, 10**9, 10**12, 10**30])
def test_sizes_are_compared_with_the_weights_first(
    units: int, saved: bytes, tmp_path: Path
) -> None:
    parts = parts_of(saved)
    text = parts[CONFIG].replace(b'"units": 2', f'"units": {units}'.encode())
    (tmp_path / "a.keras").write_bytes(archive_of({**parts, CONFIG: text}))

    with pytest.raises(FileFormatError, match=r"largest one in the file has 8 elements"):
        load_model(tmp_path / "a.keras")


@pytest.mark.parametrize("shape", [[None, 10**12], [10**9, 10**9], [None, 2**20, 2**20]])
def test_inputs_are_limited(shape: list[Any], saved: bytes, tmp_path: Path) -> None:
    parts = parts_of(saved)
    config = json.loads(parts[CONFIG])
    config["model"]["config"]["inputs"][0]["config"][0]["config"] = shape
    (tmp_path / "a.keras").write_bytes(with_config(saved, **config))

    with pytest.raises(FileFormatError, match=r"elements are computed while this file is loaded"):
        load_model(tmp_path / "a.keras")


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("MeanIoU", {"num_classes": 10**6}),
        ("AUC", {"num_thresholds": 10**11}),
        ("PrecisionAtRecall", {"recall": 0.5, "num_thresholds": 10**11}),
    ],
)
def test_metrics_are_limited(name: str, config: Any, saved: bytes, tmp_path: Path) -> None:
    metric = {"module": "keras.metrics", "class_name": name, "config": config}
    given = {"optimizer": "sgd", "loss": "mse", "metrics": [metric]}
    (tmp_path / "a.keras").write_bytes(with_config(saved, compile_config=given))

    with pytest.raises(FileFormatError, match=r"asks for a loop"):
        load_model(tmp_path / "a.keras")


def test_text_is_limited_like_a_file() -> None:
    text = graph().to_json()
    hostile = text.replace('"class_name": "relu"', '"class_name": "zeros"')
    assert hostile != text
    with pytest.raises(FileFormatError):
        model_from_json(hostile.replace('"options": {}', '"options": {"shape": [99999999, 99999]}'))
    with pytest.raises(FileFormatError, match=r"nested more than 100 levels"):
        model_from_json("[" * 500 + "]" * 500)
    with pytest.raises(FileFormatError, match=r"not JSON"):
        model_from_json(f'{{"a": {"9" * 5000}}}')


def test_limits_end_with_the_block() -> None:
    with limited("A file", [1]):
        pass
    assert ops.fori_loop(0, MOST_ROUNDS + 1, lambda i, n: n + 1, 0) == MOST_ROUNDS + 1


@pytest.mark.parametrize(
    ("name", "shapes", "bound"),
    [
        ("matmul", [(3, 1024, 64), (3, 64, 1024)], 3 * 1024 * 1024),
        ("outer", [(2**15,), (2**15,)], 2**30),
        ("inv", [(4096, 4096)], 2**28),
        ("tensordot", [(2**10, 2**10), (2**10, 2**10)], 2**21),
        ("diag", [(2**16,)], 2**32),
    ],
)
def test_estimates(name: str, shapes: Any, bound: int) -> None:
    assert estimate(name, shapes, []) == bound


# Archives


@pytest.mark.parametrize("member", ["metadata.json", CONFIG, "other.bin"])
def test_an_archive_cannot_become_larger_than_itself(
    member: str, saved: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.keras"
    parts = {**parts_of(saved)}
    parts[member] = parts.get(member, b"") + b" " * 50_000_000
    path.write_bytes(archive_of(parts, zipfile.ZIP_DEFLATED))
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match=r"is compressed|has more than 65,536 bytes"):
            load_model(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert path.stat().st_size < 100_000
    assert peak < 2**22


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_are_there_once_and_not_many(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.keras"
    parts = parts_of(saved)
    file = io.BytesIO(saved)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(CONFIG, parts[CONFIG])
    path.write_bytes(file.getvalue())
    with pytest.raises(FileFormatError, match=r"'config\.json' is there twice"):
        load_model(path)

    path.write_bytes(archive_of({**parts, **{str(n): b"" for n in range(2000)}}))
    with pytest.raises(FileFormatError, match=r"2,00[45] members, and 1,000 are allowed"):
        load_model(path)


def test_a_cached_dataset_with_a_false_shape_is_refused(tmp_path: Path) -> None:
    list(Dataset.from_tensor_slices(np.zeros(3)).cache(tmp_path / "c"))
    path = tmp_path / "c.npz"
    changed = {
        name: content.replace(b"'shape': ()", b"'shape': (999999999999,)").replace(
            b" " * 14, b"", 1
        )
        for name, content in parts_of(path.read_bytes()).items()
    }
    path.write_bytes(archive_of(changed))

    with pytest.raises(FileFormatError, match=r"is not a cache of a tapegrad dataset"):
        list(Dataset.from_tensor_slices(np.zeros(3)).cache(tmp_path / "c"))


# Mutants

VALUES: list[Any] = [
    *(None, True, 0, -1, 10**12, 2**63, 10**400, 1.5, 1e308, float("nan"), "", "x", "__tuple__"),
    *([], {}, [[]], [1, 2, 3], {"class_name": "Dense"}, [[[[[[[[[[]]]]]]]]]]),
    {"class_name": "__tuple__", "config": [1]},
    {"class_name": "__place__", "config": 99},
    {"class_name": "__input__", "config": [[None, 3], "float32", "q"]},
    {"class_name": "__array__", "config": [[1, [2]], "float32"]},
    {"class_name": "__slice__", "config": [1]},
    function_named("fori_loop"),
]


def places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield before
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*before, key))


def at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def other_json(text: bytes, chance: random.Random) -> bytes:
    value = json.loads(text)
    for _ in range(chance.choice([1, 1, 2, 4])):
        all_places = list(places(value))
        place = chance.choice(all_places)
        if not place:
            value = chance.choice(VALUES)
            continue
        holder = at(value, place[:-1])
        action = chance.random()
        if action < 0.2:
            del holder[place[-1]]
        else:
            other = chance.choice(VALUES) if action < 0.8 else at(value, chance.choice(all_places))
            holder[place[-1]] = copy.deepcopy(other)
    return json.dumps(value).encode()


def other_header(data: bytes, chance: random.Random) -> bytes:
    size = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + size]
    header = json.loads(text)
    notes = header.get("__metadata__", {})
    if notes and chance.random() < 0.7:
        key = chance.choice(list(notes))
        notes[key] = other_json(notes[key].encode(), chance).decode()
        text = json.dumps(header).encode()
    else:
        text = other_json(text, chance)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def other_bytes(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        start = chance.randrange(len(changed))
        stop = start + chance.randrange(64)
        action = chance.random()
        if action < 0.5:
            changed[start] ^= 1 << chance.randrange(8)
        elif action < 0.7:
            changed = changed[: max(1, start)]
        elif action < 0.85:
            changed[stop:stop] = changed[start:stop]
        else:
            del changed[max(1, start) : stop]
    return bytes(changed)


def other_model(data: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return other_bytes(data, chance)
    parts = parts_of(data)
    name = chance.choice([CONFIG, CONFIG, CONFIG, *parts])
    changes = {".json": other_json, ".h5": other_bytes}
    change = changes.get(Path(name).suffix, other_header)
    return archive_of({**parts, name: change(parts[name], chance)})


def other_tensors(data: bytes, chance: random.Random) -> bytes:
    return (other_header if chance.random() < 0.6 else other_bytes)(data, chance)


def other_text(data: bytes, chance: random.Random) -> bytes:
    return (other_json if chance.random() < 0.6 else other_bytes)(data, chance)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_mutated_files_end_in_one_sentence_or_load(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    model, (x, y) = graph(), (np.ones((8, 4), "float32"), np.ones((8, 2), "float32"))
    model.fit(x, y, verbose=0)
    stack = Sequential([Input((6, 3)), layers.LSTM(2), layers.BatchNormalization()])
    checkpoint = Checkpoint(model=model, step=3, note={"a": [1]}, w=tf.Variable([1.0, 2.0]))
    list(Dataset.from_tensor_slices(np.arange(6.0)).cache(tmp_path / "cache"))
    model.save(tmp_path / "graph.keras")
    stack.save(tmp_path / "stack.keras")
    model.save_weights(tmp_path / "a.safetensors")
    checkpoint.save(tmp_path / "ckpt")
    kinds = {
        "graph.keras": (other_model, lambda: load_model(tmp_path / "graph.keras")),
        "stack.keras": (other_model, lambda: load_model(tmp_path / "stack.keras")),
        "a.safetensors": (other_tensors, lambda: model.load_weights(tmp_path / "a.safetensors")),
        "ckpt-1.safetensors": (other_tensors, lambda: checkpoint.restore(tmp_path / "ckpt-1")),
        "checkpoint": (other_text, lambda: latest_checkpoint(tmp_path)),
        "cache.npz": (other_bytes, lambda: list(Dataset.range(1).cache(tmp_path / "cache"))),
    }
    originals = {name: (tmp_path / name).read_bytes() for name in kinds}
    refused = 0
    for _ in range(60):
        for name, (change, load) in kinds.items():
            (tmp_path / name).write_bytes(change(originals[name], chance))
            try:
                load()
            except TapegradError:
                refused += 1
    assert refused > 100


def test_the_model_still_works_after_all_refusals(saved: bytes, tmp_path: Path) -> None:
    before = keras.dtype_policies.dtype_policy().name
    chance = random.Random(5)
    for _ in range(20):
        (tmp_path / "a.keras").write_bytes(other_model(saved, chance))
        try:
            load_model(tmp_path / "a.keras")
        except TapegradError:
            continue
    (tmp_path / "a.keras").write_bytes(saved)

    assert load_model(tmp_path / "a.keras")(np.ones((1, 4), "float32")).shape == (1, 2)
    assert keras.dtype_policies.dtype_policy().name == before
