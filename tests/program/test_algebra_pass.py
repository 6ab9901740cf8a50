from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.algebra import loses_nothing, simplified
from tests.program.recorded_graphs import assert_same_results, recorded, run

X = np.random.default_rng(0).normal(size=(3, 4))
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def names_left(function: Any, *arrays: Any) -> list[str]:
    """Simplify, compare the results and return the names of the remaining calls."""
    before = recorded(function, arrays)

    after = simplified(before)

    assert_same_results(before, after, arrays)
    return [call.primitive.name for call in after.calls]


IDENTITIES = {
    "multiply": lambda x: x * 1.0,
    "multiply-from-the-left": lambda x: 1 * x,
    "divide": lambda x: x / 1.0,
    "subtract": lambda x: x - 0.0,
    "reshape": lambda x: tf.reshape(x, (3, 4)),
    "broadcast": lambda x: tf.broadcast_to(x, (3, 4)),
    "sum-of-one": lambda x: tf.reduce_sum(tf.reshape(x, (3, 1, 4)), axis=1),
    "there-and-back": lambda x: tf.reshape(tf.reshape(x, (12,)), (3, 4)),
    "permutation-of-short-axes": lambda x: tf.transpose(x[:, None, :, None], (1, 0, 3, 2))[0, :, 0],
    "permutations-of-matrices": lambda x: tf.transpose(tf.transpose(x)),
    "permutations": lambda x: tf.reshape(
        tf.transpose(tf.transpose(tf.reshape(x, (3, 2, 2)), (1, 2, 0)), (2, 0, 1)), (3, 4)
    ),
    "cast-back": lambda x: tf.cast(tf.cast(tf.cast(x, "float32"), "float64"), "float32"),
}


@pytest.mark.parametrize("change", IDENTITIES.values(), ids=IDENTITIES)
def test_what_changes_nothing_is_left_out(change: Any) -> None:
    left = names_left(lambda x: (tf.exp(change(tf.cos(x))),), X)

    assert [name for name in left if name != "cast"] == ["cos", "exp"]
    assert left.count("cast") <= 1


def test_permutations_of_permutations_are_one() -> None:
    x = np.random.default_rng(1).normal(size=(2, 3, 4))

    left = names_left(lambda x: (tf.exp(tf.transpose(tf.transpose(x, (1, 2, 0)), (1, 0, 2))),), x)

    assert left == ["permute_dims", "exp"]


CHANGES = {
    "add": lambda x: x + 0.0,
    "subtract-from-zero": lambda x: 0.0 - x,
    "subtract-minus-zero": lambda x: x - (-0.0),
    "divide-one": lambda x: 1.0 / x,
    "multiply": lambda x: x * 2.0,
    "subtract-one": lambda x: x - 1.0,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_may_change_something_stays(change: Any) -> None:
    assert len(names_left(lambda x: (tf.exp(change(tf.cos(x))),), X)) == 3


def test_the_sign_of_zero_is_kept() -> None:
    x = np.array([-0.0, 0.0])
    graph = recorded(lambda x: (tf.exp(x) * 0.0 - 0.0, x * 1.0 - 0.0, x + 0.0), [x])

    before, after = run(graph, [x]), run(simplified(graph), [x])

    assert [np.signbit(y).tolist() for y in after] == [np.signbit(y).tolist() for y in before]


def test_a_division_that_makes_floats_of_integers_stays() -> None:
    assert names_left(lambda x: (x / 1,), np.arange(3)) == ["divide"]


def test_a_broadcast_and_a_reshape_to_another_shape_stay() -> None:
    def change(x: Any) -> Any:
        return (tf.exp(tf.broadcast_to(tf.reshape(x, (1, 12)), (2, 12))),)

    assert names_left(change, X) == ["reshape", "broadcast_to", "exp"]


def test_reshapes_in_a_row_are_one() -> None:
    def change(x: Any) -> Any:
        return (tf.reshape(tf.reshape(tf.reshape(tf.cos(x), (12,)), (2, 6)), (6, 2)),)

    assert names_left(change, X) == ["cos", "reshape"]


def test_a_result_is_never_the_array_that_came_in() -> None:
    graph = simplified(recorded(lambda x: (x * 1.0, tf.exp(x) * 1.0), [X]))

    assert [call.primitive.name for call in graph.calls] == ["multiply", "exp"]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_products_turn_their_operands_round_themselves(first: bool, second: bool) -> None:
    def product(a: Any, b: Any) -> Any:
        return (tf.matmul(tf.transpose(a), tf.transpose(b), transpose_a=first, transpose_b=second),)

    a, b = (X, X.T) if first == second else (X, X)

    assert names_left(product, a, b) == ["matmul"]


def test_stacks_of_products_turn_their_operands_round_themselves() -> None:
    a = np.random.default_rng(0).normal(size=(2, 3, 4))

    def product(a: Any) -> Any:
        return (tf.matmul(tf.transpose(a, (0, 2, 1)), a),)

    assert names_left(product, a) == ["matmul_stack"]


def test_other_permutations_stay() -> None:
    a = np.random.default_rng(0).normal(size=(3, 3, 3))

    def product(a: Any) -> Any:
        return (tf.matmul(tf.transpose(a, (1, 0, 2)), a),)

    assert names_left(product, a) == ["permute_dims", "matmul_stack"]


def test_a_cast_through_a_wider_dtype_goes_straight() -> None:
    x = X.astype("float16")

    def change(x: Any) -> Any:
        return (tf.cast(tf.cast(x, "float64"), "float32"), tf.cast(tf.cast(x, "float32"), "int32"))

    assert names_left(change, x) == ["cast", "cast_to_integer"]


def test_a_cast_through_a_narrower_dtype_stays() -> None:
    def change(x: Any) -> Any:
        return (tf.cast(tf.cast(x, "float16"), "float64"),)

    assert names_left(change, X) == ["cast", "cast"]


@pytest.mark.parametrize("source", ["bool", "int8", "uint8", "int16", "int32", "int64", *FLOATS])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "int32", "int64", *FLOATS])
def test_casts_that_lose_nothing_are_told_from_those_that_do(source: str, target: str) -> None:
    first, second = (
        np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name) for name in (source, target)
    )
    if source in FLOATS:
        info = ml_dtypes.finfo(first)
        edges = [info.max, info.smallest_normal, info.smallest_subnormal, 1 + info.eps]
    elif source == "bool":
        edges = [False, True]
    else:
        edges = [np.iinfo(first).min, np.iinfo(first).max]
    values = np.array(edges).astype(first)

    with np.errstate(all="ignore"):
        there = values.astype(second)
        survive = (there.astype(first) == values).all() and (
            there.astype(object) == values.astype(object)
        ).all()

    assert loses_nothing(first, second) == bool(survive)
