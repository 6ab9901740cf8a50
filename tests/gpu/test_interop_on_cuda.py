"""CUDA memory shared with CuPy, PyTorch and JAX: the same pointers and correct gradients."""

from __future__ import annotations

import importlib
import operator
import os
import re
import warnings
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests.house.sources import ROOT

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")

# Warnings of other libraries are not errors here.
pytestmark = pytest.mark.filterwarnings("default")

dlpack = tf.experimental.dlpack
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(n) for n in ("bool", "int32", "uint8", "float16", "float32", "complex128")]
DTYPES.append(BFLOAT16)


def peer(name: str) -> Any:
    """Import another library; a machine without it says so by TAPEGRAD_WITHOUT_PEERS=1."""
    if os.environ.get("TAPEGRAD_WITHOUT_PEERS") == "1":
        pytest.skip("TAPEGRAD_WITHOUT_PEERS=1: this machine has neither PyTorch nor JAX.")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX takes most memory else
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        pytest.fail(f"This test needs {name}: {error}. TAPEGRAD_WITHOUT_PEERS=1 leaves it out.")


@pytest.fixture
def torch() -> Any:
    return peer("torch")


@pytest.fixture
def jax() -> Any:
    return peer("jax")


@pytest.fixture(autouse=True)
def on_the_gpu():
    with tf.device("cuda:0"):
        yield


def pointer(x: tf.Tensor | tf.Variable) -> int:
    return int(x.array.data.ptr)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
def test_cupy_takes_and_gives_the_same_memory(dtype) -> None:
    array = cupy.asarray(np.array([[1, 0, 1], [0, 1, 1]], dtype))

    x = tf.convert_to_tensor(array[:, ::2])

    assert x.dtype == dtype
    assert x.shape == (2, 2)
    for back in (cupy.asarray(x), cupy.from_dlpack(x)):
        assert back.data.ptr == pointer(x) == array.data.ptr
        assert back.strides == array[:, ::2].strides
        assert back.dtype == dtype


def test_the_cuda_interface_is_there_for_cuda_only() -> None:
    x = tf.constant([1.0, 2.0])

    assert x.__cuda_array_interface__["data"][0] == pointer(x)
    assert tf.Variable(x).__cuda_array_interface__["shape"] == (2,)
    assert not hasattr(tf.to_device(x, "cpu"), "__cuda_array_interface__")
    assert not hasattr(tf.cast(x, BFLOAT16), "__cuda_array_interface__")


def test_variables_and_constants_copy_a_cupy_array() -> None:
    array = cupy.arange(3.0)
    v, c, w = tf.Variable(array), tf.constant(array), tf.Variable([0.0, 0.0, 0.0], dtype="float64")
    w.assign(array)

    array[...] = -1.0

    for value in (v, c, w):
        assert value.device == "cuda:0"
        assert value.numpy().tolist() == [0.0, 1.0, 2.0]


def test_cupy_arrays_stand_in_operations_and_indices() -> None:
    x = tf.constant([1.0, 2.0, 3.0])

    with tf.debug.transfers("raise"):
        y = x * cupy.full(3, 2.0, "float32")
        z = x[cupy.asarray([2, 0])]
        g = tf.gather(x, cupy.asarray([1, 1]))

    assert y.numpy().tolist() == [2.0, 4.0, 6.0]
    assert z.numpy().tolist() == [3.0, 1.0]
    assert g.numpy().tolist() == [2.0, 2.0]


@pytest.mark.parametrize("kind", [tf.constant, tf.Variable])
def test_a_cupy_array_on_the_left_is_recorded_too(kind) -> None:
    x = kind([[1.0, 2.0], [3.0, 4.0]])
    two = cupy.full((2, 2), 2.0, "float32")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        results = [two * x, two - x, two / x, two @ x, two**x, two + x]

    assert all(isinstance(y, tf.Tensor) for y in results)
    assert isinstance(two > x, tf.Tensor)
    assert tape.gradient(results[0], x).numpy().tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert tape.gradient(results[3], x).numpy().tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert all(tape.gradient(y, x) is not None for y in results)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "int64", "uint8"])
def test_torch_shares_memory_both_ways(torch, name) -> None:
    theirs = torch.arange(6, device="cuda").to(getattr(torch, name)).reshape(2, 3).T

    x = dlpack.from_dlpack(theirs)
    converted = tf.convert_to_tensor(theirs)
    back = torch.from_dlpack(x)

    assert x.dtype.name == name
    assert pointer(x) == pointer(converted) == back.data_ptr() == theirs.data_ptr()
    assert tuple(back.stride()) == tuple(theirs.stride())
    np.testing.assert_array_equal(x.numpy().astype(float), theirs.double().cpu().numpy())


def test_torch_reads_a_variable_and_a_capsule(torch) -> None:
    v = tf.Variable([1.0, 2.0])

    torch.from_dlpack(v).fill_(9.0)  # a copy, since the variable keeps its memory
    assert v.numpy().tolist() == [1.0, 2.0]
    assert torch.utils.dlpack.from_dlpack(dlpack.to_dlpack(v)).tolist() == [1.0, 2.0]
    capsule = torch.utils.dlpack.to_dlpack(torch.ones(3, device="cuda"))
    x = dlpack.from_dlpack(capsule)
    assert (x.device, x.numpy().tolist()) == ("cuda:0", [1.0, 1.0, 1.0])


def test_torch_on_the_host_stays_there(torch) -> None:
    theirs = torch.ones(3)

    x = dlpack.from_dlpack(theirs)
    theirs[0] = 5.0

    assert (x.device, x.numpy().tolist()) == ("cpu", [5.0, 1.0, 1.0])


