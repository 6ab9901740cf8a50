"""The entries for GradBench agree with closed forms and differences, and the protocol holds."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.stats import multivariate_normal, wishart

import tapegrad as tg
from tapegrad_gradbench import record
from tapegrad_gradbench.evaluations import NAMES, descent, particle, saddle, tensor
from tapegrad_gradbench.protocol import Entry, serve
from tapegrad_gradbench.session import AWAITED, LOST, NO_ENTRY, Suite
from tapegrad_gradbench.tool import functions


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    """Functions run without being recorded, which is cheaper."""
    tg.config.run_functions_eagerly(True)
    yield
    tg.config.run_functions_eagerly(False)


def outputs(name: str, given: Any) -> dict[str, Any]:
    """All results of an evaluation."""
    return {
        function: entry.answer(entry.compute(*entry.prepare(given)))
        for function, entry in functions(name).items()
    }


def differences(f: Any, x: Any, h: float = 1e-6) -> Any:
    """The Jacobian of `f` by central differences; its last axis is that of the flat `x`."""
    x = np.asarray(x, float)
    steps = h * np.eye(x.size).reshape(-1, *x.shape)
    columns = [(np.asarray(f(x + step)) - np.asarray(f(x - step))) / (2 * h) for step in steps]
    return np.stack(columns, axis=-1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_hello() -> None:
    assert outputs("hello", 3.0) == {"square": 9.0, "double": 6.0}


def test_gmm(rng: np.random.Generator) -> None:
    d, k, n, m, gamma = 3, 2, 4, 1, 1.3
    x = rng.normal(size=(n, d))
    sizes = {"alpha": (k,), "mu": (k, d), "q": (k, d), "l": (k, d * (d - 1) // 2)}
    variables = {name: 0.5 * rng.normal(size=size) for name, size in sizes.items()}

    def log_posterior(name: str, value: Any) -> float:
        now = {**variables, name: value}
        precisions = []
        for q, below in zip(now["q"], now["l"]):
            factor = np.diag(np.exp(q))
            factor.T[np.triu_indices(d, 1)] = below
            precisions.append(factor.T @ factor)
        weights = np.exp(now["alpha"]) / np.sum(np.exp(now["alpha"]))
        densities = [
            w * multivariate_normal(mu, np.linalg.inv(p)).pdf(x)
            for w, mu, p in zip(weights, now["mu"], precisions)
        ]
        prior = wishart(d + m + 1, np.eye(d) / gamma**2)
        return np.sum(np.log(sum(densities))) + sum(prior.logpdf(p) for p in precisions)

    plain = {name: value.tolist() for name, value in variables.items()}
    found = outputs("gmm", {"x": x.tolist(), "m": m, "gamma": gamma, **plain})

    assert found["objective"] == pytest.approx(log_posterior("mu", variables["mu"]))
    for name, value in variables.items():
        slopes = differences(lambda v, name=name: log_posterior(name, v), value)
        np.testing.assert_allclose(np.ravel(found["jacobian"][name]), slopes, atol=1e-6)


def test_kmeans(rng: np.random.Generator) -> None:
    points = rng.normal(size=(20, 2))
    centroids = points[:3]
    distances = np.sum((points[:, None] - centroids) ** 2, axis=-1)
    nearest = np.argmin(distances, axis=1)
    means = [points[nearest == j].mean(axis=0) for j in range(3)]

    found = outputs("kmeans", {"points": points.tolist(), "centroids": centroids.tolist()})

    assert found["cost"] == pytest.approx(distances.min(axis=1).sum())
    np.testing.assert_allclose(found["dir"], centroids - means, atol=1e-12)


def test_lse(rng: np.random.Generator) -> None:
    x = rng.normal(size=9)

    found = outputs("lse", {"x": x.tolist()})

    assert found["primal"] == pytest.approx(np.log(np.sum(np.exp(x))))
    np.testing.assert_allclose(found["gradient"], np.exp(x) / np.sum(np.exp(x)))


def test_llsq(rng: np.random.Generator) -> None:
    x, t = rng.normal(size=3), np.linspace(-1, 1, 8)
    powers = t[:, None] ** np.arange(3)

    found = outputs("llsq", {"x": x.tolist(), "n": 8})

    assert found["primal"] == pytest.approx(0.5 * np.sum((np.sign(t) - powers @ x) ** 2))
    np.testing.assert_allclose(found["gradient"], powers.T @ (powers @ x - np.sign(t)))


def test_ode(rng: np.random.Generator) -> None:
    x = rng.uniform(0.5, 1.0, size=4)  # the method is exact up to the fourth power of time
    exact = [np.prod(x[: i + 1]) * 2 ** (i + 1) / math.factorial(i + 1) for i in range(4)]

    found = outputs("ode", {"x": x.tolist(), "s": 3})

    np.testing.assert_allclose(found["primal"], exact)
    np.testing.assert_allclose(found["gradient"], exact[-1] / x)


def test_det(rng: np.random.Generator) -> None:
    a = rng.normal(size=(4, 4))

    found = outputs("det", {"A": a.ravel().tolist(), "ell": 4})

    assert found["primal"] == pytest.approx(np.linalg.det(a))
    np.testing.assert_allclose(found["gradient"], (np.linalg.det(a) * np.linalg.inv(a).T).ravel())


def test_lstm(rng: np.random.Generator) -> None:
    layers, width, length = 2, 3, 4
    main, extra = rng.normal(size=(2 * layers, 4 * width)), rng.normal(size=(3, width))
    state = rng.normal(size=(2 * layers, width))
    text = np.round(rng.uniform(size=(length, width)))

    def loss(parameters: Any) -> float:
        weights, (inward, outward, shift) = (
            parameters[: main.size],
            parameters[main.size :].reshape(3, width),
        )
        gates = weights.reshape(layers, 2, 4, width)
        hidden, memory = state[0::2].copy(), state[1::2].copy()
        total = 0.0
        for t in range(length - 1):
            x = text[t] * inward
            for i, (w, b) in enumerate(gates):
                f, g, o, c = np.array([x, hidden[i], x, hidden[i]]) * w + b
                f, g, o = (1 / (1 + np.exp(-gate)) for gate in (f, g, o))
                memory[i] = memory[i] * f + g * np.tanh(c)
                x = hidden[i] = o * np.tanh(memory[i])
            y = x * outward + shift
            total += text[t + 1] @ (y - np.log(np.exp(y).sum() + 2))
        return -total / ((length - 1) * width)

    flat = np.concatenate([main.ravel(), extra.ravel()])
    names = ("main_params", "extra_params", "state", "sequence")
    found = outputs("lstm", dict(zip(names, (p.tolist() for p in (main, extra, state, text)))))

    assert found["objective"] == pytest.approx(loss(flat))
    np.testing.assert_allclose(found["jacobian"], differences(loss, flat), atol=1e-8)


@pytest.mark.parametrize("turn", [1.0, 0.0])
def test_ba(rng: np.random.Generator, turn: float) -> None:
    camera, point, weight = rng.normal(size=11), rng.normal(size=3), np.array([0.7])
    camera[:3] *= turn
    feature = rng.normal(size=2)

    def error(x: Any) -> Any:
        camera, point, weight = np.split(x, [11, 14])
        y = Rotation.from_rotvec(camera[:3]).apply(point - camera[3:6])
        flat = y[:2] / y[2]
        square = flat @ flat
        bent = flat * (1 + camera[9] * square + camera[10] * square**2)
        return weight * (bent * camera[6] + camera[7:9] - feature)

    all_values = np.concatenate([camera, point, weight])
    given = {"n": 2, "m": 3, "p": 4, "w": 0.7}
    given |= {"cam": camera.tolist(), "x": point.tolist(), "feat": feature.tolist()}
    found = outputs("ba", given)

    np.testing.assert_allclose(found["objective"]["reproj_error"]["elements"], error(all_values))
    assert found["objective"]["w_err"] == {"element": pytest.approx(1 - 0.49), "repeated": 4}
    entries = found["jacobian"]
    slopes = differences(error, all_values)
    np.testing.assert_allclose(
        entries["vals"][:30], slopes.ravel(), atol=1e-5 * np.abs(slopes).max()
    )
    assert entries["vals"][-1] == pytest.approx(-1.4)
    # Two rows for each of four observations, then one for each weight.
    assert entries["rows"][:3] == [0, 15, 30]
    assert entries["rows"][-1] == 2 * 15 * 4 + 4
    assert entries["cols"][:15] == [*range(11), 22, 23, 24, 31]
    assert entries["cols"][-1] == 22 + 9 + 3


def hand(rng: np.random.Generator, points: int, triangles: int) -> tuple[Any, Any]:
    """A hand of 22 bones with random shapes, and its distances computed by NumPy."""
    parents = [-1, *(0 if bone % 4 == 1 else bone - 1 for bone in range(1, 21)), 0]
    bones, corners = len(parents), 5
    model = {
        "parents": parents,
        "is_mirrored": False,
        "base_relatives": rng.normal(size=(bones, 4, 4)),
        "inverse_base_absolutes": rng.normal(size=(bones, 4, 4)),
        "base_positions": rng.normal(size=(corners, 4)),
        "weights": rng.uniform(size=(corners, bones)),
        "triangles": rng.integers(corners, size=(triangles, 3)),
    }
    model["base_relatives"][:, 3] = model["inverse_base_absolutes"][:, 3] = [0, 0, 0, 1]
    chosen = rng.integers(triangles if triangles else corners, size=points)
    observed = rng.normal(size=(points, 3))

    def distances(theta: Any, us: Any) -> Any:
        angles = np.zeros((bones, 3))
        for finger in range(5):
            first = 1 + 4 * finger + 1
            (angles[first, 0], angles[first, 1], angles[first + 1, 0], angles[first + 2, 0]) = (
                theta[6 + 4 * finger : 10 + 4 * finger]
            )
        absolute: list[Any] = []
        for bone, (x, z, y) in enumerate(angles):
            pose = np.eye(4)
            pose[:3, :3] = Rotation.from_euler("xyz", [x, y, z]).as_matrix()
            own = model["base_relatives"][bone] @ pose
            absolute.append(own if parents[bone] < 0 else absolute[parents[bone]] @ own)
        skin = np.zeros((corners, 3))
        for bone in range(bones):
            moved = (
                absolute[bone] @ model["inverse_base_absolutes"][bone] @ model["base_positions"].T
            )
            skin += (moved * model["weights"][:, bone])[:3].T
        skin = Rotation.from_rotvec(theta[:3]).apply(skin) + theta[3:6]
        if us is None:
            return observed - skin[chosen]
        a, b, c = (skin[model["triangles"][chosen, corner]] for corner in range(3))
        u, v = us[:, :1], us[:, 1:]
        return observed - (u * a + v * b + (1 - u - v) * c)

    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in model.items()}
    data = {"model": plain, "points": observed.tolist(), "correspondences": chosen.tolist()}
    return data, distances


@pytest.mark.parametrize("triangles", [0, 4])
def test_ht(rng: np.random.Generator, triangles: int) -> None:
    data, distances = hand(rng, points=3, triangles=triangles)
    theta, us = 0.3 * rng.normal(size=26), rng.uniform(size=(3, 2)) if triangles else None

    given = {"theta": theta.tolist(), "data": data, "us": [] if us is None else us.tolist()}
    found = outputs("ht", given)

    np.testing.assert_allclose(found["objective"], distances(theta, us).ravel())
    slopes = differences(lambda x: distances(x, us).ravel(), theta)
    if us is not None:
        by_us = differences(lambda shift: distances(theta, us + shift).ravel(), np.zeros(2))
        slopes = np.concatenate([by_us, slopes], axis=1)
    np.testing.assert_allclose(found["jacobian"], slopes, atol=1e-6)


@pytest.mark.parametrize("modes", ["ff", "fr", "rf", "rr"])
def test_saddle(monkeypatch: pytest.MonkeyPatch, modes: str) -> None:
    monkeypatch.setattr(descent, "RATE", 0.3)
    monkeypatch.setattr(descent, "TOLERANCE", 1e-2)

    found = saddle.saddle_point(tensor([1.0, 0.5]), modes)

    np.testing.assert_allclose(found.numpy(), np.zeros(4), atol=0.02)


def closest(w: float, step: float) -> float:
    """The squared distance that `particle.miss` computes, with forces written out."""
    charges = np.array([[10.0, 10.0 - w], [10.0, 0.0]])
    x, speed = np.array([0.0, 8.0]), np.array([0.75, 0.0])
    while True:
        away = x - charges
        force = np.sum(away / np.sum(away**2, axis=1, keepdims=True) ** 1.5, axis=0)
        after = x + step * speed
        if after[1] <= 0:
            return float((after - after[1] / speed[1] * speed)[0] ** 2)
        x, speed = after, speed + step * force


@pytest.mark.parametrize("modes", ["ff", "fr", "rf", "rr"])
def test_particle(monkeypatch: pytest.MonkeyPatch, modes: str) -> None:
    monkeypatch.setattr(particle, "STEP", 2.0)
    outer, inner = (descent.MODES[letter] for letter in modes)

    slope = float(outer(lambda w: particle.miss(w, inner))(tensor(0.5)))

    assert float(particle.miss(tensor(0.5), inner)) == pytest.approx(closest(0.5, 2.0))
    assert slope == pytest.approx(differences(lambda w: closest(w, 2.0), 0.5)[0], rel=1e-5)


def test_descent_halves_a_rate_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "RATE", 1.5)

    found = descent.argmin(lambda x: (x - 2.0) ** 2, descent.reverse, tensor(5.0))

    assert float(found) == pytest.approx(2.0, abs=1e-4)


def answers(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    out = io.StringIO()
    lines = [json.dumps({"id": k, **message}) for k, message in enumerate(messages)]
    serve(lines, out, functions)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_messages_are_answered_in_order() -> None:
    start, define, value, analysis = answers(
        {"kind": "start", "eval": "hello"},
        {"kind": "define", "module": "hello"},
        {"kind": "evaluate", "module": "hello", "function": "square", "input": 4.0},
        {"kind": "analysis", "of": 2, "valid": True},
    )

    assert start == {"id": 0, "tool": "tapegrad"}
    assert define == {"id": 1, "success": True}
    assert (value["id"], value["success"], value["output"]) == (2, True, 16.0)
    assert [timing["name"] for timing in value["timings"]] == ["evaluate"]
    assert analysis == {"id": 3}


def test_runs_are_repeated_as_the_input_asks() -> None:
    given = {"x": [1.0, 2.0], "min_runs": 3, "min_seconds": 0}
    (found,) = answers({"kind": "evaluate", "module": "lse", "function": "primal", "input": given})

    assert len(found["timings"]) == 3


def test_unknown_modules_and_errors_are_answered() -> None:
    unknown, failed = answers(
        {"kind": "define", "module": "sort"},
        {"kind": "evaluate", "module": "det", "function": "primal", "input": {"A": [1.0]}},
    )

    assert unknown["success"] is False
    assert "tapegrad has no entry for 'sort'" in unknown["error"]
    assert failed["success"] is False
    assert "KeyError" in failed["error"]


def test_every_evaluation_has_functions() -> None:
    for name in NAMES:
        assert all(isinstance(entry, Entry) for entry in functions(name).values())


EVALUATION = """
import json, sys
def send(**message):
    print(json.dumps(message), flush=True)
    return json.loads(sys.stdin.readline())
