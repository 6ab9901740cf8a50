"""The optimizers of `tapegrad.optimizers` with the options of Keras optimizers."""

from __future__ import annotations

from tapegrad.keras.optimizers.base import Optimizer
from tapegrad.optimizers import rules


class SGD(rules.SGD, Optimizer):
    """Gradient descent, optionally with momentum.

    >>> import tapegrad
    >>> w = tapegrad.Variable([1.0, 2.0])
    >>> _ = SGD(0.5).apply_gradients([(tapegrad.constant([1.0, 2.0]), w)])
    >>> w.numpy().tolist()
    [0.5, 1.0]
    """


class Adam(rules.Adam, Optimizer):
    """Adam: steps scaled by running first and second moments of the gradient.

    >>> Adam(0.5, amsgrad=True).get_config()["amsgrad"]
    True
    """


class AdamW(rules.AdamW, Optimizer):
    """Adam with decoupled weight decay (0.004 by default).

    >>> AdamW().get_config()["weight_decay"]
    0.004
    """


class RMSprop(rules.RMSprop, Optimizer):
    """RMSprop: gradients divided by the root of a running mean of their squares.

    >>> RMSprop(rho=0.5).get_config()["rho"]
    0.5
    """


class Adagrad(rules.Adagrad, Optimizer):
    """Adagrad: gradients divided by the root of the sum of all their squares so far.

    >>> Adagrad().get_config()["initial_accumulator_value"]
    0.1
    """
