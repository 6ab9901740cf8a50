"""Learning rate schedules, computed on the device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values.convert import to_tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.configured import Configured, Table, described, subclasses, with_defaults
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.comparison import equal
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.rounding import ceil, floor
from tapegrad.ops.elementwise.selection import minimum, where
from tapegrad.ops.elementwise.trigonometric import cos

__all__ = [
    "CosineDecay",
    "CosineDecayRestarts",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LearningRateSchedule",
    "PiecewiseConstantDecay",
    "PolynomialDecay",
    "deserialize",
    "serialize",
]


class LearningRateSchedule(Configured):
    """Base class of schedules, which map a step to a learning rate.

    >>> class Halving(LearningRateSchedule):
    ...     def __init__(self, start):
    ...         self.start = start
    ...
    ...     def __call__(self, step):
    ...         return self.start * 0.5**step
    >>> Halving(0.5)(2)
    0.125
    >>> Halving(0.5).get_config()
    {'start': 0.5}
    """

    def __call__(self, step: Any) -> Any:
        """Return the learning rate of a step; the first is step 0."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(step).")


class _InPeriods:
    """Base class of schedules with periods of `decay_steps`; `staircase` rounds them down."""

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        decay_rate: float,
        staircase: bool = False,
        name: str = "",
    ) -> None:
        _check_positive("decay_steps", decay_steps)
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.decay_rate, self.staircase, self.name = decay_rate, staircase, name

    def _periods(self, step: Any) -> Any:
        periods = _as_number(step) / self.decay_steps
        return floor(periods) if self.staircase else periods


@with_defaults(name="ExponentialDecay")
class ExponentialDecay(_InPeriods, LearningRateSchedule):
    """Multiply the rate by `decay_rate` every `decay_steps` steps.

    >>> rate = ExponentialDecay(0.5, decay_steps=10, decay_rate=0.25)
    >>> float(rate(0)), float(rate(5)), float(rate(10))
    (0.5, 0.25, 0.125)
    """

    def __call__(self, step: Any) -> Any:
        return _as_rate(self.initial_learning_rate * self.decay_rate ** self._periods(step))


class PiecewiseConstantDecay(LearningRateSchedule):
    """Use `values[0]` up to and including step `boundaries[0]`, then `values[1]`, and so on.

    >>> rate = PiecewiseConstantDecay([10, 20], [1.0, 0.5, 0.25])
    >>> [float(rate(step)) for step in (10, 11, 20, 21)]
    [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self, boundaries: Sequence[float], values: Sequence[float], name: str = "PiecewiseConstant"
    ) -> None:
        if len(boundaries) != len(values) - 1:
            raise ArgumentError(
                "PiecewiseConstantDecay needs one more value than boundaries. "
                f"Got {len(boundaries)} boundaries and {len(values)} values."
            )
        self.boundaries, self.values, self.name = boundaries, values, name

    def __call__(self, step: Any) -> Any:
        step = _as_number(step)
        rate = step * 0.0 + self.values[-1]
        for boundary, value in zip(reversed(self.boundaries), reversed(self.values[:-1])):
            rate = where(step <= boundary, value, rate)
        return _as_rate(rate)


class PolynomialDecay(LearningRateSchedule):
    """Decay the rate to `end_learning_rate` as a power of the remaining steps.

    With `cycle`, the rate rises again each time it has reached the end, to a lower start.

    >>> rate = PolynomialDecay(1.0, decay_steps=10, end_learning_rate=0.5)
    >>> float(rate(0)), float(rate(5)), float(rate(10)), float(rate(99))
    (1.0, 0.75, 0.5, 0.5)
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        name: str = "PolynomialDecay",
    ) -> None:
        _check_positive("decay_steps", decay_steps)
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.end_learning_rate, self.power = end_learning_rate, power
        self.cycle, self.name = cycle, name

    def __call__(self, step: Any) -> Any:
        step = _as_number(step)
        if self.cycle:
            cycles = where(equal(step, 0.0), 1.0, ceil(step / self.decay_steps))
            done = step / (self.decay_steps * cycles)
        else:
            done = minimum(step, float(self.decay_steps)) / self.decay_steps
        way = self.initial_learning_rate - self.end_learning_rate
        return _as_rate(way * (1.0 - done) ** self.power + self.end_learning_rate)


@with_defaults(name="InverseTimeDecay")
class InverseTimeDecay(_InPeriods, LearningRateSchedule):
    """Divide the rate by 1 + `decay_rate` * step / `decay_steps`.

    >>> rate = InverseTimeDecay(1.0, decay_steps=10, decay_rate=1.0)
    >>> float(rate(0)), float(rate(10)), float(rate(30))
    (1.0, 0.5, 0.25)
    """

    def __call__(self, step: Any) -> Any:
        return _as_rate(self.initial_learning_rate / (1.0 + self.decay_rate * self._periods(step)))


