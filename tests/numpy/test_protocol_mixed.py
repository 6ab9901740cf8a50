"""Host values beside a tensor on a device: what NumPy computes of both takes place on the device.

The stand-in device refuses every read by the host that nobody asked for.
"""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tapegrad
import tapegrad.numpy as tnp
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.values.device import device
from tests.numpy.calls import ARRAYS, CALLS
from tests.numpy.test_on_a_device import BEYOND_THE_STANDARD, mixed
from tests.numpy.test_protocol import asks_tensors
from tests.numpy.test_values import assert_same, run, tensors

pytestmark = pytest.mark.filterwarnings("ignore")

OURS = np.array([[1.5, 2.0], [3.0, 4.5]])
THEIRS = np.array([[2.0, 0.5], [1.0, 3.0]])
OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "ge", "eq", "ne")
OTHERS = {
    "array": THEIRS,
    "float32": THEIRS.astype("float32"),
    "integers": np.array([[1, 2], [2, 1]]),
    "list": THEIRS.tolist(),
    "number": 2.5,
    "integer": 2,
    "scalar": np.float64(2.5),
    "0-d": np.array(2.5),
}


@pytest.fixture(autouse=True)
def strict_device():
    register_backend(strict.StrictBackend())
    with device("cpu"), strict.forbidding_reads():
        yield
    unregister_backend("strict")


def on_the_device(value):
    with device("strict:0"):
        return tnp.asarray(value)


def assert_there(result, expected, dtype=None):
    assert isinstance(result, tapegrad.Tensor)
    assert result.device == "strict:0"
    assert result.dtype == (dtype or expected.dtype)
    np.testing.assert_allclose(result.numpy(), expected)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_operators_take_place_on_the_device(name, other):
    x, function = on_the_device(OURS), getattr(operator, name)

    assert_there(function(x, other), function(OURS, np.asarray(other)))
    assert_there(function(other, x), function(np.asarray(other), OURS))


@pytest.mark.parametrize("name", ["array", "float32", "integers", "list"])
def test_products_take_place_on_the_device(name):
    other = OTHERS[name]
    x, v = on_the_device(OURS), tapegrad.Variable(on_the_device(OURS))

    for left in (x, v):
        assert_there(left @ other, OURS @ np.asarray(other))
        assert_there(other @ left, np.asarray(other) @ OURS)


def test_a_products_array_takes_the_tensors_dtype():
    x = on_the_device(OURS.astype("float32"))

    assert_there(THEIRS @ x, THEIRS @ OURS, "float32")
    assert_there(np.matmul(THEIRS, x), THEIRS @ OURS, "float64")
    assert_there([[0.1]] @ on_the_device([[3.0]]), np.array([[0.1]]) @ [[3.0]])


def test_products_with_arrays_are_recorded_and_batched():
    x = on_the_device(OURS)
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = THEIRS @ x

    assert_there(tape.gradient(y, x), THEIRS.T @ np.ones((2, 2)))
    assert_there(tapegrad.vmap(lambda row: THEIRS @ row)(x), OURS @ THEIRS.T)


@pytest.mark.parametrize("other", [2.5, np.float64(2.5), THEIRS], ids=["number", "scalar", "array"])
def test_divmod_takes_place_on_the_device(other):
    x = on_the_device(OURS)

    for part, expected in zip(divmod(x, other), divmod(OURS, other), strict=True):
        assert_there(part, expected)
    for part, expected in zip(divmod(other, x), divmod(other, OURS), strict=True):
        assert_there(part, expected)


# Of `take` NumPy asks only the array.
NOT_NUMPYS = {"np.take(x, k, axis=1)"}
UFUNCS = {
    ufunc
    for name, ufunc in vars(np).items()
    if isinstance(ufunc, np.ufunc) and ufunc.nin == 2 and hasattr(tnp, name)
} - {np.ldexp}  # takes integers beside floats, see below
WHOLE = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "gcd", "lcm"}


@pytest.mark.parametrize("ufunc", sorted(UFUNCS, key=str), ids=lambda ufunc: ufunc.__name__)
def test_ufuncs_take_place_on_the_device(ufunc):
    kind = "int64" if ufunc.__name__ in WHOLE else "float64"
    kind = "bool" if ufunc.__name__.startswith("logical") else kind
    ours, theirs = OURS.astype(kind), THEIRS.astype(kind)

    for result, expected in (
        (ufunc(on_the_device(ours), theirs), ufunc(ours, theirs)),
        (ufunc(theirs, on_the_device(ours)), ufunc(theirs, ours)),
    ):
        pairs = [(result, expected)] if ufunc.nout == 1 else zip(result, expected, strict=True)
        for part, wanted in pairs:
            assert_there(part, wanted)


def test_exponents_may_be_numpys():
    x, n = on_the_device(OURS), np.array([1, 2])

    assert_there(np.ldexp(x, n), np.ldexp(OURS, n))


@pytest.mark.parametrize(
    ("call", "host"),
    list(
        mixed([c for c in CALLS if c not in BEYOND_THE_STANDARD | NOT_NUMPYS and asks_tensors(c)])
    ),
)
def test_one_of_the_arrays_may_be_numpys(call, host):
    with device("strict:0"):
        arrays = {**tensors(), host: ARRAYS[host]}

    ours = run(call, np, arrays)

    assert_same(ours, run(call, np, dict(ARRAYS)))


@pytest.mark.parametrize("name", ["add", "matmul", "lt"])
def test_two_devices_are_named(name):
    x, y = on_the_device(OURS), tnp.asarray(THEIRS)

    with pytest.raises(tapegrad.errors.DeviceError, match=r"on strict:0 and cpu\. Move one"):
        getattr(operator, name)(x, y)


def test_a_devices_raw_array_stays_there():
    raw = on_the_device(THEIRS).array

    assert_there(on_the_device(OURS) + raw, OURS + THEIRS)
    assert_there(on_the_device(OURS) @ raw, OURS @ THEIRS)
    assert_there(np.matmul(raw, on_the_device(OURS)), THEIRS @ OURS)
