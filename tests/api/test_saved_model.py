"""tf.saved_model: recorded functions run without the code that defined them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError, TapegradError
from tapegrad.keras.saving import saved_model as writing
from tapegrad.program.saved.extensions import CLASSES
from tests.keras.interchange_models import MODELS, inputs, outputs, with_other_weights


class Inner(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(5.0)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def scale(self, x):
        return x * self.w


class Outer(tf.Module):
    def __init__(self):
        super().__init__()
        self.v = tf.Variable(1.0)
        self.parts = [tf.Variable([1.0, 2.0]), tf.Variable(3.0, trainable=False)]
        self.inner = Inner()

    @tf.function
    def times(self, x, twice=False):
        return x * self.v * (2.0 if twice else 1.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def add(self, x):
        self.v.assign_add(1.0)
        return {"sum": x + self.parts[0], "rest": [x, None]}


@pytest.fixture
def loaded(tmp_path):
    outer = Outer()
    outer.times(tf.constant(2.0))
    outer.times(tf.constant([1.0, 2.0]), twice=True)
    concrete = outer.times.get_concrete_function(tf.TensorSpec([None]), True)
    tf.saved_model.save(outer, tmp_path, signatures={"serving_default": outer.add, "go": concrete})
    return tf.saved_model.load(tmp_path)


def test_functions_and_variables_have_the_same_names(loaded):
    assert float(loaded.times(tf.constant(3.0))) == 3.0
    assert loaded.times(tf.constant([1.0, 3.0]), twice=True).tolist() == [2.0, 6.0]
    assert float(loaded.inner.scale(2.0)) == 10.0
    assert loaded.parts[0].numpy().tolist() == [1.0, 2.0]
    assert (len(loaded.variables), len(loaded.trainable_variables)) == (4, 3)
    loaded.inner.w.assign(7.0)
    assert float(loaded.inner.scale(2.0)) == 14.0


def test_a_function_assigns_to_its_variables(loaded):
    found = loaded.add(tf.ones([3, 2]))

    assert found["sum"].tolist() == [[2.0, 3.0]] * 3
    assert found["rest"][1] is None
    assert float(loaded.v) == 2.0


def test_signatures_take_names_and_return_a_dict(loaded):
    assert loaded.signatures["serving_default"](x=np.ones((1, 2)))["sum"].tolist() == [[2.0, 3.0]]
    assert loaded.signatures["go"](tf.constant([1.0]))["output_0"].tolist() == [4.0]
    assert list(loaded.signatures["go"].structured_input_signature[1]) == ["x"]
    with pytest.raises(ArgumentError, match=r"takes x. Got y, z"):
        loaded.signatures["go"](y=1, z=2)


def test_other_arguments_than_the_saved_ones_are_refused(loaded):
    with pytest.raises(ArgumentError, match=r"'times' was saved for .*Got int32\[3\]"):
        loaded.times(tf.constant([1, 2, 3]))
    with pytest.raises(ArgumentError, match=r"without a function `__call__`.*tapegrad.function"):
        loaded(1.0)


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_predicts_the_same_for_other_batches(name, tmp_path):
    model = with_other_weights(MODELS[name](keras), 4)
    model.export(tmp_path)
    served = tf.saved_model.load(tmp_path)
    x = inputs(name)

    for part in (x, {k: v[:1] for k, v in x.items()} if name == "graph" else x[:1]):
        found = served.serve(part)
        wanted = model(part, training=False)
        for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(wanted), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert outputs(model, name)[0].shape == tf.nest.flatten(served.serve(x))[0].shape


def test_lengths_of_two_axes_stay_open(tmp_path):
    model = keras.Sequential([keras.Input((None, 3)), keras.layers.LSTM(4)])
    model.export(tmp_path)
    served = tf.saved_model.load(tmp_path)

    for shape in ((2, 7, 3), (3, 1, 3), (1, 300, 3)):
        x = np.random.default_rng(1).normal(size=shape).astype("float32")
        np.testing.assert_allclose(served.serve(x), model(x), rtol=1e-5, atol=1e-6)


def test_gradients_reach_the_loaded_variables(tmp_path):
    model = with_other_weights(MODELS["stack"](keras), 4)
    model.export(tmp_path)
    layer = keras.layers.TFSMLayer(tmp_path, call_endpoint="serve")
    x = tf.constant(inputs("stack"))

    def gradients(call, variables):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call(x)[:, 0] ** 2)
        return [g.numpy() for g in tape.gradient(loss, variables)]

    wanted = gradients(lambda x: model(x, training=False), model.trainable_variables)
    found = gradients(layer, layer.trainable_weights)

    values = [v.numpy() for v in layer.trainable_weights]
    for variable, gradient in zip(model.trainable_variables, wanted, strict=True):
        (place,) = [n for n, v in enumerate(values) if np.array_equal(v, variable)]
        np.testing.assert_allclose(found[place], gradient, rtol=1e-4, atol=1e-6)


def test_an_endpoint_is_a_layer_of_another_model(tmp_path):
    inner = with_other_weights(MODELS["nested"](keras), 4)
    inner.export(tmp_path)
    x = keras.Input((5,))
    outer = keras.Model(x, keras.layers.TFSMLayer(tmp_path)(x) * 2.0)

    found = outer.predict(inputs("nested"), verbose=0)
    np.testing.assert_allclose(found, 2 * outputs(inner, "nested")[0], rtol=1e-5)
    default = keras.layers.TFSMLayer(tmp_path, call_endpoint="serving_default")
    np.testing.assert_allclose(2 * default(inputs("nested"))["output_0"], found, rtol=1e-5)
    with pytest.raises(ArgumentError, match=r"no endpoint 'other'. Its endpoints: serve"):
        keras.layers.TFSMLayer(tmp_path, call_endpoint="other")


def test_loops_conditions_and_draws_are_saved(tmp_path):
    class Program(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([], tf.int32)])
        def run(self, x, n):
            i = tf.constant(0)
            while i < n:
                x = x * 2.0
                i += 1
            if tf.reduce_sum(x) > 100.0:
                x = x - 1.0
            return x + tf.random.uniform(tf.shape(x))

    program = Program()
    tf.saved_model.save(program, tmp_path)
    again = tf.saved_model.load(tmp_path)

    for n in (0, 3, 8):
        tf.random.set_seed(3)
        wanted = program.run(tf.ones([4, 2]), tf.constant(n))
        tf.random.set_seed(3)
        np.testing.assert_array_equal(again.run(tf.ones([4, 2]), tf.constant(n)), wanted)


def saved(function, spec, folder):
    class Holder(tf.Module):
        pass

    holder = Holder()
    holder.run = tf.function(function, input_signature=[spec])
    tf.saved_model.save(holder, folder)
    return tf.saved_model.load(folder).run


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / x.shape[0],
        lambda x: tf.reduce_mean(x) + tf.cast(tf.range(tf.shape(x)[0]), tf.float32),
        lambda x: tf.reshape(x, [-1, 2])[:, 0],
        lambda x: tf.concat([x, tf.zeros([x.shape[0]])], 0),
        lambda x: x[::-1] + tf.ones([x.shape[0]]),
    ],
)
def test_sizes_follow_the_argument(function, tmp_path):
    run = saved(function, tf.TensorSpec([None]), tmp_path)

    for n in (2, 6, 40):
        x = tf.constant(np.arange(n, dtype="float32"))
        np.testing.assert_allclose(run(x), function(x), rtol=1e-6)


def test_a_length_that_cannot_be_divided_is_refused(tmp_path):
    run = saved(lambda x: tf.reshape(x, [-1, 2]), tf.TensorSpec([None]), tmp_path)

    with pytest.raises(ShapeError, match=r"divides an axis.*lengths of \(3,\)"):
        run(tf.ones([3]))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: tf.py_function(lambda v: v, [x], tf.float32), "has an effect in Python"),
        (lambda x: x * float(len(x) > 50), "cannot be saved for all lengths"),
        (lambda x: (x, "text"), "returns a str, and only tensors are saved"),
    ],
)
def test_what_cannot_be_saved_is_refused(function, words, tmp_path):
    with pytest.raises(ArgumentError, match=words):
        saved(function, tf.TensorSpec([None]), tmp_path / "a")
    assert not tf.saved_model.contains_saved_model(tmp_path / "a")


def test_functions_of_text_are_refused(tmp_path):
    words = tf.TensorSpec([None], tf.string)
    with pytest.raises(ArgumentError, match=r"Holder.run takes text, which is computed in Python"):
        saved(tf.strings.length, words, tmp_path)
    model = keras.Sequential([keras.layers.TextVectorization(vocabulary=["a", "b"])])
    model(tf.constant(["a b"]))
    with pytest.raises(ArgumentError, match=r"takes text, which is computed in Python"):
        model.export(tmp_path)


def test_signatures_of_text_are_left_out_beside_others(tmp_path):
    class Holder(tf.Module):
        def __init__(self):
            self.scale = tf.Variable(2.0)
            self.run.get_concrete_function(tf.TensorSpec([], tf.string))
            self.run.get_concrete_function(tf.TensorSpec([None, 4], tf.float32))

        @tf.function
        def run(self, x):
            if x.dtype == tf.string:
                x = tf.strings.to_number(tf.strings.split(x))[None]
            return {"y": self.scale * x}

    with pytest.warns(UserWarning, match=r"Holder.run is saved without the signatures that take"):
        tf.saved_model.save(Holder(), tmp_path)

    loaded = tf.saved_model.load(tmp_path)
    assert loaded.run(tf.ones([3, 4]))["y"].tolist() == [[2.0] * 4] * 3


def test_a_variable_that_is_no_attribute_is_refused(tmp_path):
    variable = tf.Variable(2.0)

    with pytest.raises(ArgumentError, match=r"a variable that is not an attribute"):
        saved(lambda x: x * variable, tf.TensorSpec([None]), tmp_path)
    with pytest.raises(ArgumentTypeError, match=r"takes a Module, a layer or a model. Got int"):
        tf.saved_model.save(3, tmp_path)


def test_the_classes_are_not_needed(tmp_path):
    MODELS["stack"](keras).export(tmp_path)
    code = f"""
