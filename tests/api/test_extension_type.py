"""Extension types, their specs, and handlers of functions; behaviour as in TensorFlow 2.21."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Optional, Union

import numpy as np
import pytest

import tapegrad as tf


class Masked(tf.experimental.ExtensionType):
    values: tf.Tensor
    mask: tf.Tensor

    def __validate__(self) -> None:
        self.values.shape.assert_is_compatible_with(self.mask.shape)
        assert self.mask.dtype.is_bool, "mask.dtype must be bool"

    def filled(self, value: Any) -> Any:
        return tf.where(self.mask, self.values, value)


class Pencil(tf.experimental.ExtensionType):
    color: str = "black"
    count: int = 3
    length: tf.Tensor = 1.0


class Node(tf.experimental.ExtensionType):
    value: tf.Tensor
    children: tuple[Node, ...] = ()


class Player(tf.experimental.ExtensionType):
    name: tf.Tensor
    attributes: Mapping[str, tf.Tensor]


class Choice(tf.experimental.ExtensionType):
    x: Optional[tf.Tensor] = None  # noqa: UP045
    y: Union[int, str] = 2  # noqa: UP007


class Toy(tf.experimental.ExtensionType):
    name: str
    price: tf.Tensor

    def __init__(self, name: str, price: Any, discount: float = 0) -> None:
        self.name = name
        self.price = price * (1 - discount)


X = Masked([1.0, 2.0], [True, False])


def test_fields_are_converted_and_have_defaults() -> None:
    assert Masked([1, 2], [True, False]).values.dtype == tf.int32
    assert (Pencil().color, Pencil().count, float(Pencil().length)) == ("black", 3, 1.0)
    assert repr(Pencil(length=0.5, color="blue")).startswith(
        "Pencil(color='blue', count=3, length="
    )
    assert Node(3, [Node(5), Node(2)]).children[1].value.numpy() == 2
    assert (Choice().x, Choice().y, Choice(y="a").y) == (None, 2, "a")
    assert Choice([1.5]).x.tolist() == [1.5]
    assert float(Toy("ball", 5.0, discount=0.2).price) == 4.0


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: Masked([1, 2, 3], None), TypeError, "mask must be a tensor. Got NoneType"),
        (lambda: Pencil(color=3), TypeError, "color must be str. Got int: 3"),
        (lambda: Pencil(count=True), TypeError, "count must be int. Got bool"),
        (lambda: Pencil(wrong=3), TypeError, "unexpected keyword argument 'wrong'"),
        (lambda: Node(1, children=3), TypeError, "children must be a tuple"),
        (lambda: Masked([1, 2, 3], [0, 1, 0]), AssertionError, "must be bool"),
        (lambda: Masked([1, 2, 3], [True, False]), ValueError, "not compatible"),
        (lambda: setattr(X, "mask", [True, True]), AttributeError, "cannot be changed"),
        (lambda: delattr(X, "mask"), AttributeError, "cannot be changed"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, error: type, sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        make()


def test_equality_compares_all_fields() -> None:
    same, changed = Masked([1.0, 2.0], [True, False]), Masked([1.0, 3.0], [True, False])
    other = Masked([[3.0, 4.0]], [[True, True]])

    assert (same == X).numpy().item() is True
    assert (changed == X).numpy().item() is False
    assert (changed != X).numpy().item() is True
    assert (other == X) is False
    assert (other == other.values) is False
    assert (other != X) is True


def test_structures_flatten_to_their_tensors() -> None:
    doubled = tf.nest.map_structure(
        lambda x: tf.cast(x, tf.float32) * 2, Player("a", {"b": 3}).attributes
    )

    assert len(tf.nest.flatten(Node(1, (Node(2), Node(3))))) == 3
    assert float(doubled["b"]) == 6.0
    assert tf.nest.map_structure(tf.identity, X).filled(0.0).tolist() == [1.0, 0.0]


def test_functions_take_and_return_them_and_record_once_for_equal_specs() -> None:
    traces = []

    @tf.function
    def doubled(x: Masked, pencil: Pencil) -> Masked:
        traces.append(pencil.color)
        return Masked(2.0 * x.values, x.mask)

    for value in (1.0, 5.0):
        assert doubled(Masked([value], [True]), Pencil()).values.tolist() == [2 * value]
    doubled(Masked([1.0], [True]), Pencil(color="red"))

    assert traces == ["black", "red"]


def test_gradients_reach_the_fields() -> None:
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(Masked(v * v, [True, False]).filled(0.0))

    assert tape.gradient(loss, v).tolist() == [2.0, 0.0]


def test_branches_and_loops_carry_them() -> None:
    @tf.function
    def run(x: Any, is_low: Any) -> Masked:
        if is_low:
            found = Masked(x, tf.less(x, 0.0))
        else:
            found = Masked(x, tf.greater(x, 0.0))
        for _ in tf.range(4):
            found = Masked(found.values + 0.5, found.mask)
        return found

    for is_low, expected in ((True, [0.0, 0.0]), (False, [3.0, 0.0])):
        found = run(tf.constant([1.0, -2.0]), tf.constant(is_low))
        assert found.filled(0.0).tolist() == expected
    chosen = tf.cond(tf.constant(True), lambda: X, lambda: Masked([0.0, 0.0], [True, True]))
    assert chosen.filled(9.0).tolist() == [1.0, 9.0]
    _, looped = tf.while_loop(
        lambda i, _: i < 3, lambda i, m: (i + 1, Masked(m.values + 1.0, m.mask)), [0, X]
    )
    assert looped.values.tolist() == [4.0, 5.0]


def test_specs_describe_and_admit_values() -> None:
    spec = tf.type_spec_from_value(Player("Anne", {"height": 8.3}))

    assert spec.name == tf.TensorSpec([], tf.string)
    assert spec.attributes["height"] == tf.TensorSpec([], tf.float32)
    assert tf.type_spec_from_value(X) == Masked.Spec(
        tf.TensorSpec([2], tf.float32), tf.TensorSpec([2], tf.bool)
    )
    assert tf.type_spec_from_value(X).value_type is Masked
    assert isinstance(spec, tf.TypeSpec)
    wide = Masked.Spec(tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.bool))
    assert wide.is_compatible_with(X)
    assert not wide.is_compatible_with(Masked([[1.0]], [[True]]))


def test_signatures_have_specs_of_extension_types() -> None:
    spec = Masked.Spec(tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.bool))

    @tf.function(input_signature=[spec])
    def doubled(x: Masked) -> Masked:
        return Masked(2.0 * x.values, x.mask)

    assert doubled(X).filled(0.0).tolist() == [2.0, 0.0]
    concrete = tf.function(lambda x: x.values + 1.0).get_concrete_function(spec)
    assert concrete(X).tolist() == [2.0, 3.0]


def test_a_class_may_define_its_spec() -> None:
    class Pair(tf.experimental.ExtensionType):
        first: tf.Tensor
        second: tf.Tensor

        class Spec:
            def __init__(self, shape: Any, dtype: Any = tf.float32) -> None:
                self.first = tf.TensorSpec(shape, dtype)
                self.second = tf.TensorSpec(shape, dtype)

            shape = property(lambda self: self.first.shape)

    spec = Pair.Spec([None, 2])

    assert spec.shape == (None, 2)
    assert spec.is_compatible_with(Pair([[1.0, 2.0]], [[3.0, 4.0]]))


@pytest.fixture
def handlers() -> Iterator[None]:
    @tf.experimental.dispatch_for_api(tf.stack)
    def stacked(values: list[Masked], axis: int = 0) -> Masked:
        return Masked(
            tf.stack([one.values for one in values], axis),
            tf.stack([one.mask for one in values], axis),
        )

    @tf.experimental.dispatch_for_unary_elementwise_apis(Masked)
    def unary(api: Any, x: Masked) -> Masked:
        return Masked(api(x.values), x.mask)

    @tf.experimental.dispatch_for_binary_elementwise_apis(Masked, Masked)
    def binary(api: Any, x: Masked, y: Masked) -> Masked:
        return Masked(api(x.values, y.values), x.mask & y.mask)

    yield
    for one in (stacked, unary, binary):
        tf.experimental.unregister_dispatch_for(one)


@pytest.mark.usefixtures("handlers")
def test_registered_functions_answer_for_functions_of_tensors() -> None:
    negative = Masked([-1.0, -2.0], [True, False])

    assert tf.abs(negative).values.tolist() == [1.0, 2.0]
    assert tf.math.add(X, negative).values.tolist() == [0.0, 0.0]
    assert tf.cast(X, tf.int32).values.dtype == tf.int32
    assert tf.stack([X, X], axis=1).values.tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_functions_without_a_handler_name_the_remedy() -> None:
    with pytest.raises(TypeError, match=r"abs does not take Masked\. .*dispatch_for_api"):
        tf.abs(X)
    with pytest.raises(ValueError, match="print was not registered"):
        tf.experimental.unregister_dispatch_for(print)


# Specs of ragged and sparse tensors


def test_ragged_specs() -> None:
    rows = tf.ragged.constant([[1, 2], [3]])
    spec = tf.RaggedTensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[spec])
    def largest(rt: Any) -> Any:
        return tf.reduce_max(rt, axis=-1)

    assert tf.type_spec_from_value(rows) == tf.RaggedTensorSpec([2, None], tf.int32)
    assert (spec.ragged_rank, spec.value_type, spec.row_splits_dtype) == (
        1,
        tf.RaggedTensor,
        tf.int64,
    )
    assert spec.is_compatible_with(rows)
    with pytest.warns(UserWarning, match="RaggedTensor.*runs eagerly"):
        assert largest(rows).tolist() == [2, 3]
    with pytest.raises(TypeError, match="requires RaggedTensorSpec"):
        largest(tf.constant([[1, 2]]))
    with pytest.raises(ValueError, match="needs a shape or a ragged_rank"):
        tf.RaggedTensorSpec(None, tf.int32)


def test_sparse_specs() -> None:
    x = tf.SparseTensor([[0, 1]], [7], [3, 4])

    assert tf.type_spec_from_value(x) == tf.SparseTensorSpec([3, 4], tf.int32)
    assert tf.SparseTensorSpec([None, 4], tf.int32).is_compatible_with(x)
    assert not tf.SparseTensorSpec([None, 4], tf.float32).is_compatible_with(x)


def test_specs_of_tensors_are_compared_by_value() -> None:
    spec = tf.TensorSpec([None, 2])

    assert spec == tf.TensorSpec((None, 2), "float32")
    assert hash(spec) == hash(tf.TensorSpec([None, 2]))
    assert spec.is_compatible_with(tf.ones([3, 2]))
    assert not spec.is_compatible_with(tf.ones([3, 3]))
    assert tf.TensorSpec(2).shape == (2,)
    assert spec.shape.as_list() == [None, 2]
    assert tf.TensorSpec.from_tensor(tf.ones([3])) == tf.TensorSpec([3])
    assert tf.type_spec_from_value(np.zeros((2,), np.int32)) == tf.TensorSpec([2], tf.int32)


# Optional values


def test_the_end_of_a_dataset_is_an_empty_optional() -> None:
    iterator = iter(tf.data.Dataset.range(1))

    first, second = iterator.get_next_as_optional(), iterator.get_next_as_optional()

    assert (bool(first.has_value()), int(first.get_value())) == (True, 0)
    assert not second.has_value()
    with pytest.raises(tf.errors.InvalidArgumentError, match="has_value"):
        second.get_value()
    assert tf.experimental.Optional.from_value(2).get_value() == 2
    with pytest.raises(tf.errors.OutOfRangeError):
        iterator.next()