class CosineDecay(LearningRateSchedule):
    """Decay the rate along half a cosine to `alpha` times its initial value.

    With `warmup_target`, the rate first rises linearly to that target over `warmup_steps` steps.

    >>> rate = CosineDecay(0.0, decay_steps=10, warmup_target=1.0, warmup_steps=4)
    >>> [round(float(rate(step)), 3) for step in (0, 2, 4, 9, 14)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        alpha: float = 0.0,
        name: str = "CosineDecay",
        warmup_target: float | None = None,
        warmup_steps: float = 0,
    ) -> None:
        _check_positive("decay_steps", decay_steps)
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.alpha, self.name = alpha, name
        self.warmup_target, self.warmup_steps = warmup_target, warmup_steps

    def __call__(self, step: Any) -> Any:
        step = _as_number(step)
        if self.warmup_target is None:
            return _as_rate(self.initial_learning_rate * self._fall(step))
        falling = self.warmup_target * self._fall(step - self.warmup_steps)
        if not self.warmup_steps:
            return _as_rate(falling)
        way = self.warmup_target - self.initial_learning_rate
        rising = self.initial_learning_rate + way * (step / self.warmup_steps)
        return _as_rate(where(step < self.warmup_steps, rising, falling))

    def _fall(self, step: Any) -> Any:
        """Return the factor that falls from 1 to alpha during the decay steps."""
        done = minimum(step, float(self.decay_steps)) / self.decay_steps
        return (1.0 - self.alpha) * _half_cosine(done) + self.alpha


class CosineDecayRestarts(LearningRateSchedule):
    """Repeat the cosine decay; each period is `t_mul` times as long and `m_mul` times as high.

    >>> rate = CosineDecayRestarts(1.0, first_decay_steps=10, m_mul=0.5)
    >>> [round(float(rate(step)), 3) for step in (0, 5, 10, 20, 30)]
    [1.0, 0.5, 0.5, 0.25, 0.25]
    """

    def __init__(
        self,
        initial_learning_rate: float,
        first_decay_steps: float,
        t_mul: float = 2.0,
        m_mul: float = 1.0,
        alpha: float = 0.0,
        name: str = "SGDRDecay",
    ) -> None:
        _check_positive("first_decay_steps", first_decay_steps)
        self.initial_learning_rate = initial_learning_rate
        self.first_decay_steps = first_decay_steps
        self.t_mul, self.m_mul, self.alpha, self.name = t_mul, m_mul, alpha, name

    def __call__(self, step: Any) -> Any:
        restarts, done = self._position(_as_number(step) / self.first_decay_steps)
        height = self.m_mul**restarts * _half_cosine(done)
        return _as_rate(self.initial_learning_rate * ((1.0 - self.alpha) * height + self.alpha))

    def _position(self, time: Any) -> tuple[Any, Any]:
        """Return the number of finished periods, and the fraction of the current one.

        `time` is in units of the first period.
        """
        if self.t_mul == 1.0:
            restarts = floor(time)
            return restarts, time - restarts
        restarts = floor(log(1.0 + time * (self.t_mul - 1.0)) / math.log(self.t_mul))
        # Rounding may put an integer quotient of logarithms just below the integer.
        restarts = where(time >= self._start(restarts + 1.0), restarts + 1.0, restarts)
        return restarts, (time - self._start(restarts)) / self.t_mul**restarts

    def _start(self, period: Any) -> Any:
        """Return the start of a period: 1 + t_mul + t_mul^2 + ... over all earlier periods."""
        return (self.t_mul**period - 1.0) / (self.t_mul - 1.0)


SCHEDULES = Table("learning rate schedule", subclasses(LearningRateSchedule, globals()))


def serialize(learning_rate_schedule: LearningRateSchedule) -> dict[str, Any]:
    """Return the class and configuration of a schedule.

    >>> serialize(InverseTimeDecay(1.0, 10, 0.5))["class_name"]
    'InverseTimeDecay'
    """
    if not isinstance(learning_rate_schedule, LearningRateSchedule):
        raise ArgumentTypeError(
            "serialize() takes a LearningRateSchedule. "
            f"Got {type(learning_rate_schedule).__name__}."
        )
    return described(learning_rate_schedule)


def deserialize(config: Mapping[str, Any], custom_objects: Any = None) -> Any:
    """Create a schedule from the result of `serialize`; `custom_objects` adds classes by name.

    >>> rate = deserialize(serialize(InverseTimeDecay(1.0, 10, 0.5)))
    >>> float(rate(20))
    0.5
    """
    return SCHEDULES.with_more(custom_objects).get(config)


def _as_number(step: Any) -> Any:
    # float32 would round steps beyond 2^24, and restarts would come a step early.
    return cast(to_tensor(step), "float64")


def _as_rate(value: Any) -> Any:
    return cast(value, "float32")


def _half_cosine(part: Any) -> Any:
    return 0.5 * (1.0 + cos(math.pi * part))


def _check_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ArgumentError(f"{name} must be positive. Got {value}.")


_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.optimizers.schedules", name, __all__)
