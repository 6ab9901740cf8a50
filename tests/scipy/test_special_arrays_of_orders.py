"""Functions of integer order take arrays of orders, and invalid parameters give NaN as in SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special as reference

import tapegrad as tf
from tapegrad.scipy import special

ORDERS = np.array([[0], [1], [2], [5]])
X = np.array([0.3, 1.0, 4.0])


@pytest.mark.parametrize("name", ["expn", "yn"])
def test_orders_are_broadcast_with_the_argument(name: str) -> None:
    found = getattr(special, name)(tf.constant(ORDERS), X)

    np.testing.assert_allclose(found.numpy(), getattr(reference, name)(ORDERS, X), rtol=1e-12)


def test_each_order_has_its_derivative() -> None:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = special.expn(tf.constant(ORDERS[1:]), x)
    slopes = -reference.expn(ORDERS[1:] - 1, X).sum(0)

    np.testing.assert_allclose(tape.gradient(y, x).numpy(), slopes, rtol=1e-12)


def test_orders_without_a_value() -> None:
    assert np.isnan(special.expn(tf.constant([-1]), 1.0).numpy()).all()
    with pytest.raises(ValueError, match="integer orders"):
        special.yn(tf.constant([0.5]), 1.0)


@pytest.mark.parametrize("name", ["nbdtr", "nbdtrc"])
@pytest.mark.parametrize("p", [-0.1, 0.0, 0.4, 1.0, 1.2])
def test_probabilities_out_of_range_give_nan(name: str, p: float) -> None:
    found: Any = getattr(special, name)(2, 3, p)

    np.testing.assert_allclose(found.numpy(), getattr(reference, name)(2, 3, p), rtol=1e-12)


def test_zetac_far_to_the_left() -> None:
    with np.errstate(all="ignore"):
        assert special.zetac(tf.constant([-300.0, -4.0])).tolist() == [-1.0, -1.0]
