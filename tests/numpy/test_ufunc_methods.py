"""NumPy's ufuncs on tensors, with their methods and options, against NumPy on arrays.

Both give the same values, dtypes and shapes, or both refuse. Where only we refuse, it is in words.
"""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad
import tapegrad.numpy as tnp
from tapegrad.errors import ArgumentTypeError, TapegradError
from tapegrad.numpy import elementwise

_rng = np.random.default_rng(20261115)
X, Y = _rng.uniform(0.2, 0.9, (2, 3, 4))
I, J = _rng.integers(1, 6, (2, 3, 4))  # noqa: E741 -- integers
MASK = _rng.random((3, 4)) > 0.4
OPERANDS = {
    "float64": (X, Y),
    "float32": (X.astype("float32"), Y.astype("float32")),
    "int64": (I, J),
    "int8": (I.astype("int8"), J.astype("int8")),
    "bool": (X > 0.5, Y > 0.5),
    "complex128": (X + 1j * Y, Y - 1j * X),
    "mixed": (X, I),
}
UFUNCS = sorted(
    {
        ufunc
        for name, ufunc in vars(np).items()
        if isinstance(ufunc, np.ufunc) and ufunc.signature is None and hasattr(tnp, name)
    },
    key=lambda ufunc: ufunc.__name__,
)
REDUCTIONS = (
    *({}, {"axis": 1}, {"axis": None}, {"axis": (0, 1), "keepdims": True}, {"keepdims": True}),
    *({"initial": 2}, {"initial": 1, "where": MASK}, {"where": MASK}, {"dtype": "float64"}),
    *({"dtype": "float32"}, {"axis": -1, "initial": 3}),
)


def calls(ufunc, x, y):
    """What is asked of a ufunc: a method, its arguments and its options."""
    inputs = (x, y)[: ufunc.nin]
    results = ufunc(*inputs)
    outs = results if isinstance(results, tuple) else (results,)
    outs = tuple(np.zeros_like(out) for out in outs)
    yield "__call__", inputs, {}
    yield "__call__", inputs, {"out": outs}
    yield "__call__", inputs, {"out": outs, "where": MASK}
    for dtype in ("float32", "float64", "int64", "bool", "complex128"):
        yield "__call__", inputs, {"dtype": dtype}
    for casting in ("no", "safe", "unsafe"):
        yield "__call__", inputs, {"casting": casting}
    if ufunc.nin == 1:
        yield "at", (x, [0, 0, 2]), {}
        return
    yield "outer", (x, y[0]), {}
    for options in REDUCTIONS:
        yield "reduce", (x,), options
    yield "reduce", (x[:0],), {}
    yield "accumulate", (x,), {}
    yield "accumulate", (x,), {"axis": 1}
    yield "reduceat", (x, [0, 2, 1]), {"axis": 1}
    yield "reduceat", (x, [0, 2, 1]), {}
    yield "at", (x, [0, 0, 2], y[0]), {}
    yield "at", (x, ([0, 0, 1], [1, 1, 2]), y[0, 0]), {}
    yield "at", (x, slice(0, 2), y[:2]), {}


def answer(ufunc, call, convert):
    """The result of a call, or None where it is refused; `at` gives what it wrote into."""
    method, inputs, options = call
    inputs = [convert(value) if isinstance(value, np.ndarray) else value for value in inputs]
    options = dict(options)
    if "out" in options:
        options["out"] = tuple(convert(out) for out in options["out"])
    try:
        result = getattr(ufunc, method)(*inputs, **options)
    except (TypeError, ValueError, TapegradError) as error:
        return error
    return inputs[0] if method == "at" else result


def expected(ufunc, call):
    """NumPy's answer; its SIMD loops fold with these two wrongly on some processors."""
    folds = call[0] in ("reduce", "reduceat", "accumulate")
    if not folds or ufunc not in (np.arctan2, np.power):
        return answer(ufunc, call, np.array)
    plain = answer(ufunc, call, np.array)
    if isinstance(plain, Exception) or np.asarray(plain).dtype.kind != "f":
        return plain
    if call[1][0].dtype.kind == "c":
        return plain
    one_by_one = np.frompyfunc(lambda a, b: float(ufunc(float(a), float(b))), 2, 1)
    options = {key: value for key, value in call[2].items() if key != "dtype"}
    return np.asarray(getattr(one_by_one, call[0])(*call[1], **options)).astype(
        np.asarray(plain).dtype
    )


def assert_same(ours, theirs, call):
    if isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            assert_same(mine, other, call)
        return
    assert isinstance(ours, tapegrad.Tensor), call
    theirs = np.asarray(theirs)
    assert (ours.dtype.name, tuple(ours.shape)) == (theirs.dtype.name, theirs.shape), call
    narrow = theirs.dtype == np.float16
    np.testing.assert_allclose(
        ours.numpy().astype(complex), theirs.astype(complex), rtol=1e-3 if narrow else 1e-5
    )


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: ufunc.__name__)
@pytest.mark.filterwarnings("ignore")
def test_options_and_methods_are_numpys(ufunc):
    for x, y in OPERANDS.values():
        try:
            ufunc(*(x, y)[: ufunc.nin])
        except TypeError:
            continue
        if ufunc is np.reciprocal and x.dtype.kind in "bi":
            continue  # 1 / 2 is 0 in integers, and 1 / 0 is what a processor makes of it
        for call in calls(ufunc, x, y):
            ours, theirs = answer(ufunc, call, tnp.asarray), expected(ufunc, call)
            if isinstance(theirs, Exception):
                assert isinstance(ours, Exception), call
            elif isinstance(ours, Exception):
                # NumPy's `at` rounds what it writes, and its ldexp takes floats for exponents.
                assert call[0] == "at" or ufunc is np.ldexp, (call, ours)
                assert isinstance(ours, TapegradError)
            else:
                assert_same(ours, theirs, call)