send(id=0, kind="start", eval="two")
send(id=1, kind="define", module="two")
for k, x in enumerate(sys.argv[1:]):
    found = send(id=2 * k + 2, kind="evaluate", module="two", function="f", input=x, description=x)
    if found["success"]:
        send(id=2 * k + 3, kind="analysis", of=2 * k + 2, valid=found["output"] == x, error="no")
"""
TOOL = """
import json, sys, time
for line in sys.stdin:
    message = json.loads(line)
    answer = {"id": message["id"], "success": True}
    if message["kind"] == "evaluate":
        if message["input"] == "exit":
            sys.exit("gone")
        if message["input"] == "sleep":
            time.sleep(60)
        answer["output"] = message["input"].lower()
        timings = ((7, "evaluate"), (9, "x"))
        answer["timings"] = [{"name": name, "nanoseconds": k} for k, name in timings]
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def suite(tmp_path: Any) -> Suite:
    for folder, text in (("evals", EVALUATION), ("tools", TOOL)):
        script = tmp_path / "python" / "gradbench" / "gradbench" / folder / "two" / "run.py"
        script.parent.mkdir(parents=True)
        script.write_text(text)
        script.with_name("two.py").touch()
    return Suite(tmp_path, {"eval": sys.executable}, None, limit=0.5)


