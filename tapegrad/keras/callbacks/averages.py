"""SwapEMAWeights: evaluate a model with the moving averages of its weights."""

from __future__ import annotations

from typing import Any

from tapegrad.core.commit import assign_together
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.keras.callbacks.callback import Callback


class SwapEMAWeights(Callback):
    """Give a model the moving averages of its weights while it is evaluated or predicts.

    The optimizer needs `use_ema=True`. With `swap_on_epoch` the model has the averages from the end
    of an epoch to the beginning of the next one, so that callbacks save them.

    >>> from tapegrad import keras
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile(keras.optimizers.SGD(0.1, use_ema=True), "mse")
    >>> _ = model.fit([[1.0]], [[1.0]], verbose=0, callbacks=[SwapEMAWeights()])
    """

    def __init__(self, swap_on_epoch: bool = False) -> None:
        super().__init__()
        self.swap_on_epoch = swap_on_epoch
        self._is_swapped = False

    def _pairs(self) -> tuple[list[Variable], list[Variable]]:
        """Return the variables that have averages, and these."""
        optimizer: Any = getattr(self.model, "optimizer", None)
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        if not getattr(optimizer, "use_ema", False):
            raise ArgumentError(
                "SwapEMAWeights needs an optimizer with moving averages: compile the model with "
                f"use_ema=True. Got {optimizer!r}."
            )
        known = optimizer._averages
        variables = [v for v in self.model.trainable_variables if v.number in known]
        return variables, [known[v.number] for v in variables]

    def _swap(self, to_averages: bool) -> None:
        if self._is_swapped is to_averages:
            return
        variables, averages = self._pairs()
        values = [one.read_value() for one in (*averages, *variables)]
        assign_together([*variables, *averages], values)
        self._is_swapped = to_averages

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.swap_on_epoch:
            self._swap(False)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if not self.swap_on_epoch:
            return
        self._swap(True)
        if epoch == self.params["epochs"] - 1 or self.model.stop_training:
            # At its end, `fit` sets the weights to what the optimizer holds as averages.
            variables, averages = self._pairs()
            assign_together(averages, [one.read_value() for one in variables])

    def on_train_end(self, logs: Any = None) -> None:
        self._is_swapped = False

    def on_test_begin(self, logs: Any = None) -> None:
        self._swap(True)

    def on_test_end(self, logs: Any = None) -> None:
        self._swap(False)

    def on_predict_begin(self, logs: Any = None) -> None:
        self._swap(True)

    def on_predict_end(self, logs: Any = None) -> None:
        self._swap(False)
