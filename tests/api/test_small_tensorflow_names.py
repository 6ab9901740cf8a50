"""Small names of TensorFlow: compressed texts, JSON, devices, sections, tables, static values."""

from __future__ import annotations

import gzip
import json
import threading
import zlib

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, FileFormatError


def test_compressed_texts():
    texts = [b"a", b"text" * 9]
    for kind, pack in (("ZLIB", zlib.compress), ("GZIP", gzip.compress), ("", bytes)):
        packed = tf.constant([pack(text) for text in texts])
        assert tf.io.decode_compressed(packed, kind).tolist() == texts
    with pytest.raises(FileFormatError, match="the bytes are not GZIP"):
        tf.io.decode_compressed(b"no", "GZIP")
    with pytest.raises(ArgumentError, match="compression_type must be"):
        tf.io.decode_compressed(b"no", "LZ4")


def test_examples_in_json():
    features = {
        "a": {"int64List": {"value": ["3", 4]}},
        "b": {"float_list": {"value": [0.5]}},
        "c": {"bytesList": {"value": ["aGk="]}},
    }
    text = json.dumps({"features": {"feature": features}})

    found = tf.io.parse_single_example(
        tf.io.decode_json_example(text),
        {"a": tf.io.FixedLenFeature([2], "int64"), "b": tf.io.FixedLenFeature([1], "float32"),
         "c": tf.io.FixedLenFeature([], "string")},
    )  # fmt: skip

    assert (found["a"].tolist(), found["b"].tolist()) == ([3, 4], [0.5])
    assert found["c"].numpy() == b"hi"
    for wrong in ("{", "[]", '{"features": {"feature": {"a": {"other": {}}}}}'):
        with pytest.raises(FileFormatError, match="is not an example in JSON"):
            tf.io.decode_json_example(wrong)


def test_paths_are_kept_in_a_variable(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("")

    found = tf.io.match_filenames_once(f"{tmp_path}/*.txt")
    (tmp_path / "c.txt").write_text("")

    assert [path[-5:] for path in found.numpy().tolist()] == [b"a.txt", b"b.txt"]


def test_names_of_devices_in_parts():
    name = "/job:worker/replica:0/task:2/device:GPU:1"
    spec = tf.DeviceSpec.from_string(name)

    assert spec == tf.DeviceSpec("worker", 0, 2, "gpu", 1)
    assert spec.to_string() == name
    assert tf.DeviceSpec.from_string("/cpu:0").to_string() == "/device:CPU:0"
    assert tf.DeviceSpec(device_type="GPU").to_string() == "/device:GPU:*"
    merged = spec.make_merged_spec(tf.DeviceSpec(device_type="CPU", device_index=0))
    assert merged == spec.replace(device_type="CPU", device_index=0)
    with tf.device(tf.DeviceSpec(device_type="CPU", device_index=0).to_string()):
        assert tf.constant(1.0).device == "cpu"
    with pytest.raises(ArgumentError, match="The name of a device looks like"):
        tf.DeviceSpec.from_string("GPU 0")
    with pytest.raises(ArgumentError, match="task must be an integer from 0"):
        tf.DeviceSpec(task=-1)
    with pytest.raises(ArgumentError, match="has the parts"):
        spec.replace(kind="GPU")


def test_one_function_of_a_section_runs_at_a_time():
    section, inside, most = tf.CriticalSection(), [], []

    def work():
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.001)
        inside.pop()
        return section.execute(lambda: "nested")

    threads = [threading.Thread(target=section.execute, args=(work,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == [1] * 8
    assert section.execute(work) == "nested"
    with pytest.raises(ArgumentTypeError, match="execute takes a function"):
        section.execute(1)


def test_dense_tables_refuse_their_two_keys():
    table = tf.lookup.experimental.DenseHashTable("string", "int64", -1, "none", "gone")
    table.insert(["a", "b"], [1, 2])
    table.erase(["b"])

    assert table.lookup(["a", "b", "c"]).tolist() == [1, -1, -1]
    with pytest.raises(ArgumentError, match="is the empty_key of this table"):
        table.insert(["none"], [1])
    with pytest.raises(ArgumentError, match="must differ"):
        tf.lookup.experimental.DenseHashTable("int64", "int64", -1, 0, 0)


def test_values_are_static_outside_of_functions():
    found = []

    @tf.function
    def record(x):
        found.append((tf.get_static_value(x), tf.is_symbolic_tensor(x)))
        return x * 2

    record(tf.constant(1.0))

    assert found[0] == (None, True)
    np.testing.assert_array_equal(tf.get_static_value(tf.constant([1, 2])), [1, 2])
    assert not tf.is_symbolic_tensor(tf.constant(1.0))
    assert tf.is_symbolic_tensor(tf.keras.Input((2,)))


def test_tensors_that_belong_together():
    x, y = tf.constant([1.0]), tf.constant([2.0])

    assert tf.tuple([x, y], control_inputs=[x]) == [x, y]
    np.testing.assert_array_equal(tf.parallel_stack([x, y]), [[1.0], [2.0]])
    with pytest.raises(ArgumentTypeError, match="tuple takes a list of tensors"):
        tf.tuple(x)