def test_methods_are_recorded():
    x = tnp.asarray(X)
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = np.subtract.reduce(x, axis=1, where=MASK, initial=2.0) * np.multiply.accumulate(x).sum()
        np.multiply.at(y, [0, 0], x[0, 0])

    gradient = tape.gradient(y, x).numpy()

    def value(a):
        y = np.subtract.reduce(a, axis=1, where=MASK, initial=2.0) * np.multiply.accumulate(a).sum()
        np.multiply.at(y, [0, 0], a[0, 0])
        return y.sum()

    step = 1e-6
    for place in np.ndindex(X.shape):
        shift = np.zeros_like(X)
        shift[place] = step
        wanted = (value(X + shift) - value(X - shift)) / (2 * step)
        assert abs(gradient[place] - wanted) < 1e-7


REFUSALS = {
    "np.add(a, t, out=a)": "out= must be a tensor",
    "np.add.at(a, [0], t[0])": "add.at needs a tensor to write into",
    "np.add(t, t, signature='dd->d')": "add does not support signature= for tensors. Use dtype=",
    "np.add(t, t, order='F')": "Tensors only have order 'C'",
    "np.add(t, t, casting='odd')": "casting must be one of",
    "np.add(t, t, dtype='int64')": "add does not support float64 and float64 with dtype=int64",
    "np.less.reduce(t)": "less.reduce does not support float64",
    "np.subtract.reduce(t[None], axis=(0, 1))": "subtract.reduce depends on the order",
    "np.maximum.reduce(t, where=t > 0)": "maximum.reduce with where= needs initial=",
    "np.fmax.reduce(t[:0])": "fmax.reduce of an empty axis has no value",
    "np.add.reduceat(t, [5])": "add.reduceat needs indices from 0 to 1",
    "np.lib.stride_tricks.sliding_window_view(t, 3)": "A window of 3 does not fit",
    "np.lib.stride_tricks.sliding_window_view(t, (1, 1))": "needs one axis per window size",
    "np.lib.stride_tricks.sliding_window_view(t, 1, writeable=True)": "Windows .* are read-only",
    "np.polynomial.polynomial.polyval2d(t, t[:1], t[None])": "must have the same shape",
    "np.matmul(t[None], t[:, None], axes=[(0, 1)])": "matmul takes axes= for two inputs",
    "np.matmul(t, t, dtype='int64')": "matmul cannot cast float64 to int64",
}


@pytest.mark.parametrize(("call", "sentence"), REFUSALS.items(), ids=REFUSALS)
def test_refusals(call, sentence):
    names = {"np": np, "a": np.ones(2), "t": tnp.asarray([1.0, 2.0])}

    with pytest.raises((TapegradError, ArgumentTypeError), match=sentence.replace("(", r"\(")):
        eval(call, names)


@pytest.mark.parametrize(
    "call",
    [
        "np.matmul(a, b, axes=[(0, 1), (0, 2), (2, 0)])",
        "np.matmul(a, b[0], out=zeros)",
        "np.vecdot(a, a, keepdims=True, axis=0)",
        "np.vecdot(a, a, axes=[0, 0])",
        "np.matvec(a, b[0, :, 0])",
        "np.vecmat(b[0, 0], b[1])",
        "np.polynomial.polynomial.polyval2d(a, a, b)",
        "np.polynomial.polynomial.polygrid2d(a, b[0, 0], b)",
    ],
)
def test_products_and_polynomials(call):
    arrays = {"a": X[:, :3], "b": _rng.normal(size=(3, 3, 3)), "zeros": np.zeros((3, 3))}
    tensors = {name: tnp.asarray(value) for name, value in arrays.items()}

    assert_same(eval(call, {"np": np, **tensors}), eval(call, {"np": np, **arrays}), call)


def test_halves_after_halves_are_numpys_where_they_are_computed_in_single_precision():
    halves = np.arange(0, 65536, 7, dtype=np.uint16).view(np.float16)
    halves = np.append(halves[~np.isnan(halves)], np.float16([0.0, -0.0, 1.0, 65504.0, np.inf]))
    others = np.roll(halves, 1)
    steps = [tapegrad.cast(tapegrad.constant(x), "float32") for x in (halves, others)]

    found = tapegrad.cast(elementwise._next_half(*steps), "float16")

    np.testing.assert_array_equal(found.numpy(), np.nextafter(halves, others))


@pytest.mark.parametrize("name", ["nextafter", "power", "floor_divide", "arctan2", "heaviside"])
def test_a_number_beside_a_tensor_takes_its_dtype(name):
    x, function = np.float32([0.5, 2.0]), getattr(tnp, name)

    for ours, theirs in (
        (function(tnp.asarray(x), 0.25), getattr(np, name)(x, 0.25)),
        (function(0.25, tnp.asarray(x)), getattr(np, name)(0.25, x)),
    ):
        assert ours.dtype.name == "float32"
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)