def test_a_session_keeps_times_and_judgements(suite: Suite) -> None:
    run = suite.run("two", "two", ["a", "B"])

    assert run.times == {("a", "f"): [7], ("B", "f"): [7]}
    assert run.is_valid == {("a", "f"): True, ("B", "f"): False}
    assert run.problem == "B f: no"


def test_an_evaluation_that_a_tool_lacks_is_not_started(suite: Suite) -> None:
    assert suite.run("one", "two").problem == NO_ENTRY


@pytest.mark.parametrize(
    ("word", "problem"), [("exit", "gone"), ("sleep", "An answer took more than 0 s.")]
)
def test_a_session_ends_with_its_tool(suite: Suite, word: str, problem: str) -> None:
    run = suite.run("two", "two", ["a", word])

    assert run.times == {("a", "f"): [7]}
    assert run.problem in {problem, LOST} if word == "exit" else run.problem == problem


def test_asynchronous_tools_wait_inside_their_time(tmp_path: Any) -> None:
    """The launcher wraps what the suite times, and finds the modules beside the script."""
    (tmp_path / "gradbench").mkdir()
    wrap = "function = multiple_runs = lambda **options: lambda f: f(1)"
    (tmp_path / "gradbench" / "wrap.py").write_text(wrap)
    (tmp_path / "jax.py").write_text("block_until_ready = lambda x: x + 1")
    folder = tmp_path / "tool"
    folder.mkdir()
    (folder / "one.py").write_text("from gradbench import wrap\nx = wrap.function()(lambda x: x)")
    (folder / "run.py").write_text("import one\nprint(one.x)")

    ended = subprocess.run(
        [sys.executable, str(AWAITED), str(folder / "run.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout == "2\n"


def test_records_keep_valid_times(tmp_path: Any, suite: Suite) -> None:
    found = record.empty(suite="abc")
    record.add(found, "two", "jax", suite.run("two", "two", ["a", "B"]))
    path = tmp_path / "record.json"
    record.save(found, path)

    assert record.load(path) == found
    assert [*found["evaluations"]["two"]["times"]] == ["a"]
    assert found["evaluations"]["two"]["problems"] == {"jax": "B f: no"}
