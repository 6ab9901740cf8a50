import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name: str) -> Any:
    return load(name).main(short=True)


def test_physics_informed_comes_near_the_exact_solution_from_the_residual_alone() -> None:
    result = run("physics_informed")

    assert result["error at the start"] > 0.4
    assert result["relative error"] < 0.12


def test_gaussian_process_finds_the_length_scale_and_the_noise_of_its_data() -> None:
    result = run("gaussian_process")

    assert abs(result["length scale"] - 0.5) < 0.15
    assert abs(result["noise"] - 0.2) < 0.08
    # The data come from a function of standard deviation 1.2, seen with a noise of 0.2.
    assert result["error"] < 0.25
    # At a maximum of the likelihood the true hyperparameters do no better than the fitted ones.
    assert result["loss"] < result["loss of the truth"]


def test_neural_ode_follows_the_whole_spiral_from_its_first_place() -> None:
    result = run("neural_ode")

    assert result["error at the start"] > 1.0
    assert result["error"] < 0.3


def test_cart_pole_balances_much_longer_than_random_pushes() -> None:
    result = run("cart_pole")

    assert result["first episodes"] < 30
    assert result["last episodes"] > 60
