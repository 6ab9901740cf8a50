"""Names and behaviours that programs written for TensorFlow use beside their computation."""

from __future__ import annotations

import json
import pstats
from typing import Any

import numpy as np
import pytest

import tapegrad as tf

CPU = tf.config.list_physical_devices("CPU")[0]


def test_programs_that_look_for_a_tpu_get_the_error_that_they_catch() -> None:
    with pytest.raises(ValueError, match="no TPU here"):
        tf.distribute.cluster_resolver.TPUClusterResolver()
    with pytest.raises(ValueError, match="no TPU here"):
        tf.distribute.cluster_resolver.TPUClusterResolver.connect()


def test_the_cluster_of_the_environment_is_described(monkeypatch) -> None:
    cluster = {"worker": ["localhost:1"]}  # a second worker would have to be there
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))

    found = tf.distribute.MultiWorkerMirroredStrategy().cluster_resolver

    assert (found.task_type, found.task_id, found.cluster_spec()) == ("worker", 0, cluster)


def test_of_several_devices_the_first_is_used() -> None:
    with pytest.warns(UserWarning, match="tapegrad run -n 2"):
        strategy = tf.distribute.MirroredStrategy(
            ["/cpu:0", "/cpu:1"], cross_device_ops=tf.distribute.HierarchicalCopyAllReduce()
        )

    with strategy.scope():
        assert tf.constant(1.0).device == "cpu"


def test_logical_devices_are_names_of_the_cpu() -> None:
    one = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(CPU, [one, one])
    try:
        names = [device.name for device in tf.config.list_logical_devices("CPU")]
        with tf.device("/CPU:1"):
            placed = tf.constant(1.0).device
    finally:
        tf.config.set_logical_device_configuration(CPU, None)

    assert (names, placed) == (["/device:CPU:0", "/device:CPU:1"], "cpu")
    assert len(tf.config.list_logical_devices("CPU")) == 1
    with pytest.raises(ValueError, match="no device '/CPU:1'"), tf.device("/CPU:1"):
        pass


def test_a_profile_has_the_functions_that_ran(tmp_path) -> None:
    def named_like_no_other() -> float:
        return float(tf.reduce_sum(tf.ones([3])))

    profiler = tf.profiler.experimental
    with profiler.Profile(str(tmp_path)), profiler.Trace("step", step_num=1):
        named_like_no_other()

    (file,) = tmp_path.glob("plugins/profile/*/host.pstats")
    assert any("named_like_no_other" in key[2] for key in pstats.Stats(str(file)).stats)
    with pytest.raises(tf.errors.UnavailableError, match="No profile runs"):
        tf.profiler.experimental.stop()


def test_types_are_for_isinstance() -> None:
    kinds = tf.types.experimental
    f = tf.function(lambda x: x + 1)

    assert isinstance(f, kinds.GenericFunction)
    assert isinstance(f.get_concrete_function(tf.TensorSpec([])), kinds.ConcreteFunction)
    assert isinstance(tf.constant(1), kinds.TensorLike)
    assert isinstance([1.0], kinds.TensorLike)
    assert not isinstance({}, kinds.TensorLike)


def test_an_argument_that_does_not_fit_the_signature_is_a_type_error() -> None:
    f = tf.function(lambda x: x, input_signature=[tf.TensorSpec([None])])

    with pytest.raises(TypeError, match="requires shape"):
        f(tf.ones([2, 2]))
    with pytest.raises(ValueError, match="requires shape"):
        f(tf.ones([2, 2]))


@pytest.mark.parametrize("given", [tf.TensorSpec([], tf.string), tf.constant("a")])
def test_functions_of_text_have_signatures(given) -> None:
    double = tf.function(lambda a: a + a).get_concrete_function(given)

    assert double(tf.constant("b")).numpy() == b"bb"
    assert double(a=tf.constant("c")).numpy() == b"cc"


