"""String tensors against Python's own bytes and NumPy's arrays of objects."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentTypeError, DTypeError

WORDS = ["some", "words", "é", ""]
BYTES = [word.encode() for word in WORDS]


@pytest.mark.parametrize(
    "given",
    [WORDS, BYTES, tuple(WORDS), np.array(WORDS), np.array(WORDS, object), np.array(BYTES, object)],
    ids=["list", "bytes", "tuple", "unicode", "objects", "bytes objects"],
)
@pytest.mark.parametrize("make", [tf.constant, tf.convert_to_tensor])
def test_text_becomes_bytes(make, given):
    found = make(given)

    assert found.dtype == tf.string
    assert found.shape == (4,)
    assert found.device == "cpu"
    assert found.numpy().dtype == object
    assert found.numpy().tolist() == BYTES
    assert tf.is_tensor(found)


class Column:
    """A column of a data frame, as far as text needs it."""

    def __init__(self, values):
        self._values = np.array(values, object)
        self.dtype, self.shape = self._values.dtype, self._values.shape

    def __array__(self, dtype=None, copy=None):
        return self._values

    def __len__(self):
        return len(self._values)


def test_columns_of_data_frames_are_text():
    column = Column(WORDS)

    assert tf.constant(column).tolist() == BYTES
    data = tf.data.Dataset.from_tensor_slices({"word": column, "x": [0, 1, 2, 3]})
    assert [row["word"] for row in data.as_numpy_iterator()] == BYTES
    layer = tf.keras.layers.TextVectorization(output_mode="count")
    layer.adapt(column)
    assert layer.get_vocabulary(False) == ["é", "words", "some"]
    model = tf.keras.Sequential([layer, tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(column, np.zeros((4, 1)), verbose=0)


def test_an_empty_array_of_objects_is_text():
    empty = np.array([], object)

    assert tf.constant(empty).dtype == tf.string
    assert tf.concat([empty, np.array([b"a"], object)], 0).tolist() == [b"a"]


def test_one_text_is_a_scalar_whose_value_is_bytes():
    found = tf.constant("é")

    assert found.shape == ()
    assert found.numpy() == "é".encode()
    assert tf.constant([["a"], ["b"]]).shape == (2, 1)
    assert tf.constant("x", shape=[2]).tolist() == [b"x", b"x"]
    assert tf.constant([], tf.string).shape == (0,)


def test_the_dtype_of_text_has_its_names():
    assert tf.string == "string"
    assert tf.as_dtype(str) is tf.string
    assert tf.as_dtype(np.dtype(object)) is tf.string
    assert tf.string != tf.float32
    assert tf.string.as_numpy_dtype is np.object_
    assert not tf.string.is_floating
    assert not tf.string.is_integer
    assert pickle.loads(pickle.dumps(tf.string)) == tf.string
    assert {tf.string: 1}[tf.as_dtype("string")] == 1


def test_operators_are_those_of_bytes():
    x = tf.constant(WORDS)

    assert (x + "!").tolist() == [word + b"!" for word in BYTES]
    assert ("<" + x).tolist() == [b"<" + word for word in BYTES]
    assert (x == "words").tolist() == [word == b"words" for word in BYTES]
    assert (x != x[::-1]).tolist() == [a != b for a, b in zip(BYTES, BYTES[::-1])]
    assert len(x) == 4
    assert [one.numpy() for one in x] == BYTES
    assert x[1].numpy() == b"words"
    assert x[tf.constant([2, 0])].tolist() == [BYTES[2], b"some"]
    assert x[x != ""].tolist() == BYTES[:3]


TABLE = np.array([[b"a", b"b", b"c"], [b"d", b"e", b"f"]], object)

# Shape functions of TensorFlow beside those of NumPy.
SHAPES = {
    "reshape": (lambda x: tf.reshape(x, [3, -1]), lambda x: x.reshape(3, -1)),
    "transpose": (tf.transpose, np.transpose),
    "expand_dims": (lambda x: tf.expand_dims(x, -1), lambda x: x[..., None]),
    "squeeze": (lambda x: tf.squeeze(x[:1]), lambda x: x[0]),
    "concat": (lambda x: tf.concat([x, x], 1), lambda x: np.concatenate([x, x], 1)),
    "concat_list": (lambda x: tf.concat([x[0], ["z"]], 0), lambda x: np.append(x[0], b"z")),
    "stack": (lambda x: tf.stack([x, x], 1), lambda x: np.stack([x, x], 1)),
    "gather": (lambda x: tf.gather(x, [2, 0], axis=1), lambda x: x[:, [2, 0]]),
    "gather_nd": (lambda x: tf.gather_nd(x, [[1, 2], [0, 0]]), lambda x: x[[1, 0], [2, 0]]),
    "boolean_mask": (lambda x: tf.boolean_mask(x, x != "b"), lambda x: x[x != b"b"]),
    "where": (lambda x: tf.where(x == "e", "", x), lambda x: np.where(x == b"e", b"", x)),
    "tile": (lambda x: tf.tile(x, [2, 1]), lambda x: np.tile(x, (2, 1))),
    "repeat": (lambda x: tf.repeat(x, 2, axis=0), lambda x: np.repeat(x, 2, 0)),
    "reverse": (lambda x: tf.reverse(x, [1]), lambda x: x[:, ::-1]),
    "roll": (lambda x: tf.roll(x, 1, 1), lambda x: np.roll(x, 1, 1)),
    "slice": (lambda x: tf.slice(x, [0, 1], [2, 2]), lambda x: x[:, 1:]),
    "split": (lambda x: tf.split(x, 3, 1)[1], lambda x: x[:, 1:2]),
    "unstack": (lambda x: tf.unstack(x, axis=1)[2], lambda x: x[:, 2]),
    "broadcast_to": (lambda x: tf.broadcast_to(x[:, :1], [2, 4]), lambda x: x[:, [0] * 4]),
    "map_fn": (lambda x: tf.map_fn(lambda row: row + "!", x), lambda x: x + b"!"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape_functions_move_texts(name):
    of_tensors, of_arrays = SHAPES[name]

    found = of_tensors(tf.constant(TABLE))

    assert found.dtype == tf.string
    assert found.numpy().tolist() == of_arrays(TABLE).tolist()


def test_shapes_and_sizes_are_numbers():
    x = tf.constant(TABLE)

    assert tf.shape(x).tolist() == [2, 3]
    assert int(tf.size(x)) == 6
    assert int(tf.rank(x)) == 2
    assert tf.fill([2], "a").tolist() == [b"a", b"a"]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tf.exp(x),
        lambda x: tf.reduce_sum(x),
        lambda x: tf.matmul(x, x),
        lambda x: tf.cast(x, tf.float32),
        lambda x: tf.sqrt("4"),
        lambda x: tf.keras.layers.Dense(2)(tf.expand_dims(x, -1)),
    ],
    ids=["exp", "sum", "matmul", "cast", "python text", "layer"],
)
def test_functions_of_numbers_say_that_they_got_text(call):
    words = r"Got text, not numbers|Expected numbers\. Got the text '4'"
    with pytest.raises(ArgumentTypeError, match=words):
        call(tf.constant(WORDS))


def test_text_is_cast_to_text_and_has_distinct_values():
    texts = tf.constant(["b", "a", "b"])

    assert tf.cast(texts, "string") is texts
    assert tf.cast(np.array([b"b"], object), tf.string).tolist() == [b"b"]
    distinct, places, counts = tf.unique_with_counts(texts)
    assert (distinct.tolist(), places.tolist(), counts.tolist()) == (
        [b"b", b"a"],
        [0, 1, 0],
        [2, 1],
    )
    with pytest.raises(DTypeError, match="as_string"):
        tf.cast([1], "string")


def test_text_and_numbers_do_not_mix():
    with pytest.raises(ArgumentTypeError, match="two texts or two numbers"):
        tf.add(tf.ones(2), tf.constant("a"))
    with pytest.raises(TypeError, match="Got the text 'a'"):
        tf.ones(2) + "a"
    with pytest.raises(DTypeError, match="dtype of text"):
        tf.cast([1.0], tf.string)
    with pytest.raises(DTypeError, match="dtype of text"):
        tf.ones([2], tf.string)
    with pytest.raises(ArgumentTypeError, match="not numbers"):
        tf.constant(["a"], tf.float32)
    with pytest.raises(ArgumentTypeError, match="Got int: 1"):
        tf.constant(["a", 1])
    with pytest.raises(ArgumentTypeError, match="neither true nor false"):
        bool(tf.constant("a"))
    with pytest.raises(ArgumentTypeError, match="to_number"):
        float(tf.constant("1"))


def test_copies_and_pickles_hold_the_same_texts():
    x = tf.constant(TABLE)

    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other.tolist() == x.tolist()
        assert other.dtype == tf.string
    x.numpy()[0, 0] = b"changed"
    assert x[0, 0].numpy() == b"a"


def test_functions_of_text_run_eagerly_and_say_why():
    calls = []

    @tf.function
    def count(text, x):
        calls.append(text)
        return x * tf.cast(tf.strings.length(text), "float32")

    assert float(count(tf.constant("abc"), tf.ones([]))) == 3.0
    assert float(count(tf.constant("ab"), tf.ones([]))) == 2.0
    assert len(calls) == 2
    assert "an argument is text" in str(count.explain())


def test_text_that_is_constant_in_a_recorded_function_is_known_there():
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), 0.0
    )

    @tf.function
    def scaled(x):
        return x * table.lookup(tf.constant("b"))

    assert float(scaled(tf.constant(3.0))) == 6.0
    assert float(scaled(tf.constant(4.0))) == 8.0


def test_python_functions_take_and_return_text():
    joined = tf.py_function(lambda a, n: a + str(int(n)), [tf.constant("a"), 3], tf.string)
    assert joined.numpy() == b"a3"

    @tf.py_function(Tout=tf.string)
    def shouted(text):
        return text.numpy().upper()

    assert shouted("a").numpy() == b"A"
    found = tf.numpy_function(lambda a: np.int64(len(a)), [tf.constant(["a", "b"])], tf.int64)
    assert int(found) == 2


def test_texts_are_padded_filled_and_replaced():
    words = tf.constant([["a", "bb"]])

    assert tf.zeros_like(words).tolist() == [[b"", b""]]
    assert tf.zeros_like(words, dtype=tf.int32).tolist() == [[0, 0]]
    padded = tf.pad(words, [[0, 1], [1, 0]], constant_values="<p>")
    wanted = np.pad(words.numpy(), [[0, 1], [1, 0]], constant_values=b"<p>")
    assert padded.tolist() == wanted.tolist()
    assert tf.pad(words, [[0, 0], [0, 1]]).tolist() == [[b"a", b"bb", b""]]
    assert tf.pad(words[0], [[1, 1]], mode="REFLECT").tolist() == [b"bb", b"a", b"bb", b"a"]
    changed = tf.tensor_scatter_nd_update(words, [[0, 1]], ["c"])
    assert changed.tolist() == [[b"a", b"c"]]
    with pytest.raises(ArgumentTypeError, match="filled with the number 1"):
        tf.ones_like(words)


def test_one_hot_rows_of_text() -> None:
    found = tf.one_hot([[0, 3], [2, -1]], 3, on_value="yes", off_value="no")
    expected = np.where(np.eye(4)[:, :3][[[0, 3], [2, 3]]] > 0, b"yes", b"no")
    assert found.numpy().tolist() == expected.tolist()
    assert tf.one_hot([1], 2, on_value="x", axis=0).numpy().tolist() == [[b""], [b"x"]]
