"""Data for real Keras without TensorFlow: datasets of tapegrad, text, folders and time series."""

from __future__ import annotations

import pytest

from tests.keras.real_keras import needs_keras, run

pytestmark = needs_keras


def test_fit_takes_a_dataset_and_equals_fit_of_arrays():
    by_dataset, by_arrays = run("""
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
first, second = model(), model()
first.fit(data, epochs=2, validation_data=data, verbose=0)
second.fit(x, y, epochs=2, batch_size=32, shuffle=False, validation_data=(x, y), verbose=0)
names = ("loss", "val_loss", "accuracy")
print(json.dumps([[m.history.history[name] for name in names] for m in (first, second)]))
""")

    for found, expected in zip(by_dataset, by_arrays, strict=True):
        assert found == pytest.approx(expected, rel=1e-6)


def test_class_weights_of_a_dataset_equal_weights_of_samples():
    by_class, by_sample = run("""
first, second = model(), model()
weights = {0: 1.0, 1: 2.0, 2: 0.5}
first.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(32), class_weight=weights, verbose=0)
each = np.array([weights[label] for label in y.tolist()])
second.fit(x, y, sample_weight=each, batch_size=32, shuffle=False, verbose=0)
print(json.dumps([m.history.history["loss"][0] for m in (first, second)]))
""")

    assert by_class == pytest.approx(by_sample, rel=1e-6)


def test_a_dataset_without_end_trains_for_the_given_steps():
    steps = run("""
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32).repeat()
made = model()
made.fit(data, steps_per_epoch=5, epochs=2, verbose=0)
print(json.dumps(int(made.optimizer.iterations)))
""")

    assert steps == 10


def test_targets_beside_a_dataset_are_refused():
    message = run("""
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
try:
    model().fit(data, y)
except ValueError as error:
    print(json.dumps(str(error)))
""")

    assert message.startswith("`y` is refused with a `Dataset`")


def test_layers_adapt_to_a_dataset():
    mean, variance, bounds = run("""
data = tf.data.Dataset.from_tensor_slices(x).batch(32)
scaled = layers.Normalization()
scaled.adapt(data)
binned = layers.Discretization(num_bins=2)
binned.adapt(tf.data.Dataset.from_tensor_slices(np.arange(101.0)).batch(101))
errors = [float(abs(scaled.mean.numpy() - x.mean(0)).max())]
errors.append(float(abs(scaled.variance.numpy() - x.var(0)).max()))
print(json.dumps([*errors, [float(bound) for bound in binned.bin_boundaries]]))
""")

    assert max(mean, variance) < 1e-5
    assert bounds == pytest.approx([50.0], abs=1.0)


def test_text_is_vectorized_in_a_model_that_is_saved(tmp_path):
    words, places, error, losses = run(f"""
texts = np.array(["the cat", "the dog sat", "a cat sat"])
numbers = layers.TextVectorization(output_sequence_length=3)
numbers.adapt(texts)
given = keras.Input((), dtype="string")
h = layers.GlobalAveragePooling1D()(layers.Embedding(10, 4)(numbers(given)))
made = keras.Model(given, layers.Dense(1)(h))
made.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((texts, np.array([0.0, 1.0, 1.0]))).batch(3)
history = made.fit(data, epochs=3, verbose=0).history["loss"]
made.save({str(tmp_path / "text.keras")!r})
loaded = keras.models.load_model({str(tmp_path / "text.keras")!r})
error = float(abs((loaded(tf.constant(texts)) - made(tf.constant(texts))).numpy()).max())
found = numbers(["cat the bird"]).numpy().tolist()
print(json.dumps([numbers.get_vocabulary(), found, error, history]))
""")

    # Most frequent first; ties in reverse order of the alphabet, as in Keras.
    assert words == ["", "[UNK]", "the", "sat", "cat", "dog", "a"]
    assert places == [[4, 2, 1]]
    assert error == 0
    assert losses[2] < losses[0]


