"""Muon: orthogonalized momentum for matrices, AdamW for all other variables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Unpack

from tapegrad.core.values.variable import Variable
from tapegrad.keras.optimizers.base import CommonOptions
from tapegrad.keras.optimizers.one_launch import OneLaunch
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.reduction.functions import reduce_euclidean_norm
from tapegrad.ops.shape.functions import matrix_transpose
from tapegrad.optimizers.rules import check_shares
from tapegrad.optimizers.updates import adam_update


class Muon(OneLaunch):
    """Momentum that is made nearly orthogonal before each step, for matrices.

    AdamW updates all other variables, variables with "embedding" in their name (unless
    `exclude_embeddings` is False), and variables whose name matches one of `exclude_layers`.

    >>> import tapegrad
    >>> w = tapegrad.Variable([[1.0, 0.0], [0.0, 1.0]])
    >>> optimizer = Muon(0.1, weight_decay=0.0, rms_rate=None)
    >>> _ = optimizer.apply_gradients([([[5.0, 0.0], [0.0, 0.1]], w)])
    >>> bool(tapegrad.reduce_all(tapegrad.abs(w) < 1.1))
    True
    """

    slots = ("momentum", "velocity")
    by_element = False

    def __init__(
        self,
        learning_rate: Any = 0.001,
        adam_beta_1: float = 0.9,
        adam_beta_2: float = 0.999,
        adam_weight_decay: float | None = 0.004,
        epsilon: float = 1e-7,
        weight_decay: float | None = 0.004,
        exclude_layers: Sequence[str] | None = None,
        exclude_embeddings: bool = True,
        muon_a: float = 3.4445,
        muon_b: float = -4.7750,
        muon_c: float = 2.0315,
        adam_lr_ratio: float = 1,
        momentum: float = 0.95,
        ns_steps: int = 5,
        nesterov: bool = True,
        rms_rate: float | None = 0.2,
        **options: Unpack[CommonOptions],
    ) -> None:
        check_shares(adam_beta_1=adam_beta_1, adam_beta_2=adam_beta_2, momentum=momentum)
        super().__init__(learning_rate, weight_decay=weight_decay, **options)
        self.adam_beta_1, self.adam_beta_2, self.epsilon = adam_beta_1, adam_beta_2, epsilon
        self.adam_weight_decay, self.adam_lr_ratio = adam_weight_decay, adam_lr_ratio
        self.exclude_layers = list(exclude_layers or ())
        self.exclude_embeddings = exclude_embeddings
        self.muon_a, self.muon_b, self.muon_c = muon_a, muon_b, muon_c
        self.momentum, self.nesterov = momentum, nesterov
        self.ns_steps, self.rms_rate = ns_steps, rms_rate

    def slots_for(self, variable: Variable) -> Sequence[str]:
        return ("momentum", "velocity") if self._is_for_adam(variable) else ("momentum",)

    def _is_for_adam(self, variable: Variable) -> bool:
        if variable.ndim != 2:
            return True
        if self.exclude_embeddings and "embedding" in variable.name.lower():
            return True
        return any(re.search(pattern, variable.name) for pattern in self.exclude_layers)

    def decay_for(self, variable: Variable) -> float | None:
        return self.adam_weight_decay if self._is_for_adam(variable) else self.weight_decay

    def step(self, p: Any, g: Any, slots: list[Any], rate: Any, count: Any) -> Sequence[Any]:
        rate = cast(rate, "float64")
        if len(slots) == 2:
            betas = {"beta_1": self.adam_beta_1, "beta_2": self.adam_beta_2}
            rate = rate * self.adam_lr_ratio
            new: Sequence[Any] = adam_update(
                p, g, rate, count, *slots, epsilon=self.epsilon, **betas
            )
            return new
        m = self.momentum * slots[0] + g
        direction = self._orthogonal(g + self.momentum * m if self.nesterov else m)
        if self.rms_rate is not None:
            rate = rate * (max(p.shape) ** 0.5 * self.rms_rate)
        return p - cast(rate, p.dtype) * direction, m

    def _orthogonal(self, x: Any) -> Any:
        """Bring all singular values near 1 by Newton-Schulz iterations."""
        is_tall = x.shape[0] > x.shape[1]
        x = matrix_transpose(x) if is_tall else x
        x = x / (reduce_euclidean_norm(x) + 1e-7)
        for _ in range(self.ns_steps):
            square = matmul(x, x, transpose_b=True)
            x = self.muon_a * x + matmul(
                self.muon_b * square + self.muon_c * matmul(square, square), x
            )
        return matrix_transpose(x) if is_tall else x
