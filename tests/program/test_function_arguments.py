"""Arguments and results of recorded functions, and errors for unsupported ones."""

from __future__ import annotations

import copy
import functools
import gc
import threading
import timeit
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import RecordingError
from tapegrad.program.explanation import MANY_PROGRAMS
from tapegrad.program.program_cache import MOST_PROGRAMS


def counted(python: Any) -> tuple[Any, list[int]]:
    """Return a function, and a list that grows when its Python code runs."""
    runs: list[int] = []

    @functools.wraps(python)
    def body(*args: Any, **kwargs: Any) -> Any:
        runs.append(1)
        return python(*args, **kwargs)

    return tf.function(body), runs


# Keywords and defaults


def test_a_keyword_is_the_same_call_as_a_position() -> None:
    f, runs = counted(lambda x, n=2: x * n)
    x = tf.constant(3.0)

    assert [float(y) for y in (f(x), f(x=x), f(x, n=2), f(n=2, x=x), f(x=x, n=3))] == [
        6.0,
        6.0,
        6.0,
        6.0,
        9.0,
    ]
    assert len(runs) == 2


def test_keyword_only_arguments_and_open_lists() -> None:
    def f(x: Any, *rest: Any, scale: float = 1.0, **more: Any) -> Any:
        return (x + sum(rest)) * scale + sum(more.values())

    recorded = tf.function(f)
    a, b = tf.constant(1.0), tf.constant(2.0)

    for _ in range(2):
        assert float(recorded(a, b, b, scale=2.0, k=a)) == 11.0
        assert float(recorded(a)) == 1.0


def test_wrong_arguments_are_refused_as_python_does() -> None:
    f = tf.function(lambda x: x)

    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        f(y=tf.constant(1.0))


# Objects that can be decorated