def test_lookups_and_hashes_need_no_tensorflow():
    found = run("""
words = layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")
numbers = layers.IntegerLookup(vocabulary=[7, 9])
bins = layers.Hashing(3)(["a", "b", "a"]).numpy()
print(json.dumps([
    words(["b", "z"]).numpy().tolist(),
    numbers([9, 1]).numpy().tolist(),
    bool(bins[0] == bins[2] and bins.max() < 3),
]))
""")

    assert found == [[[0, 0, 1], [1, 0, 0]], [2, 0], True]


def test_datasets_of_folders_and_time_series(tmp_path):
    shapes, names, windows, parts = run(f"""
from pathlib import Path
from PIL import Image
for name in ("cats", "dogs"):
    place = Path({str(tmp_path)!r}, name)
    place.mkdir()
    for k in range(3):
        Image.fromarray(np.zeros((8, 8, 3), "uint8")).save(place / f"{{k}}.png")
images = keras.utils.image_dataset_from_directory(
    {str(tmp_path)!r}, image_size=(4, 4), batch_size=4, verbose=False
)
series = keras.utils.timeseries_dataset_from_array(np.arange(10.0), None, 4, batch_size=None)
left, right = keras.utils.split_dataset(tf.data.Dataset.range(10), left_size=0.7)
print(json.dumps([
    [list(image.shape) for image, _ in images],
    images.class_names,
    [window.numpy().tolist() for window in series][:2],
    [len(list(left)), len(list(right))],
]))
""")

    assert shapes == [[4, 4, 4, 3], [2, 4, 4, 3]]
    assert names == ["cats", "dogs"]
    assert windows == [[0, 1, 2, 3], [1, 2, 3, 4]]
    assert parts == [7, 3]


def test_floatx_float64_is_kept():
    names = run("""
keras.config.set_floatx("float64")
wide = np.ones((2, 8, 8, 3))
convolved = layers.Conv2D(4, 3)(wide)
print(json.dumps([v.dtype.name for v in (convolved, layers.Dense(2)(wide), ops.softmax(wide))]))
""")

    assert names == ["float64"] * 3


def test_arrays_of_text_are_inputs_like_datasets_of_text():
    by_arrays, by_dataset, predicted = run("""
texts, labels = np.array([["a"], ["b"], ["c"], ["a"]] * 10), np.arange(40) % 2
def made():
    inputs = keras.Input((1,), dtype="string")
    lookup = keras.layers.StringLookup(vocabulary=["a", "b"], output_mode="multi_hot")
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(lookup(inputs))
    found = keras.Model(inputs, outputs)
    found.compile("sgd", "mse")
    return found
first, second = made(), made()
first.fit(texts, labels, batch_size=8, shuffle=False, epochs=2, verbose=0)
second.fit(tf.data.Dataset.from_tensor_slices((texts, labels)).batch(8), epochs=2, verbose=0)
losses = [one.evaluate(texts, labels, verbose=0) for one in (first, second)]
print(json.dumps([*losses, made().predict(tf.constant([["a"], ["c"]]), verbose=0).tolist()]))
""")

    assert by_arrays == pytest.approx(by_dataset, rel=1e-6)
    assert predicted == [[1.0], [1.0]]


def test_the_tensorboard_callback_writes_without_tensorflow():
    tags, warned = run("""
import glob, re, tempfile, warnings
with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    board = keras.callbacks.TensorBoard(
        folder, histogram_freq=1, write_images=True, update_freq=1, profile_batch=(1, 2)
    )
    trained = model()
    trained.fit(x, y, epochs=2, validation_data=(x, y), verbose=0, callbacks=[board])
    files = glob.glob(folder + "/*/events*")
    content = {name.split("/")[-2]: open(name, "rb").read() for name in files}
pattern = rb"(?:epoch|batch|evaluation)_[a-z_]+|[a-z]+/histogram"
words = {k: set(re.findall(pattern, v)) for k, v in content.items()}
found = {k: sorted(one.decode() for one in v) for k, v in words.items()}
print(json.dumps([found, [str(one.message) for one in caught]]))
""")

    assert {"batch_loss", "epoch_loss", "epoch_accuracy", "kernel/histogram"} <= set(tags["train"])
    assert {"epoch_loss", "evaluation_loss_vs_iterations"} <= set(tags["validation"])
    assert [one for one in warned if "profile_batch=(1, 2) is ignored" in one]
