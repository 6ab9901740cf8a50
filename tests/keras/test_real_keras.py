"""Real Keras on the tape; each test is a process of its own, because Keras has one backend.

`ci/keras.sh` installs Keras and runs these tests. Keras' own tests run there, too.
"""

from __future__ import annotations

import pytest

from tests.house.sources import ROOT
from tests.keras.real_keras import needs_keras, run

pytestmark = needs_keras


def test_tf_keras_is_keras_with_this_backend():
    found = run("print(json.dumps([keras.backend.backend(), tf.keras is keras]))")

    assert found == ["tapegrad", True]


def test_training_learns_and_the_recorded_step_equals_the_eager_step():
    eager, recorded, accuracy = run("""
histories = []
for eager in (True, False):
    trained = model()
    histories.append(trained.fit(x, y, epochs=12, batch_size=32, shuffle=False, verbose=0).history)
print(json.dumps([histories[0]["loss"], histories[1]["loss"], histories[1]["accuracy"][-1]]))
""")

    assert recorded == pytest.approx(eager, rel=1e-4)
    assert accuracy > 0.9


def test_a_trained_step_equals_the_formulas_of_gradient_descent():
    found, expected = run("""
made = keras.Sequential([keras.Input((6,)), layers.Dense(1, use_bias=False)])
made.compile(keras.optimizers.SGD(0.1), "mse")
w = made.get_weights()[0].astype("float64")
target = x.sum(axis=1, keepdims=True)
made.train_on_batch(x, target)
gradient = 2 / len(x) * x.T.astype("float64") @ (x @ w - target)
print(json.dumps([made.get_weights()[0].tolist(), (w - 0.1 * gradient).tolist()]))
""")

    for row, wanted in zip(found, expected, strict=True):
        assert row == pytest.approx(wanted, rel=1e-4)


def test_the_second_call_of_a_step_is_a_replay():
    calls = run("""
calls = []


class Noted(layers.Dense):
    def call(self, inputs):
        calls.append(type(inputs).__name__)
        return super().call(inputs)


made = keras.Sequential([keras.Input((6,)), Noted(3)])
made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
made.train_on_batch(x, y)
made.train_on_batch(x, y)
first = len(calls)
for _ in range(5):
    made.train_on_batch(x, y)
print(json.dumps(len(calls) - first))
""")

    assert calls == 0


def test_models_are_saved_and_loaded_in_both_formats(tmp_path):
    whole, weights = run(f"""
made = model()
made.fit(x, y, verbose=0)
made.save({str(tmp_path / "m.keras")!r})
made.save_weights({str(tmp_path / "m.weights.h5")!r})
loaded = keras.models.load_model({str(tmp_path / "m.keras")!r})
other = model()
other.load_weights({str(tmp_path / "m.weights.h5")!r})
wanted = made.predict(x, verbose=0)
print(json.dumps([float(abs(m.predict(x, verbose=0) - wanted).max()) for m in (loaded, other)]))
""")

    assert (whole, weights) == (0.0, 0.0)


def test_dropout_draws_anew_in_every_recorded_step():
    same = run("""
made = keras.Sequential([keras.Input((6,)), layers.Dropout(0.5, seed=1)])
step = tf.function(lambda data: made(data, training=True))
drawn = [np.array(step(tf.constant(x))) for _ in range(4)]
print(json.dumps([bool((a == b).all()) for a, b in zip(drawn, drawn[1:])]))
""")

    assert same == [False, False, False]


def test_a_tape_takes_the_variables_of_keras_as_sources():
    found = run("""
v = keras.Variable([1.0, 2.0, 3.0])
with tf.GradientTape() as tape:
    z = ops.sum(v * v * v)
print(json.dumps(np.array(tape.gradient(z, v)).tolist()))
""")

    assert found == [3.0, 12.0, 27.0]