def test_one_integer_can_be_a_key_and_other_tensors_not() -> None:
    words = {0: "a", 1: "b"}

    assert words[np.argmax(tf.constant([0.0, 2.0]))] == "b"
    for x in (tf.constant(1.0), tf.constant([1])):
        with pytest.raises(TypeError, match="unhashable"):
            hash(x)


def test_the_second_argument_of_a_variable_is_whether_it_is_trained() -> None:
    v = tf.Variable(10, tf.int32)  # as in TensorFlow, whatever is true

    assert (v.trainable, v.dtype) == (True, tf.int32)


def test_maximum_across_channels() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 3, 6))
    with tf.GradientTape() as tape:
        t = tf.constant(x)
        tape.watch(t)
        y = tf.nn.max_pool(t, (1, 1, 1, 3), (1, 1, 1, 3), "VALID")
    first = tf.nn.max_pool(x.transpose(0, 3, 1, 2), (1, 3, 1, 1), (1, 3, 1, 1), "VALID", "NCHW")

    wanted = x.reshape(2, 3, 3, 2, 3).max(axis=-1)
    np.testing.assert_array_equal(y.numpy(), wanted)
    np.testing.assert_array_equal(first.numpy(), wanted.transpose(0, 3, 1, 2))
    assert float(tf.reduce_sum(tape.gradient(y, t))) == y.shape.num_elements()
    with pytest.raises(ValueError, match="count is divisible"):
        tf.nn.max_pool(x, (1, 1, 1, 4), (1, 1, 1, 4), "VALID")
    with pytest.raises(ValueError, match="of 1 for all other axes"):
        tf.nn.max_pool(x, (1, 2, 2, 3), (1, 1, 1, 3), "VALID")


@pytest.mark.parametrize("kind", [tf.Variable, tf.identity])
def test_an_unknown_length_that_only_one_tensor_fits_is_saved(kind, tmp_path) -> None:
    class Scaled(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean = kind(tf.range(30.0))

        @tf.function(input_signature=[tf.TensorSpec([None, None])])
        def __call__(self, x):
            return x - self.mean

    tf.saved_model.save(Scaled(), str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))

    for rows in (4, 9):
        x = np.random.default_rng(rows).normal(size=(rows, 30)).astype("float32")
        np.testing.assert_allclose(loaded(x).numpy(), x - np.arange(30.0), rtol=1e-6)


def test_sounds_are_written_as_wav(tmp_path) -> None:
    sound = np.sin(np.arange(80.0)).astype("float32").reshape(1, 80, 1)
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        assert tf.summary.audio("voice", sound, 8000, step=0)
    tf.summary.flush()

    (file,) = tmp_path.glob("*tfevents*")
    assert tf.audio.encode_wav(sound[0], 8000) in file.read_bytes()
    with pytest.raises(ValueError, match="'wav' or None"):
        tf.summary.audio("voice", sound, 8000, step=0, encoding="mp3")


def test_devices_of_tensors_answer_to_tensorflows_form() -> None:
    with tf.device("CPU:0"):
        x, v = tf.constant([1.0]), tf.Variable(1.0)

    for name in (x.device, v.device):
        assert name == "cpu"
        assert name.endswith("CPU:0")
        assert name.startswith("/job:localhost")
        assert "CPU" in name
        assert "GPU" not in name
        assert not name.endswith("GPU:0")
    assert x.device.tensorflow == "/job:localhost/replica:0/task:0/device:CPU:0"


def test_concrete_functions_take_their_constants_by_name() -> None:
    @tf.function
    def scaled(x: Any, power: int = 2, *, factor: float = 0.5, name: str = "scaled") -> Any:
        return factor * x**power

    cube = scaled.get_concrete_function(tf.TensorSpec([None], tf.float32), 3)
    x = tf.constant([2.0, 4.0])
    assert cube(x, power=3, factor=0.5, name="scaled").tolist() == [4.0, 32.0]
    assert cube(x=x, factor=0.5).tolist() == [4.0, 32.0]
    with pytest.raises(TypeError, match="takes the tensors x"):
        cube(x, power=2)
    with pytest.raises(TypeError, match="takes the tensors x"):
        cube(x, size=3)
