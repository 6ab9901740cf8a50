"""How arguments are distinguished: arrays by shape, values exactly, objects by identity."""

from __future__ import annotations

import array
import functools
import gc
import inspect
import random
import types
import weakref
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.exact_key import exact_key
from tests.seeds import SEED


def counted(python: Any) -> tuple[Any, list[int]]:
    """Return a function, and a list that grows when its Python code runs."""
    runs: list[int] = []

    @functools.wraps(python)
    def body(*args: Any, **kwargs: Any) -> Any:
        runs.append(1)
        return python(*args, **kwargs)

    return tf.function(body), runs


# Arrays


class ForeignTensor:
    """An array of another library, which offers DLPack and is compared by identity."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.values, dtype=dtype)


class OnlyDLPack:
    """An array of another library that offers nothing but DLPack."""

    def __init__(self, values: Any) -> None:
        self._values = np.array(values)

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._values.__dlpack_device__()


class Interfaced:
    """An object that offers NumPy's array interface only, such as an image."""

    def __init__(self, values: Any) -> None:
        self._values = np.array(values)

    @property
    def __array_interface__(self) -> Any:
        return self._values.__array_interface__


KINDS: dict[str, Any] = {
    "numpy": np.array,
    "dlpack": ForeignTensor,
    "only dlpack": OnlyDLPack,
    "array interface": Interfaced,
    "array.array": lambda values: array.array("d", values),
    "memoryview": lambda values: memoryview(np.array(values)),
    "bytearray": lambda values: bytearray(int(v) for v in values),
    "tensor": tf.constant,
}


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_all_libraries_are_inputs(kind: str) -> None:
    f, runs = counted(lambda x: tf.cast(x, "float64") * 2.0)

    for k in range(4):
        found = f(KINDS[kind]([1.0, 2.0, 3.0 + k])).numpy().tolist()
        assert found == [2.0, 4.0, 6.0 + 2 * k]
    assert len(runs) == 1


def test_an_array_that_is_overwritten_between_calls() -> None:
    f, _ = counted(lambda x: tf.reduce_sum(tf.constant(x)))
    for made in (ForeignTensor([1.0, 2.0]), np.array([1.0, 2.0])):
        assert float(f(made)) == 3.0
        values = made if isinstance(made, np.ndarray) else made.values
        values[0] = 10.0
        assert float(f(made)) == 12.0


def test_foreign_arrays_keep_their_dtype() -> None:
    f = tf.function(lambda x, y: x * y)
    x = tf.constant(np.array([0.1, 0.2]))

    found = f(x, ForeignTensor([0.1, 0.3]))
    assert found.dtype == "float64"
    np.testing.assert_array_equal(found.numpy(), np.array([0.1, 0.2]) * np.array([0.1, 0.3]))


def test_foreign_arrays_inside_structures_and_keywords() -> None:
    f, runs = counted(lambda pair, *, z: pair[0] + pair[1]["a"] + z)
    for k in range(3):
        one = ForeignTensor([float(k)])
        assert float(f((one, {"a": one}), z=one)[0]) == 3.0 * k
    assert len(runs) == 1


def test_slices_of_variables_are_recorded() -> None:
    v = tf.Variable([1.0, 2.0])
    f, runs = counted(lambda x: x * 2.0)

    assert [float(f(v[k])) for k in (0, 1, 0)] == [2.0, 4.0, 2.0]
    assert len(runs) == 1
    with tf.GradientTape() as tape:
        y = f(v[1])
    assert tape.gradient(y, v).numpy().tolist() == [0.0, 2.0]


def test_slices_of_variables_are_returned() -> None:
    v = tf.Variable([1.0, 2.0])
    f = tf.function(lambda: v[0])
    g = tf.function(lambda: {"a": (v[1], v[0:1])})

    assert [float(f()), float(f())] == [1.0, 1.0]
    v.assign([3.0, 4.0])
    assert float(f()) == 3.0
    assert g()["a"][1].numpy().tolist() == [3.0]
    assert float(g()["a"][0]) == 4.0
    with tf.GradientTape() as tape:
        y = f()
    assert tape.gradient(y, v).numpy().tolist() == [1.0, 0.0]


def test_sparse_gradients_and_masked_arrays_run_eagerly() -> None:
    rows = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([0, 2]), (3, 1))
    f, _ = counted(lambda x: tf.convert_to_tensor(x) * 1.0)
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert f(rows).numpy().tolist() == [[1.0], [0.0], [2.0]]
    rows.values.array[...] = 5.0
    assert f(rows).numpy().tolist() == [[5.0], [0.0], [5.0]]


def test_arrays_without_numbers_run_eagerly() -> None:
    f, _ = counted(lambda words, x: x * float(len(words[0])))
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert float(f(np.array(["ab"]), tf.constant(1.0))) == 2.0
    assert float(f(np.array(["abc"]), tf.constant(1.0))) == 3.0


# Values