def test_what_torch_will_not_give_away_is_said_in_a_sentence(torch) -> None:
    for theirs in (
        torch.ones(2, device="cuda", requires_grad=True),
        torch.ones(2, device="cuda").to(torch.float8_e4m3fn),
    ):
        with pytest.raises(TypeError, match=r"cannot take this Tensor|Tensors hold values of"):
            dlpack.from_dlpack(theirs)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "int32"])
def test_jax_shares_memory_both_ways(jax, name) -> None:
    theirs = jax.numpy.arange(6, dtype=name).reshape(2, 3).block_until_ready()

    x = dlpack.from_dlpack(theirs)
    converted = tf.convert_to_tensor(theirs)
    back = jax.dlpack.from_dlpack(x)

    assert x.dtype.name == name
    assert pointer(x) == pointer(converted) == theirs.unsafe_buffer_pointer()
    assert back.unsafe_buffer_pointer() == pointer(x)
    np.testing.assert_array_equal(np.asarray(back), np.asarray(theirs))


def test_streams_are_ordered_across_libraries(torch) -> None:
    # Start slow work on a stream of PyTorch, then read its result here without an explicit wait.
    with torch.cuda.stream(torch.cuda.Stream()):
        theirs = torch.ones(4096, 4096, device="cuda")
        for _ in range(20):
            theirs = theirs @ theirs / 4096
        x = dlpack.from_dlpack(theirs)

    assert float(tf.reduce_max(tf.abs(x - 1.0))) < 1e-3


def test_a_watched_tensor_keeps_working_after_it_went_out(torch) -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * 3.0
        with pytest.warns(UserWarning, match="another library through __dlpack__"):
            foreign = tf.convert_to_tensor(torch.from_dlpack(y) * 2.0)
        z = y * foreign

    assert tape.gradient(z, x).numpy().tolist() == [18.0, 36.0]
    assert tape.gradient(foreign, x) is None
    assert "left the tape through __dlpack__" in str(tape.explain(foreign, x))


def test_a_followed_tensor_that_cupy_takes_by_dlpack_warns() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.warns(UserWarning, match="another library through __dlpack__"):
            cupy.from_dlpack(x)


EXITS = {
    "float()": float,
    "item()": lambda x: x.item(),
    "tolist()": lambda x: x.tolist(),
    "__array__": np.asarray,
    "an assignment to an item": lambda x: operator.setitem(np.zeros(2), 0, x),
    "__dlpack__": cupy.from_dlpack,
    "__cuda_array_interface__": cupy.asarray,
}


@pytest.mark.parametrize("how", EXITS)
def test_a_transform_warns_when_a_value_leaves_the_device_or_the_tape(how) -> None:
    def f(x):
        EXITS[how](x * x)
        return x * x

    with pytest.warns(tf.errors.TapeExitWarning, match="that a tape follows became") as seen:
        gradient = tf.grad(f)(tf.constant(2.0))

    assert float(gradient) == 4.0
    assert len(seen) == 1
    assert seen[0].filename == __file__


def test_a_cupy_array_times_a_followed_tensor_does_not_warn() -> None:
    weights = cupy.asarray([1.0, 2.0], "float32")

    def f(x):
        return tf.reduce_sum(weights * x + x * weights)

    with tf.debug.tape_exits("raise"):
        assert tf.grad(f)(tf.constant([3.0, 4.0])).numpy().tolist() == [2.0, 4.0]


@pytest.mark.parametrize("kind", [tf.constant, tf.Variable])
def test_numpys_arrays_go_to_the_device_of_the_tensor_they_meet(kind) -> None:
    values = np.array([[1.5, 2.0], [3.0, 4.5]], "float32")
    other = np.array([[2.0, 0.5], [1.0, 3.0]])
    x = kind(values)

    with tf.device("cpu"), tf.debug.transfers("raise"):
        results = {
            "array @": other @ x,
            "@ array": x @ other,
            "list @": other.tolist() @ x,
            "vecdot": np.vecdot(other, x),
            "float_power": np.float_power(other, x),
            "rest": divmod(other, x)[1],
            "scalar": np.float64(2.0) * x,
            "concatenate": np.concatenate([other, x]),
        }

    expected = [
        *(other @ values, values @ other, other @ values, np.vecdot(other, values)),
        *(other**values, other % values, 2 * values, np.concatenate([other, values])),
    ]
    for (name, result), wanted in zip(results.items(), expected, strict=True):
        assert result.device == "cuda:0", name
        np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-6, err_msg=name)


def test_two_devices_are_named() -> None:
    x, y = tf.constant([[1.0]]), tf.to_device(tf.constant([[1.0]]), "cpu")

    for operate in (lambda: x + y, lambda: x @ y, lambda: np.matmul(y, x)):
        with pytest.raises(tf.errors.DeviceError, match="got tensors on"):
            operate()


def run_all_blocks(page: str) -> tuple[list[str], dict[str, Any]]:
    """Run the blocks of a page, also those that need a GPU; return them and their names."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python[^\n]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    return blocks, names


def test_the_page_on_other_libraries_runs(torch) -> None:
    blocks, _ = run_all_blocks("interop.md")

    assert any("torch.from_dlpack" in block for block in blocks)


def test_the_kernels_on_the_page_about_kernels_have_gradients() -> None:
    blocks, names = run_all_blocks("cuda-kernels.md")

    assert any("RawKernel" in block for block in blocks)
    x = tf.constant(np.linspace(-2, 2, 1001, dtype=np.float32))
    expected = tf.grad(lambda x: tf.reduce_sum(tf.nn.softsign(x)))(x)
    found = tf.grad(lambda x: tf.reduce_sum(names["softsign"](x)))(x)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
