"""Explicit Runge-Kutta methods: RK23 (Bogacki-Shampine), RK45 and DOP853 (Dormand-Prince).

The states stay on their device. The host reads one number per step, the error norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tapegrad.scipy.integrate.control import Attempt, Control, Field, read_largest
from tapegrad.scipy.vocabulary import mean, sqrt, where

Row = tuple[float, ...]


@dataclass(frozen=True)
class Tableau:
    """The Butcher tableau of an explicit method; `errors` are the weights of the error estimate.

    `coarse` holds the weights of a second, lower-order estimate that scales the first.
    """

    name: str
    error_order: int
    times: Row
    stages: tuple[Row, ...]
    weights: Row
    errors: Row
    coarse: Row | None = None
    is_implicit: ClassVar[bool] = False

    def attempt(
        self, field: Field, t: float, y: Any, slope: Any, step: float, control: Control
    ) -> Attempt:
        slopes = [slope]
        for time, weights in zip(self.times[1:], self.stages[1:], strict=True):
            slopes.append(control.evaluate(field, t + time * step, y + step * mix(weights, slopes)))
        after = y + step * mix(self.weights, slopes)
        slopes.append(control.evaluate(field, t + step, after))
        scaled_error = control.scaled_error(step * mix(self.errors, slopes), y, after)
        fine = mean(scaled_error * scaled_error)
        if self.coarse is None:
            return Attempt(after, slopes[-1], read_largest(sqrt(fine)))
        crude = control.scaled_error(step * mix(self.coarse, slopes), y, after)
        both = fine + 0.01 * mean(crude * crude)
        error = fine / where(both > 0.0, sqrt(both), 1.0)
        return Attempt(after, slopes[-1], read_largest(error))

    def advance(self, field: Field, t: float, y: Any, step: float) -> Any:
        slopes: list[Any] = [field(t, y)]
        for time, weights in zip(self.times[1:], self.stages[1:], strict=True):
            slopes.append(field(t + time * step, y + step * mix(weights, slopes)))
        return y + step * mix(self.weights, slopes)


def mix(weights: Sequence[float], slopes: Sequence[Any]) -> Any:
    """Return the weighted sum of slopes without those of weight 0.

    >>> mix([2.0, 0.0, 1.0], [1.0, 5.0, 3.0])
    5.0
    """
    parts = [weight * slope for weight, slope in zip(weights, slopes) if weight]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


RK23 = Tableau(
    name="RK23",
    error_order=2,
    times=(0.0, 1 / 2, 3 / 4),
    stages=((), (1 / 2,), (0.0, 3 / 4)),
    weights=(2 / 9, 1 / 3, 4 / 9),
    errors=(5 / 72, -1 / 12, -1 / 9, 1 / 8),
)
RK45 = Tableau(
    name="RK45",
    error_order=4,
    times=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0),
    stages=(
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    ),
    weights=(35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    errors=(-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40),
)
# Hairer, Nørsett and Wanner, Solving Ordinary Differential Equations I, section II.10.
DOP853 = Tableau(
    name="DOP853",
    error_order=7,
    times=(
        *(0.0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274),
        *(0.2816496580927726, 1 / 3, 1 / 4, 4 / 13, 127 / 195, 3 / 5, 6 / 7, 1.0),
    ),
    stages=(
        (),
        (0.05260015195876773,),
        (0.0197250569845379, 0.0591751709536137),
        (0.02958758547680685, 0.0, 0.08876275643042054),
        (0.2413651341592667, 0.0, -0.8845494793282861, 0.924834003261792),
        (1 / 27, 0.0, 0.0, 0.17082860872947386, 0.12546768756682242),
        (0.037109375, 0.0, 0.0, 0.17025221101954405, 0.06021653898045596, -0.017578125),
        (
            *(0.03709200011850479, 0.0, 0.0, 0.17038392571223998, 0.10726203044637328),
            *(-0.015319437748624402, 0.008273789163814023),
        ),
        (
            *(0.6241109587160757, 0.0, 0.0, -3.3608926294469414, -0.868219346841726),
            *(27.59209969944671, 20.154067550477894, -43.48988418106996),
        ),
        (
            *(0.47766253643826434, 0.0, 0.0, -2.4881146199716677, -0.590290826836843),
            *(21.230051448181193, 15.279233632882423, -33.28821096898486, -0.020331201708508627),
        ),
        (
            *(-0.9371424300859873, 0.0, 0.0, 5.186372428844064, 1.0914373489967295),
            *(-8.149787010746927, -18.52006565999696, 22.739487099350505, 2.4936055526796523),
            -3.0467644718982196,
        ),
        (
            *(2.273310147516538, 0.0, 0.0, -10.53449546673725, -2.0008720582248625),
            *(-17.9589318631188, 27.94888452941996, -2.8589982771350235, -8.87285693353063),
            *(12.360567175794303, 0.6433927460157636),
        ),
    ),
    weights=(
        *(0.054293734116568765, 0.0, 0.0, 0.0, 0.0, 4.450312892752409, 1.8915178993145003),
        *(-5.801203960010585, 0.3111643669578199, -0.1521609496625161, 0.20136540080403034),
        0.04471061572777259,
    ),
    errors=(
        *(0.01312004499419488, 0.0, 0.0, 0.0, 0.0, -1.2251564463762044, -0.4957589496572502),
        *(1.6643771824549864, -0.35032884874997366, 0.3341791187130175, 0.08192320648511571),
        *(-0.022355307863886294, 0.0),
    ),
    coarse=(
        *(-0.18980075407240762, 0.0, 0.0, 0.0, 0.0, 4.450312892752409, 1.8915178993145003),
        *(-5.801203960010585, -0.4226823213237919, -0.1521609496625161, 0.20136540080403034),
        *(0.02265179219836082, 0.0),
    ),
)
