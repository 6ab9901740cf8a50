"""The graph of a concrete function, with the names and the order that TensorFlow gives it."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as tf


@tf.function
def cubed(x: Any) -> Any:
    return x * x * x + 1.0


def graph(*specs: Any) -> Any:
    return cubed.get_concrete_function(*specs).graph


def test_operations_are_listed_from_arguments_to_results() -> None:
    operations = graph(tf.TensorSpec([], tf.float32)).get_operations()

    kinds = [one.type for one in operations]

    assert (kinds[0], kinds[-1]) == ("Placeholder", "Identity")
    assert "Multiply" in kinds
    assert operations[0].name == "x"
    product = next(one for one in operations if one.type == "Multiply")
    assert [tensor.name for tensor in product.inputs] == ["x:0", "x:0"]
    assert product.outputs[0].op is product


def test_operations_and_tensors_are_found_by_name() -> None:
    found = graph(tf.constant(2.0))

    assert found.get_operation_by_name("x").outputs[0].dtype == tf.float32
    assert found.get_tensor_by_name("Identity:0").shape == ()
    with pytest.raises(KeyError, match=r"no operation 'y'\. It has: x, "):
        found.get_operation_by_name("y")
    with pytest.raises(ValueError, match="such as 'Add:0'"):
        found.get_tensor_by_name("x")
    with pytest.raises(KeyError, match="'x' has 1 results"):
        found.get_tensor_by_name("x:1")


def test_definitions_have_a_node_for_each_operation() -> None:
    found = graph(tf.TensorSpec([None, 3]))
    definition = found.as_graph_def()

    assert len(definition.node) == len(found.get_operations())
    assert 'name: "x"\n  op: "Placeholder"' in str(definition)
    assert definition.node[-1].input == [found.get_operations()[-2].name]
    assert found.inputs[0].shape[1] == 3


def test_longer_loops_in_python_make_longer_graphs() -> None:
    @tf.function
    def repeated(x: Any, times: int) -> Any:
        for _ in range(times):
            x = x * 2.0
        return x

    def size(times: int) -> int:
        return len(repeated.get_concrete_function(tf.constant(1.0), times).graph.get_operations())

    assert size(7) == size(3) + 4


def test_variables_are_read_in_the_graph() -> None:
    v = tf.Variable(2.0)
    scaled = tf.function(lambda x: v * x)

    found = scaled.get_concrete_function(tf.TensorSpec([2])).graph

    assert found.get_operation_by_name("ReadVariable").outputs[0].shape == ()


class Scaled(tf.Module):
    @tf.function
    def call(self, x: Any) -> Any:
        return 2.0 * x


def test_methods_have_a_graph() -> None:
    module = Scaled()

    found = module.call.get_concrete_function(tf.TensorSpec([2])).graph

    assert found.outputs[0].shape == (2,)


def test_variables_are_arguments_of_the_definition() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def increment(by: Any) -> Any:
        v.assign_add(by)
        return 2.0 * v

    signature = increment.get_concrete_function(tf.constant(2.0)).function_def.signature

    assert [one.name for one in signature.input_arg] == ["by", "ReadVariable"]
    assert [one.type for one in signature.input_arg] == ["float32", "resource"]
    assert [one.type for one in signature.output_arg] == ["float32"]
    assert float(v) == 1.0


def test_a_variable_may_be_the_argument() -> None:
    v = tf.Variable(1)

    @tf.function
    def increment(counter: Any) -> Any:
        return counter.assign_add(1)

    definition = increment.get_concrete_function(v).function_def

    assert [one.type for one in definition.signature.input_arg] == ["resource"]