import tapegrad as tf
loaded = tf.saved_model.load({str(tmp_path)!r})
print(loaded.serve(tf.ones([3, 4])).shape)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "(3, 3)"


def test_an_interrupted_save_keeps_the_old_model(tmp_path, monkeypatch):
    saved(lambda x: x + 1.0, tf.TensorSpec([None]), tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "replacing", fail)
    with pytest.raises(KeyboardInterrupt):
        saved(lambda x: x + 2.0, tf.TensorSpec([None]), tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert tf.saved_model.load(tmp_path).run(tf.zeros([1])).tolist() == [1.0]
    monkeypatch.undo()
    saved(lambda x: x + 2.0, tf.TensorSpec([None]), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_files_of_tensorflow_are_named(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ArgumentError, match=r"a SavedModel of TensorFlow, whose graphs"):
        tf.saved_model.load(tmp_path)


def changed(tree, chance):
    """JSON values with one part replaced."""
    if isinstance(tree, dict) and tree and chance.random() < 0.9:
        key = chance.choice(sorted(tree))
        return {**tree, key: changed(tree[key], chance)}
    if isinstance(tree, list) and tree and chance.random() < 0.9:
        place = chance.randrange(len(tree))
        return [*tree[:place], changed(tree[place], chance), *tree[place + 1 :]]
    return chance.choice([None, -1, 2**40, "x", [], {}, True, {"value": 99}, [[]]])


@pytest.mark.filterwarnings("ignore")
def test_changed_files_end_in_a_sentence_or_run(tmp_path):
    MODELS["stack"](keras).export(tmp_path)
    path, chance = tmp_path / "saved_model.json", random.Random(7)
    original = json.loads(path.read_text())
    refused = 0
    for _ in range(300):
        path.write_text(json.dumps(changed(original, chance)))
        try:
            tf.saved_model.load(tmp_path).serve(tf.ones([2, 4]))
        except (TapegradError, AttributeError):
            refused += 1
    assert refused > 50


class OfAnyShape(tf.Module):
    def __init__(self) -> None:
        self.w = tf.Variable(tf.reshape(tf.range(12 * 3.0), [12, 3]))

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def doubled(self, x: Any) -> Any:
        return 2.0 * x

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, None], tf.uint8)])
    def in_rows(self, x: Any) -> Any:
        return tf.matmul(tf.cast(tf.reshape(x, [-1, 12]), tf.float32), self.w)