def test_loops_branches_and_own_gradients():
    found = run("""
total, sums = ops.scan(lambda c, e: (c + e, c + e), np.float32(0), np.arange(4, dtype="float32"))
n = ops.while_loop(lambda i: i < 5, lambda i: i + 1, (0,))[0]
chosen = ops.cond(ops.convert_to_tensor(True), lambda: 1.0, lambda: 2.0)


@ops.custom_gradient
def doubled(a):
    return a, lambda *args, upstream=None: args[0] * 2.0


v = keras.Variable(3.0)
with tf.GradientTape() as tape:
    z = doubled(v.value)
print(json.dumps([float(total), np.array(sums).tolist(), int(n), float(chosen),
                  float(tape.gradient(z, v))]))
""")

    assert found == [6.0, [0.0, 1.0, 3.0, 6.0], 5, 1.0, 2.0]


def test_mixed_precision_trains_with_weights_in_float32():
    loss, dtypes = run("""
keras.mixed_precision.set_global_policy("mixed_float16")
made = model()
history = made.fit(x, y, epochs=12, batch_size=32, verbose=0).history["loss"]
print(json.dumps([history[-1] / history[0], sorted({w.dtype for w in made.trainable_weights})]))
""")

    assert loss < 0.7
    assert dtypes == ["float32"]


def test_the_example_reads_digits():
    accuracy = run(f"""
import sys
sys.path.insert(0, {str(ROOT / "examples")!r})
import keras_digits
print(json.dumps(keras_digits.main(epochs=4)))
""")

    assert accuracy > 0.93


def test_files_of_the_embedded_keras_load_in_real_keras(tmp_path):
    """Predictions are compared in one process: the embedded face is a module of its own."""
    worst = run(f"""
import importlib
import pathlib

from tests.keras.interchange_models import MODELS, outputs, with_other_weights

embedded, worst = importlib.import_module("tapegrad.keras"), []
folder = pathlib.Path({str(tmp_path)!r})
for name, make in MODELS.items():
    ours = with_other_weights(make(embedded), 4)
    ours.save(folder / f"{{name}}.keras")
    ours.save_weights(folder / f"{{name}}.weights.h5")
    theirs = with_other_weights(make(keras), 5)
    theirs.load_weights(folder / f"{{name}}.weights.h5")
    loaded = [theirs, keras.models.load_model(folder / f"{{name}}.keras")]
    if name in ("stack", "recurrent", "images"):
        ours.save(folder / f"{{name}}.h5")
        loaded.append(keras.models.load_model(folder / f"{{name}}.h5"))
    for one in loaded:
        pairs = zip(outputs(one, name), outputs(ours, name), strict=True)
        worst += [float(abs(a - b).max()) for a, b in pairs]
print(json.dumps(worst))
""")

    assert len(worst) == 17
    assert max(worst) < 1e-5


def test_int8_quantization_keeps_the_predictions_and_is_saved(tmp_path):
    dtype, agreement, error = run(f"""
made = model()
made.fit(x, y, epochs=30, verbose=0)
before = made.predict(x, verbose=0).argmax(1)
made.quantize("int8")
after = made.predict(x, verbose=0)
made.save({str(tmp_path / "m.keras")!r})
loaded = keras.models.load_model({str(tmp_path / "m.keras")!r})
error = float(abs(loaded.predict(x, verbose=0) - after).max())
kernel = made.layers[0]._kernel.dtype
print(json.dumps([kernel, float((before == after.argmax(1)).mean()), error]))
""")

    assert dtype == "int8"
    assert agreement > 0.95
    assert error == 0


def test_lora_trains_two_small_matrices_and_keeps_the_kernel():
    trainable, kernel_change, losses, merged = run("""
made = model()
start = made.layers[0].kernel.numpy()
made.layers[0].enable_lora(2)
made.layers[1].trainable = False
made.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = made.fit(x, y, epochs=5, verbose=0).history["loss"]
layer = made.layers[0]
product = layer.lora_kernel_a.numpy() @ layer.lora_kernel_b.numpy()
shapes = [list(w.shape) for w in made.trainable_weights]
kept = float(abs(layer._kernel.numpy() - start).max())
error = float(abs(np.array(layer.kernel) - (start + product)).max())
print(json.dumps([shapes, kept, history, error]))
""")

    assert trainable == [[8], [6, 2], [2, 8]]
    assert kernel_change == 0
    assert losses[-1] < losses[0]
    assert merged < 1e-6