class Layer(tf.Module):
    """A module with a function for its call, and methods of other kinds."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.w = tf.Variable(value)
        self.runs = 0

    @tf.function
    def __call__(self, x: Any, scale: Any = 1.0) -> Any:
        self.runs += 1
        return self.w * x * scale

    @staticmethod
    @tf.function
    def above(x: Any) -> Any:
        return x + 1.0

    @tf.function
    @staticmethod
    def below(x: Any) -> Any:
        return x - 1.0

    @classmethod
    @tf.function
    def name_length(cls, x: Any) -> Any:
        return x * float(len(cls.__name__))


def test_methods_of_every_kind() -> None:
    layer, x = Layer(2.0), tf.constant(3.0)

    for _ in range(2):
        assert float(layer(x)) == 6.0
        assert float(layer(x, scale=2.0)) == 12.0
        assert float(layer.above(x)) == float(Layer.above(x)) == 4.0
        assert float(layer.below(x)) == float(Layer.below(x)) == 2.0
        assert float(layer.name_length(x)) == 15.0
    assert layer.runs == 2
    assert [v.name for v in layer.trainable_variables] == [layer.w.name]


def test_each_object_has_programs_of_its_own_which_end_with_it() -> None:
    x = tf.constant(1.0)
    layers = [Layer(float(k)) for k in range(MOST_PROGRAMS + 2)]

    for _ in range(2):
        assert [float(layer(x)) for layer in layers] == [float(k) for k in range(len(layers))]
    assert {layer.runs for layer in layers} == {1}

    reference = weakref.ref(layers[0].w)
    del layers
    gc.collect()
    assert reference() is None


def test_objects_without_weak_references_and_callable_objects() -> None:
    class Small:
        __slots__ = ("factor",)

        def __init__(self, factor: float) -> None:
            self.factor = factor

        @tf.function
        def scaled(self, x: Any) -> Any:
            return x * self.factor

        def __call__(self, x: Any) -> Any:
            return x + self.factor

    two, x = Small(2.0), tf.constant(3.0)

    assert [float(f(x)) for f in (two.scaled, Small(5.0).scaled)] == [6.0, 15.0]
    assert float(tf.function(two)(x)) == 5.0


def test_partials_and_the_function_behind() -> None:
    def add(x: Any, y: Any, scale: float = 1.0) -> Any:
        """Add."""
        return (x + y) * scale

    f = tf.function(functools.partial(add, scale=2.0))
    x = tf.constant(1.0)

    assert float(f(x, x)) == 4.0
    assert tf.function(add).python_function is add
    assert (tf.function(add).__name__, tf.function(add).__doc__) == ("add", "Add.")
    assert "'add' with 0 programs" in repr(tf.function(add))
    assert float(functools.partial(tf.function(add), x)(y=x, scale=3.0)) == 6.0


def test_a_classmethod_below_the_decorator_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match=r"Got classmethod. Put @classmethod and @property above"):
        tf.function(classmethod(lambda cls: cls))


def test_a_copied_module_has_its_own_programs() -> None:
    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(2.0)
            self.run = tf.function(self.forward)

        def forward(self, x: Any) -> Any:
            return self.w * x

    model, x = Model(), tf.constant(1.0)
    model.run(x)
    twin = copy.deepcopy(model)
    twin.w.assign(7.0)

    assert [float(m.run(x)) for m in (model, twin, model, twin)] == [2.0, 7.0, 2.0, 7.0]


# Results


def test_every_kind_of_result_comes_back() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def f(x: Any) -> Any:
        return {"own": x, "number": 3, "nothing": None, "variable": v, "pair": (x * 2.0, [])}

    for k in (1.0, 2.0):
        x = tf.constant(k)
        result = f(x)
        assert float(result["own"]) == k
        assert (result["number"], result["nothing"]) == (3, None)
        assert result["variable"] is v
        assert float(result["pair"][0]) == 2 * k
        assert result["pair"][1] == []


@pytest.mark.parametrize("value", [None, 3, 2.5, "text", ()])
def test_a_result_without_tensors(value: Any) -> None:
    f = tf.function(lambda: value)

    assert [f(), f()] == [value, value]


# Arguments that cannot be distinguished, or keep changing


def test_iterators_are_read_eagerly_with_one_warning() -> None:
    total = tf.function(lambda parts: sum(parts))

    with pytest.warns(UserWarning, match=r"Argument 0 is an iterator \(generator\)") as seen:
        results = [float(total(tf.constant(float(k)) for k in range(4))) for _ in range(3)]

    assert results == [6.0] * 3
    assert len(seen) == 1
    assert seen[0].filename == __file__


def test_values_that_compare_equal_but_differ_are_told_apart() -> None:
    f = tf.function(lambda x, k: x + np.copysign(1.0, float(k)))
    x = tf.constant(0.0)

    assert [float(f(x, k)) for k in (0.0, -0.0, 0, False)] == [1.0, -1.0, 1.0, 1.0]
    f, runs = counted(lambda x, k: x)
    for _ in range(3):
        f(x, float("nan"))
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        (
            lambda k: (1.0, k),
            f"argument 'n' was {MANY_PROGRAMS - 2} and is now {MANY_PROGRAMS - 1}",
        ),
        (
            lambda k: (np.zeros([1] * k), 0),  # ranks: one program serves all sizes
            r"argument 'x' was float64\[1(, 1){5}\] and is now float64\[1(, 1){6}\]",
        ),
        (lambda k: ([0.0] * k, 0), "the number of entries of argument 'x' was 6 and is now 7"),
        (lambda k: ({"a": (k, 1)}, 0), "entry 0 of argument 'x' was 6 and is now 7"),
    ],
)
def test_the_warning_names_the_argument_that_keeps_changing(calls: Any, sentence: str) -> None:
    f = tf.function(lambda x, n: tf.constant(1.0))

    with pytest.warns(UserWarning, match=sentence) as seen:
        _ = [f(*calls(k)) for k in range(MANY_PROGRAMS + 3)]

    assert len(seen) == 1


def test_the_number_of_programs_is_bounded() -> None:
    f = tf.function(lambda x, n: x + n % 2)  # two loops to compile

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(MOST_PROGRAMS + 5):
            f(tf.constant(1.0), n)

    assert f"with {MOST_PROGRAMS} programs" in repr(f)
    assert float(f(tf.constant(1.0), 0)) == 1.0


def test_structures_that_change_are_other_programs() -> None:
    f, runs = counted(lambda batch: sum(tf.nest.flatten(batch)))
    a, b = tf.constant(1.0), tf.constant(2.0)

    results = [f([a, b]), f((a, b)), f({"a": a, "b": b}), f([a, [b]]), f([b, b]), f([a])]

    assert [float(r) for r in results] == [3.0, 3.0, 3.0, 3.0, 4.0, 1.0]
    assert len(runs) == 5


# Input signatures


def test_an_input_signature_is_checked() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([])])
    def f(x: Any, k: Any) -> Any:
        return tf.reduce_sum(x) * k

    assert float(f([[1.0, 2.0]], 2)) == 6.0
    assert float(f(k=tf.constant(1.0), x=tf.ones([3, 2]))) == 6.0
    with pytest.raises(ValueError, match=r"Entry 0 .* requires shape \(None, 2\). Got \(1, 3\)"):
        f([[1.0, 2.0, 3.0]], 1.0)
    with pytest.raises(TypeError, match=r"requires float32. Got float64; cast it"):
        f(np.ones((1, 2)), 1.0)
    with pytest.raises(ValueError, match=r"has 2 entries\. Got 1 arguments"):
        f([[1.0, 2.0]])


def test_an_input_signature_of_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"must be a list with one tapegrad.TensorSpec"):
        tf.function(lambda x: x, input_signature="float32")
    with pytest.raises(TypeError, match="Entry 1 is str"):
        tf.function(lambda x, y: x, input_signature=[tf.TensorSpec([]), "float32"])


def test_structures_in_an_input_signature() -> None:
    spec = {"a": tf.TensorSpec([2]), "b": tf.TensorSpec([])}
    f = tf.function(lambda batch: tf.reduce_sum(batch["a"]) * batch["b"], input_signature=[spec])

    assert float(f({"a": [1.0, 2.0], "b": 3.0})) == 9.0


# Variables


def test_variables_made_at_the_first_call_live_on() -> None:
    class Counter:
        count: Any = None

        @tf.function
        def __call__(self, x: Any) -> Any:
            if self.count is None:
                self.count = tf.Variable(10.0)
            self.count.assign_add(x)
            return self.count.value()

    counter = Counter()

    assert [float(counter(tf.constant(1.0))) for _ in range(3)] == [11.0, 12.0, 13.0]
    counter.count.assign(0.0)
    assert float(counter(tf.constant(1.0))) == 1.0


def test_variables_that_end_with_the_call_begin_anew_at_each() -> None:
    @tf.function
    def f(x: Any) -> Any:
        total = tf.Variable(x * 2.0)
        fixed = tf.Variable([1.0])
        total.assign_add(x)
        fixed.assign(fixed * 3.0)
        return total.value(), fixed.value()

    for k in (1.0, 5.0):
        total, fixed = f(tf.constant(k))
        assert (float(total), float(fixed[0])) == (3 * k, 3.0)


def test_a_variable_that_only_the_function_still_needs_stays() -> None:
    holder = [tf.Variable(2.0)]
    f = tf.function(lambda x: holder[0] * x)
    x = tf.constant(1.0)
    f(x)
    holder[0] = tf.Variable(5.0)
    gc.collect()

    # As in TensorFlow, a program belongs to the variables that it was recorded with.
    assert float(f(x)) == 2.0


def test_variables_as_arguments_are_told_apart() -> None:
    f = tf.function(lambda v, x: v.assign_add(x) * 1.0)
    a, b, x = tf.Variable(1.0), tf.Variable(10.0), tf.constant(1.0)

    assert [float(f(v, x)) for v in (a, b, a, b)] == [2.0, 11.0, 3.0, 12.0]


# Failures


def test_an_error_leaves_nothing_half_written_and_the_next_call_records_again() -> None:
    v, failing = tf.Variable(1.0), [True]

    @tf.function
    def step(x: Any) -> Any:
        v.assign_add(x)
        if failing[0]:
            raise OSError("no file")
        return v * 1.0

    with pytest.raises(OSError, match="no file"):
        step(tf.constant(1.0))
    assert float(v) == 1.0
    failing[0] = False

    assert [float(step(tf.constant(1.0))) for _ in range(2)] == [2.0, 3.0]


@pytest.mark.parametrize("use", [lambda x: x + 1.0, float, lambda x: x.numpy()])
def test_a_tensor_kept_from_a_recording_is_named_as_such(use: Any) -> None:
    kept: list[Any] = []

    @tf.function
    def f(x: Any) -> Any:
        kept.append(x * 2.0)
        return x

    f(tf.constant(1.0))

    with pytest.raises(RecordingError, match="is used after the recording"):
        use(kept[0])


def test_a_program_that_cannot_be_made_runs_eagerly_with_one_warning(monkeypatch: Any) -> None:
    def fail(*args: Any) -> Any:
        raise OSError("no compiler")

    monkeypatch.setattr("tapegrad.program.building.program_of", fail)
    v = tf.Variable(0.0)
    f, runs = counted(lambda x: v.assign_add(x).value())

    with pytest.warns(UserWarning, match="runs eagerly: OSError") as seen:
        results = [float(f(tf.constant(1.0))) for _ in range(3)]

    assert results == [1.0, 2.0, 3.0]
    assert (len(seen), len(runs)) == (1, 3)


def test_a_gradient_program_that_cannot_be_made_runs_eagerly(monkeypatch: Any) -> None:
    def fail(*args: Any) -> Any:
        raise OSError("no compiler")

    monkeypatch.setattr("tapegrad.program.building.program_of", fail)
    count = tf.Variable(0, trainable=False)
    x = tf.constant(3.0)

    @tf.function
    def square(x: Any) -> Any:
        count.assign_add(1)
        return x * x

    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.warns(UserWarning, match="runs eagerly: OSError"):
            y = square(x)

    assert float(tape.gradient(y, x)) == 6.0
    assert int(count) == 1


def test_recursion_by_python_numbers() -> None:
    @tf.function
    def power(x: Any, n: int) -> Any:
        return x * power(x, n - 1) if n else tf.ones_like(x)

    assert [float(power(tf.constant(k), 5)) for k in (2.0, 3.0)] == [32.0, 243.0]


def test_threads_may_record_at_the_same_time() -> None:
    v = tf.Variable(np.zeros(()))
    start = threading.Barrier(4)
    functions = [tf.function(lambda x, k=k: v.assign_add(x * 0.0 + 1.0) * k) for k in range(4)]
    errors: list[Exception] = []

    def work(f: Any) -> None:
        start.wait()
        try:
            for _ in range(20):
                f(tf.constant(np.float64(1.0)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert 0.0 < float(v) <= 80.0


def test_a_function_of_tensors_costs_little_beside_its_program() -> None:
    f = tf.function(lambda a, b, c: a)
    x = [tf.constant(np.ones(3, "float32")) for _ in range(3)]
    f(*x)
    program, arrays = f.program(*x), [a.array for a in x]

    whole = min(timeit.repeat(lambda: f(*x), number=2000, repeat=7)) / 2000
    alone = min(timeit.repeat(lambda: program(arrays), number=2000, repeat=7)) / 2000

    assert whole - alone < 20e-6  # 2.4 us where nothing else runs
