"""Real Keras on the tape: what programs written for Keras on TensorFlow rely on."""

from __future__ import annotations

import pytest

from tests.keras.real_keras import needs_keras, run

pytestmark = needs_keras


def test_a_model_with_its_own_step_needs_no_call() -> None:
    losses, steps = run("""
class Fit(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = keras.Sequential([layers.Dense(1)])

    def train_step(self, data):
        a, b = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.square(self.inner(a) - b))
        gradients = tape.gradient(loss, self.inner.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.inner.trainable_weights))
        return {"error": loss}

made = Fit()
made.compile(keras.optimizers.SGD(0.1))
history = made.fit(x, x.sum(axis=1, keepdims=True), epochs=5, verbose=0).history["error"]
print(json.dumps([history, int(made.optimizer.iterations.numpy())]))
""")

    assert losses[-1] < 0.1 * losses[0]
    assert steps > 5


def test_positions_are_looked_up_in_tables_shorter_than_the_trial_lengths() -> None:
    shape = run("""
class Positions(layers.Layer):
    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(20, 4)

    def call(self, inputs):
        return inputs[..., None] + self.table(keras.ops.arange(keras.ops.shape(inputs)[-1]))

print(json.dumps(Positions()(keras.Input((None,))).shape))
""")

    assert shape == [None, None, 4]


def test_a_layer_may_decide_by_the_value_of_a_tensor() -> None:
    found = run("""
class Decides(layers.Layer):
    @tf.function
    def call(self, inputs):
        if keras.ops.sum(inputs) > 0:
            return inputs * 2
        else:
            return inputs / 2

made = keras.Sequential([Decides()])
ones = np.ones((3, 3), "float32")
print(json.dumps([made.predict(ones, verbose=0)[0][0].item(),
                  made.predict(-ones, verbose=0)[0][0].item()]))
""")

    assert found == pytest.approx([2.0, -0.5])


def test_feature_space_needs_no_tensorflow() -> None:
    shape = run("""
words = keras.layers.TextVectorization(max_tokens=5, output_mode="multi_hot")
text = keras.utils.FeatureSpace.feature("string", preprocessor=words, output_mode="float")
space = keras.utils.FeatureSpace(
    {"size": "float_normalized", "kind": "string_categorical", "words": text}, output_mode="concat")
rows = {"size": [[1.0], [2.0], [4.0]], "kind": [["a"], ["b"], ["a"]],
        "words": [["a b"], ["b"], ["b c"]]}
data = tf.data.Dataset.from_tensor_slices(rows)
space.adapt(data)
found = [space(row) for row in data.batch(3)]
print(json.dumps(list(found[0].shape)))
""")

    assert shape == [3, 8]


def test_values_in_a_functional_model_are_dropped_after_their_last_use() -> None:
    counts = run("""
import weakref
alive, counts = [], []
class Watched(keras.layers.Layer):
    def call(self, x):
        alive[:] = [one for one in alive if one() is not None]
        counts.append(len(alive))
        y = x + 1.0
        alive.append(weakref.ref(getattr(y, "array", y)))
        return y
i = keras.Input((3,))
first = y = Watched()(i)
for _ in range(5):
    y = Watched()(y)
made = keras.Model(i, [y, y + first])
alive.clear(), counts.clear()
made(np.ones((2, 3), "float32"))
print(json.dumps(counts))
""")

    assert counts == [0, 1, 2, 2, 2, 2]