def test_a_spec_without_a_shape_is_saved_for_several_ranks(tmp_path: Path) -> None:
    tf.saved_model.save(OfAnyShape(), tmp_path)
    loaded = tf.saved_model.load(tmp_path)

    for shape in ((), (3,), (2, 3), (2, 1, 3), (1, 2, 2, 1)):
        assert loaded.doubled(tf.ones(shape)).tolist() == np.full(shape, 2.0).tolist()


def test_four_lengths_may_be_unknown_where_rows_have_a_fixed_length(tmp_path: Path) -> None:
    module = OfAnyShape()
    tf.saved_model.save(module, tmp_path)
    loaded = tf.saved_model.load(tmp_path)

    for shape in ((5, 2, 6, 1), (2, 3, 4, 2)):
        x = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
        expected = x.reshape(-1, 12).astype(float) @ module.w.numpy()
        np.testing.assert_allclose(loaded.in_rows(x).numpy(), expected, rtol=1e-6)


class Drawing(tf.Module):
    def __init__(self) -> None:
        self.generator = tf.random.Generator.from_seed(3)

    @tf.function
    def draw(self) -> Any:
        return self.generator.normal([])

    @tf.function
    def state(self) -> Any:
        return self.generator.state

    @tf.function
    def seven(self) -> Any:
        return tf.constant(7.0)


