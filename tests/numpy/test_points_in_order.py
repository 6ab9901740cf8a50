"""Points that a list or NumPy's array gives are looked at also where tensors go to a device."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad.numpy as tnp
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.values.device import device
from tapegrad.scipy import interpolate

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def strict_device():
    register_backend(strict.StrictBackend())
    with device("strict:0"), strict.forbidding_reads():
        yield
    unregister_backend("strict")


FALLING, Y = [0.0, 2.0, 1.0, 3.0], [1.0, 2.0, 3.0, 1.0]

REFUSED = {
    "interp": (lambda x: tnp.interp(0.5, x, Y), "increasing order"),
    "CubicSpline": (lambda x: interpolate.CubicSpline(x, Y), "increasing order"),
    "PchipInterpolator": (lambda x: interpolate.PchipInterpolator(x, Y), "increasing order"),
    "make_interp_spline": (lambda x: interpolate.make_interp_spline(x, Y), "increasing order"),
    "PPoly": (lambda x: interpolate.PPoly([[1.0, 2.0, 3.0]], x), "increasing order"),
    "BSpline": (lambda x: interpolate.BSpline(x, Y, 1), "knots t that do not decrease"),
    "interpn": (lambda x: interpolate.interpn((x,), Y, [[0.5]]), "increasing order"),
}


@pytest.mark.parametrize("kind", [list, np.array])
@pytest.mark.parametrize("name", REFUSED)
def test_falling_points_of_the_host_are_refused(name, kind):
    call, words = REFUSED[name]

    with pytest.raises(ValueError, match=words):
        call(kind(FALLING))


def test_repeated_points_of_the_host_are_refused():
    with pytest.raises(ValueError, match="strictly increasing order"):
        interpolate.CubicSpline([0.0, 1.0, 1.0, 2.0], Y)
    with pytest.raises(ValueError, match="distinct points"):
        interpolate.BarycentricInterpolator([0.0, 1.0, 1.0, 2.0], Y)


def test_an_open_curve_is_not_periodic():
    with pytest.raises(ValueError, match="equal first and last values"):
        interpolate.CubicSpline([0.0, 1.0, 2.0], [1.0, 2.0, 3.0], bc_type="periodic")


def test_a_falling_grid_is_turned_round():
    f = interpolate.RegularGridInterpolator(([2.0, 1.0, 0.0],), [4.0, 1.0, 0.0])

    assert f([[0.5], [1.5]]).numpy().tolist() == [0.5, 2.5]


def test_points_that_repeat_stand_for_derivatives():
    f = interpolate.KroghInterpolator([0.0, 0.0, 1.0], [0.0, 2.0, 1.0])

    assert float(f.derivative(0.0).numpy()) == pytest.approx(2.0)


def test_points_on_the_device_are_not_looked_at():
    assert tnp.interp(0.5, tnp.asarray(FALLING), Y).shape == ()
