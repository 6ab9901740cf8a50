"""The optimizers of `tapegrad.optimizers` with what Keras' optimizers have in addition."""

from __future__ import annotations

from typing import Any, Unpack

from tapegrad.errors import ArgumentError
from tapegrad.keras.optimizers.base import CommonOptions, Optimizer, Options
from tapegrad.optimizers import rules


class SGD(Optimizer, rules.SGD):
    """Gradient descent, with momentum if wanted.

    >>> import tapegrad
    >>> w = tapegrad.Variable([1.0, 2.0])
    >>> _ = SGD(0.5).apply_gradients([(tapegrad.constant([1.0, 2.0]), w)])
    >>> w.numpy().tolist()
    [0.5, 1.0]
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(learning_rate, momentum=momentum, nesterov=nesterov, **options)


class Adam(Optimizer, rules.Adam):
    """Adam: steps scaled by running first and second moments of the gradient.

    >>> Adam(0.5, amsgrad=True).get_config()["amsgrad"]
    True
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(
            learning_rate, beta_1=beta_1, beta_2=beta_2, epsilon=epsilon, amsgrad=amsgrad, **options
        )


class AdamW(Optimizer, rules.AdamW):
    """Adam with decoupled weight decay (0.004 by default).

    >>> AdamW().get_config()["weight_decay"]
    0.004
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **options: Unpack[CommonOptions],
    ) -> None:
        if weight_decay is None:
            raise ArgumentError("AdamW needs a weight_decay. Got None; use Adam for none.")
        super().__init__(
            learning_rate,
            weight_decay=weight_decay,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            amsgrad=amsgrad,
            **options,
        )


class RMSprop(Optimizer, rules.RMSprop):
    """Steps divided by the root of a running mean of squared gradients.

    >>> RMSprop(rho=0.5).get_config()["rho"]
    0.5
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(
            learning_rate, rho=rho, momentum=momentum, epsilon=epsilon, centered=centered, **options
        )


class Adagrad(Optimizer, rules.Adagrad):
    """Steps divided by the root of the sum of all squared gradients so far.

    >>> Adagrad().get_config()["initial_accumulator_value"]
    0.1
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(
            learning_rate,
            initial_accumulator_value=initial_accumulator_value,
            epsilon=epsilon,
            **options,
        )