def test_a_result_may_be_a_variable_and_a_function_may_have_no_inputs(tmp_path: Path) -> None:
    module = Drawing()
    for call in (module.draw, module.state, module.seven):
        call()
    tf.saved_model.save(module, tmp_path)

    loaded = tf.saved_model.load(tmp_path)

    assert float(loaded.seven()) == 7.0
    assert loaded.state().numpy().tolist() == module.state().numpy().tolist()
    assert float(loaded.draw()) == float(module.draw())
    assert loaded.state().numpy().tolist() == module.state().numpy().tolist()


class Narrow(tf.Module):
    def __init__(self) -> None:
        self.mean = tf.constant([1.0] * 9)

    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def widened(self, x: Any) -> Any:
        return tf.concat([x, x[:, :2]], axis=1) - self.mean

    @tf.function
    def doubled(self, x: Any) -> Any:
        return 2.0 * x


def test_a_length_may_be_one_that_no_variable_has(tmp_path: Path) -> None:
    module = Narrow()
    module.doubled.get_concrete_function(tf.TensorSpec([None]))
    tf.saved_model.save(module, tmp_path)

    loaded = tf.saved_model.load(tmp_path)

    assert loaded.widened(tf.ones([4, 7])).tolist() == np.zeros((4, 9)).tolist()
    assert loaded.doubled(tf.constant([1.0, 3.0])).tolist() == [2.0, 6.0]


class Weighted(tf.Module):
    def __init__(self) -> None:
        self.w = tf.Variable([3.0, 2.0, 8.0, 5.0])

    @tf.function
    def __call__(self, x: Any) -> Any:
        return {"twice": 2.0 * x}

    @tf.function
    def weighted(self, x: Any) -> Any:
        return x * self.w

    @tf.function(input_signature=[tf.TensorSpec([4])])
    def put(self, x: Any) -> None:
        self.w.assign(x)


