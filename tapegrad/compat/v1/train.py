"""`tf.compat.v1.train`: optimizers that minimize functions, and `tf.train`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tapegrad import train
from tapegrad.absent import absence
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError
from tapegrad.keras import optimizers

__all__ = [
    "AdagradOptimizer", "AdamOptimizer", "GradientDescentOptimizer", "MomentumOptimizer",
    "Optimizer", "create_global_step", "get_global_step", "get_or_create_global_step",
]  # fmt: skip

_steps: list[Variable] = []


def get_or_create_global_step(graph: Any = None) -> Variable:
    """Return the variable that counts the steps of optimizers called with `global_step`.

    >>> get_or_create_global_step().dtype.name
    'int64'
    """
    if not _steps:
        _steps.append(Variable(0, dtype="int64", trainable=False, name="global_step"))
    return _steps[0]


create_global_step = get_global_step = get_or_create_global_step


class Optimizer:
    """An optimizer of the first version, over one of `tapegrad.keras.optimizers`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def compute_gradients(
        self, loss: Callable[[], Any], var_list: Iterable[Any] | None = None, **others: Any
    ) -> list[tuple[Any, Any]]:
        """Return the gradients of a function's result, each with its variable."""
        if not callable(loss):
            raise ArgumentTypeError(
                "Functions run at once, so that a loss is a function without arguments here. Got "
                f"{type(loss).__name__}; pass a lambda, or use tapegrad.GradientTape."
            )
        with GradientTape() as tape:
            value = loss()
        variables = list(tape.watched_variables() if var_list is None else var_list)
        return list(zip(tape.gradient(value, variables), variables))

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: Any = None
    ) -> None:
        """Change the variables, and count the step."""
        self._inner.apply_gradients([pair for pair in grads_and_vars if pair[0] is not None])
        if global_step is not None:
            global_step.assign_add(1)

    def minimize(
        self,
        loss: Callable[[], Any],
        global_step: Any = None,
        var_list: Iterable[Any] | None = None,
        **others: Any,
    ) -> None:
        """Take one step towards the minimum of a function without arguments."""
        self.apply_gradients(self.compute_gradients(loss, var_list), global_step)

    def variables(self) -> list[Any]:
        """Return the variables of the optimizer."""
        return list(self._inner.variables)


class GradientDescentOptimizer(Optimizer):
    """Gradient descent.

    >>> x = Variable(1.0)
    >>> GradientDescentOptimizer(0.5).minimize(lambda: x * x)
    >>> float(x)
    0.0
    """

    def __init__(
        self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"
    ) -> None:
        super().__init__(optimizers.SGD(learning_rate))


class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum.

    >>> x = Variable(1.0)
    >>> MomentumOptimizer(0.25, 0.9).minimize(lambda: x * x)
    >>> float(x)
    0.5
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(optimizers.SGD(learning_rate, momentum, nesterov=use_nesterov))


class AdamOptimizer(Optimizer):
    """Adam.

    >>> x = Variable(1.0)
    >>> AdamOptimizer(0.5).minimize(lambda: x * x)
    >>> f"{float(x):.3f}"
    '0.500'
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(optimizers.Adam(learning_rate, beta1, beta2, epsilon))


class AdagradOptimizer(Optimizer):
    """Adagrad.

    >>> x = Variable(1.0)
    >>> AdagradOptimizer(0.5).minimize(lambda: x * x)
    >>> f"{float(x):.3f}"
    '0.506'
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        super().__init__(optimizers.Adagrad(learning_rate, initial_accumulator_value, epsilon=0.0))


def __getattr__(name: str) -> Any:
    try:
        return getattr(train, name)
    except AttributeError:
        raise absence("compat.v1.train", name) from None


_check_calls(globals(), ("get_or_create_global_step",))