NAN = float("nan")
PAIRS = [
    (0.0, -0.0),
    (0, 0.0),
    (1, True),
    (1.0, 1),
    (complex(0.0, 0.0), complex(-0.0, 0.0)),
    (complex(1.0, 0.0), complex(1.0, -0.0)),
    ((1.0, 0.0), (1.0, -0.0)),
    ([0.0], [-0.0]),
    ({"a": 0.0}, {"a": -0.0}),
    (np.float32(0.0), np.float32(-0.0)),
    (np.float32(1.0), np.float64(1.0)),
    ("a", b"a"),
    (slice(0, 1), slice(0, True)),
    (frozenset({0}), frozenset({False})),
    ({0: 1.0}, {False: 1.0}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (NAN, 0.0),
    (np.copysign(NAN, -1.0).item(), NAN),
]


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
def test_values_that_differ_have_programs_of_their_own(pair: Any) -> None:
    seen: list[Any] = []
    f = tf.function(lambda x, value: seen.append(value) or x)
    x = tf.constant(1.0)

    for value in (*pair, *pair):
        f(x, value)
        f(x, value=value)
    assert [repr(value) for value in seen] == [repr(value) for value in pair]


@pytest.mark.parametrize("value", [NAN, complex(NAN, 0.0), (NAN, 1.0), np.float32(NAN)], ids=repr)
def test_nan_is_one_value(value: Any) -> None:
    f, runs = counted(lambda x, value: x)
    for _ in range(3):
        f(tf.constant(1.0), value)
        f(tf.constant(1.0), type(value)(value) if not isinstance(value, tuple) else (NAN, 1.0))
    assert len(runs) == 1


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_the_sign_of_zero_is_seen_by_the_program() -> None:
    f = tf.function(lambda x, zero: x / zero)
    assert float(f(tf.constant(1.0), 0.0)) == np.inf
    assert float(f(tf.constant(1.0), -0.0)) == -np.inf


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_program_does_not_merge_zeros_of_different_sign() -> None:
    f = tf.function(lambda x: (tf.math.divide(x, x * 0.0), tf.math.divide(x, x * -0.0)))
    assert [float(y) for y in f(tf.constant(1.0))] == [np.inf, -np.inf]
    g = tf.function(lambda x: (tf.fill([1], 0.0) + x * 0, tf.fill([1], -0.0) + x * -0.0))
    assert [np.signbit(y.numpy())[0] for y in g(tf.constant([1.0]))] == [False, True]


def test_exact_keys_are_hashable() -> None:
    for one, other in PAIRS:
        if not isinstance(one, list | dict):
            assert hash(exact_key(one)) is not None
            assert exact_key(one) != exact_key(other)
            assert exact_key(one) == exact_key(one)


# Objects


class Loud:
    """An object that claims to be equal to every other one of its kind."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loud)

    def __hash__(self) -> int:
        return 1


def test_objects_are_compared_by_identity() -> None:
    f, runs = counted(lambda x, thing: x * thing.value)
    one, other = Loud(1.0), Loud(2.0)
    for _ in range(2):
        assert float(f(tf.constant(3.0), one)) == 3.0
        assert float(f(tf.constant(3.0), other)) == 6.0
    assert len(runs) == 2


@pytest.mark.filterwarnings("ignore:function")
def test_the_program_of_an_object_ends_with_it() -> None:
    f, runs = counted(lambda x, thing: x * thing.value)
    for k in range(50):  # ids are used again
        assert float(f(tf.constant(1.0), Loud(float(k % 3)))) == k % 3
    gc.collect()
    assert "with 0 programs" in repr(f)
    assert len(runs) == 50


@pytest.mark.filterwarnings("ignore:function")
def test_objects_without_weak_references() -> None:
    class Slotted:
        __slots__ = ("value",)

        def __init__(self, value: float) -> None:
            self.value = value

    f, _ = counted(lambda x, thing: x * thing.value)
    for k in range(40):
        assert float(f(tf.constant(1.0), Slotted(float(k % 3)))) == k % 3


def test_methods_of_objects_are_the_same_argument() -> None:
    one, other = Loud(1.0), Loud(2.0)
    Loud.read = lambda self: self.value  # type: ignore[attr-defined]
    f, runs = counted(lambda x, read: x * read())
    for _ in range(3):
        assert float(f(tf.constant(1.0), one.read)) == 1.0  # type: ignore[attr-defined]
        assert float(f(tf.constant(1.0), other.read)) == 2.0  # type: ignore[attr-defined]
    assert len(runs) == 2


def test_containers_with_notes_are_distinguished_by_them() -> None:
    class Tagged:
        def __init__(self, tag: str, x: Any) -> None:
            self.tag, self.x = tag, x

        def __tf_flatten__(self) -> Any:
            return (self.tag,), (self.x,)

        @classmethod
        def __tf_unflatten__(cls, notes: Any, parts: Any) -> Any:
            return cls(notes[0], *parts)

    f, runs = counted(lambda t: t.x * (2.0 if t.tag == "double" else 1.0))
    for _ in range(2):
        assert float(f(Tagged("double", tf.constant(3.0)))) == 6.0
        assert float(f(Tagged("single", tf.constant(3.0)))) == 3.0
    assert len(runs) == 2


def test_the_order_of_a_dictionary_is_seen() -> None:
    f = tf.function(lambda d: next(iter(d.values())) * 1.0)
    a, b = tf.constant(1.0), tf.constant(2.0)
    for _ in range(2):
        assert float(f({"a": a, "b": b})) == 1.0
        assert float(f({"b": b, "a": a})) == 2.0


# Methods of objects that nothing else holds


class Temporary(tf.Module):
    """A module that is called right after it is made."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.w = tf.Variable(value)

    @tf.function
    def times(self, x: Any, scale: float = 1.0) -> Any:
        return x * self.w * scale


def test_methods_of_temporary_objects() -> None:
    x = tf.constant(3.0)
    assert float(Temporary(2.0).times(x)) == 6.0
    method = Temporary(3.0).times
    assert [float(method(x)), float(method(x, scale=2.0))] == [9.0, 18.0]
    assert "scale" in str(inspect.signature(method))
    assert "self" not in str(inspect.signature(method))
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = Temporary(2.0).times(x) ** 2
        first = tape.gradient(y, x)
    assert float(first) == 24.0
    assert float(outer.gradient(first, x)) == 8.0


def test_temporary_objects_are_freed() -> None:
    module = Temporary(2.0)
    module.times(tf.constant(3.0))
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None


# Signatures

_KINDS = inspect.Parameter


def random_function(rng: random.Random) -> tuple[Any, inspect.Signature]:
    """Return a function with a random signature that returns what its parameters got."""
    positional = [f"p{k}" for k in range(rng.randrange(4))]
    only = rng.randrange(len(positional) + 1)
    first_default = rng.randrange(len(positional) + 1)
    parts: list[str] = []
    for k, name in enumerate(positional):
        parts.append(name if k < first_default else f"{name}={k}")
        if k + 1 == only:
            parts.append("/")
    names = list(positional)
    if rng.random() < 0.5:
        parts.append("*rest")
        names.append("rest")
    keywords = [f"k{k}" for k in range(rng.randrange(3))]
    if keywords and "*rest" not in parts:
        parts.append("*")
    for k, name in enumerate(keywords):
        parts.append(name if rng.random() < 0.5 else f"{name}={k + 1}")
    names += keywords
    if rng.random() < 0.5:
        parts.append("**more")
        names.append("more")
    inner = ", ".join(f"({name!r}, {name})" for name in names)
    scope: dict[str, Any] = {}
    exec(f"def f({', '.join(parts)}): return [{inner}]", scope)
    return scope["f"], inspect.signature(scope["f"])


def random_call(rng: random.Random, signature: inspect.Signature) -> tuple[list[Any], Any]:
    """Return arguments that fit a signature."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    by_keyword = False
    for parameter in signature.parameters.values():
        value = rng.choice([0, 1, 2, 1.0, True, 0.0, -0.0])
        omitted = parameter.default is not _KINDS.empty and rng.random() < 0.4
        if parameter.kind is _KINDS.POSITIONAL_ONLY:
            if omitted:
                by_keyword = True
            elif not by_keyword:
                args.append(value)
        elif parameter.kind is _KINDS.POSITIONAL_OR_KEYWORD:
            by_keyword = by_keyword or omitted or rng.random() < 0.4
            if not by_keyword:
                args.append(value)
            elif not omitted:
                kwargs[parameter.name] = value
        elif parameter.kind is _KINDS.VAR_POSITIONAL:
            if not by_keyword:
                args += [rng.choice([0, 1, 2]) for _ in range(rng.randrange(3))]
        elif parameter.kind is _KINDS.KEYWORD_ONLY:
            if not omitted:
                kwargs[parameter.name] = value
        elif rng.random() < 0.5:
            kwargs["extra"] = value
    return args, kwargs


@pytest.mark.filterwarnings("ignore:function")
def test_random_signatures_bind_as_in_python() -> None:
    rng = random.Random(SEED)
    for _ in range(150):
        f, signature = random_function(rng)
        recorded = tf.function(f)
        for _ in range(6):
            args, kwargs = random_call(rng, signature)
            expected = f(*args, **kwargs)
            for _ in range(2):
                assert repr(recorded(*args, **kwargs)) == repr(expected), (signature, args, kwargs)


def test_a_positional_argument_after_the_named_ones_is_not_lost() -> None:
    def f(x: Any, *rest: Any, k: int = 1) -> Any:
        return x + sum(rest) * k

    assert float(tf.function(f)(tf.constant(0.0), 10, 1, k=5)) == 55.0


def test_a_bound_method_is_a_method() -> None:
    module = Temporary(2.0)
    assert isinstance(module.times, types.MethodType)
    module.times(tf.constant(1.0))
    assert "multiply" in str(module.times.program(tf.constant(1.0)))