def test_signatures_without_a_shape_describe_their_results(tmp_path: Path) -> None:
    module = Weighted()
    any_shape = module.__call__.get_concrete_function(tf.TensorSpec(None))
    rows = module.__call__.get_concrete_function(tf.TensorSpec([None, 3]))
    tf.saved_model.save(module, tmp_path, signatures={"any": any_shape, "rows": rows})
    found = tf.saved_model.load(tmp_path).signatures

    assert [*found] == ["any", "rows"]
    for shape in ((), (2,), (2, 1, 3)):
        assert found["any"](tf.ones(shape))["twice"].tolist() == np.full(shape, 2.0).tolist()
    assert found["any"].structured_outputs == {"twice": tf.TensorSpec(None, name="twice")}
    assert found["rows"].structured_outputs == {"twice": tf.TensorSpec([None, 3], name="twice")}
    assert found["rows"].output_shapes == {"twice": (None, 3)}
    assert found["rows"].output_dtypes == {"twice": tf.float32}
    assert found["rows"].inputs == [tf.TensorSpec([None, 3], name="x")]
    assert repr(found["rows"]).startswith("<signature 'rows'(x: TensorSpec(shape=(None, 3)")


def test_only_a_function_with_an_input_signature_and_results_is_the_default(tmp_path: Path) -> None:
    module = Weighted()
    module(tf.constant(1.0))
    tf.saved_model.save(module, tmp_path)

    loaded = tf.saved_model.load(tmp_path)
    assert loaded.signatures == {}
    loaded.put(tf.zeros([4]))
    assert loaded.w.numpy().tolist() == [0.0] * 4


def test_a_first_axis_may_need_the_length_of_a_variable(tmp_path: Path) -> None:
    module = Weighted()
    module.weighted.get_concrete_function(tf.TensorSpec(None))
    tf.saved_model.save(module, tmp_path)
    weighted = tf.saved_model.load(tmp_path).weighted

    assert weighted(tf.ones([4])).tolist() == [3.0, 2.0, 8.0, 5.0]
    assert weighted(tf.ones([2, 4])).tolist() == [[3.0, 2.0, 8.0, 5.0]] * 2
    assert weighted(tf.constant(2.0)).tolist() == [6.0, 4.0, 16.0, 10.0]


class Scored(tf.experimental.ExtensionType):
    __name__ = "tests.Scored"

    values: tf.Tensor
    mask: tf.Tensor
    scale: float = 1.0


class OfExtensions(tf.Module):
    def __init__(self) -> None:
        self.w = tf.Variable(10.0)

    @tf.function
    def grow(self, x: Any) -> Any:
        return Scored(x.values * self.w * x.scale, x.mask, x.scale)

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def made(self, x: Any) -> Any:
        return Scored(x, x > 0.0)

    @tf.function
    def total(self, parts: Any) -> Any:
        return tf.reduce_sum(parts["a"].values) + parts["b"]


def test_extension_types_are_arguments_and_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = OfExtensions()
    spec = Scored.Spec(tf.TensorSpec([None]), tf.TensorSpec([None], tf.bool), 2.0)
    module.grow.get_concrete_function(spec)
    module.total.get_concrete_function({"a": spec, "b": tf.TensorSpec([])})
    tf.saved_model.save(module, tmp_path)
    loaded = tf.saved_model.load(tmp_path)

    x = Scored([1.0, 2.0, 3.0], [False, True, False], 2.0)
    grown = loaded.grow(x)
    assert isinstance(grown, Scored)
    assert grown.values.numpy().tolist() == [20.0, 40.0, 60.0]
    assert (grown.mask.numpy().tolist(), grown.scale) == ([False, True, False], 2.0)
    assert float(loaded.total({"a": x, "b": tf.constant(1.0)})) == 7.0
    with pytest.raises(ArgumentError, match=r"'grow' was saved for the arguments"):
        loaded.grow(Scored([1.0], [True], 3.0))
    assert loaded.made(tf.constant([-1.0, 1.0])).mask.numpy().tolist() == [False, True]
    with monkeypatch.context() as patched:
        patched.delitem(CLASSES, "tests.Scored")
        with pytest.raises(ArgumentError, match=r"'tests.Scored', an extension type that is not"):
            loaded.made(tf.ones([3]))
