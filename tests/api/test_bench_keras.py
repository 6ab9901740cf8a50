"""The benchmark's networks as models of tapegrad.keras, and the overhead of `fit`."""

from __future__ import annotations

import numpy as np
import pytest

import fit_overhead
from tapegrad_bench.adapters import CONTENDERS, load
from tapegrad_bench.adapters.keras_models import NETWORKS, network_of
from tapegrad_bench.charts import ratios_of
from tapegrad_bench.headline import headline
from tapegrad_bench.judge import checked, judge
from tapegrad_bench.options import Options, plan
from tapegrad_bench.reference import reference
from tapegrad_bench.rows import rows_of
from tapegrad_bench.tables import ratio_table, time_table
from tapegrad_bench.workload import Problem
from tapegrad_bench.workloads import WORKLOADS
from tests.bench_runs import make_cell, make_run

BY_NAME = {contender.name: contender for contender in CONTENDERS}
MODES = ("tapegrad:keras", "tapegrad:keras-function")
IN_HALF = ("mlp_large", "convnet", "gpt2")


def small(name, dtype="float32"):
    return Problem(WORKLOADS[name], WORKLOADS[name].check, dtype)


def prepared(contender, problem):
    return load(BY_NAME[contender], "cpu").prepare(BY_NAME[contender].mode, problem)


def losses_of(contender, problem, steps=3):
    made = prepared(contender, problem)
    return [float(made.fetch(made.step())[0]) for _ in range(steps)]


# Models


@pytest.mark.parametrize("contender", MODES)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [*[(name, "float32") for name in NETWORKS], *[(name, "bfloat16") for name in IN_HALF]],
)
def test_models_agree_with_the_reference(name, dtype, contender):
    problem = small(name, dtype)
    made = prepared(contender, problem)

    judgement = judge(problem.workload, dtype, checked(made), reference(problem))
    assert judgement.complaint == ""


@pytest.mark.parametrize("name", NETWORKS)
def test_models_train_as_the_same_steps_without_layers_do(name):
    problem = small(name)

    found = losses_of("tapegrad:keras", problem)

    np.testing.assert_allclose(found, losses_of("tapegrad:eager", problem), rtol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_models_have_the_parameters_of_the_workload(name):
    problem = small(name)
    network = network_of(problem)

    network.model(network.arrange(problem.batch)[0])

    variables = network.model.trainable_variables
    assert [tuple(v.shape) for v in variables] == [p.shape for p in problem.params]
    assert sum(v.numpy().size for v in variables) == problem.cost.parameters


def test_models_exist_for_the_workloads_that_contenders_name():
    assert all(BY_NAME[name].workloads == tuple(NETWORKS) for name in MODES)


# Words


def names_of(group):
    return [contender.name for contender in group.contenders]


def test_models_run_only_if_asked_for():
    groups = plan(Options())

    assert not any(name in MODES for group in groups for name in names_of(group))


def test_models_run_beside_the_rest_where_the_row_is_a_network():
    options = Options(
        devices=("cuda",), workloads=("chain", "rnn"), peers=("torch:eager",), keras=True
    )

    chain, rnn = plan(options)

    plain = ["tapegrad:eager", "tapegrad:function"]
    assert names_of(chain) == [*plain, "torch:eager"]
    assert names_of(rnn) == [*plain, "torch:eager", *MODES]


def test_models_can_be_named_like_other_modes():
    options = Options(devices=("cpu",), peers=("tapegrad:keras", "torch:eager"))

    (group,) = plan(Options(**{**vars(options), "workloads": ("mlp_small",), "sizes": ("small",)}))

    assert names_of(group) == ["torch:eager", "tapegrad:keras"]


# Reports


@pytest.fixture
def run():
    return make_run(
        make_cell(time=2e-3),
        make_cell(mode="function", time=1e-3),
        make_cell(mode="keras", time=2.2e-3),
        make_cell(mode="keras-function", time=1.1e-3),
        make_cell("torch", "eager", 4.4e-3),
        make_cell("torch", "compile", 3.3e-3),
    )


def test_models_are_held_against_peers_and_against_steps_without_layers(run):
    facts = [(fact.name, fact.value, fact.note) for fact in headline(run, "cpu")]

    tail = "geometric mean; median ratio"
    for mode, kind, value in (("keras", "eager", "2.00x"), ("keras-function", "compiled", "3.00x")):
        name = f"{mode} on cpu"
        assert (
            name,
            f"{value} faster",
            f"than the fastest {kind} peer, {tail} {value}; ahead in 1 of 1 workloads",
        ) in facts
        note = f"than the same step without layers, {tail} 0.909x; ahead in 0 of 1 workloads"
        assert (name, "1.10x slower", note) in facts


def test_models_have_columns_ratios_and_bars(run):
    rows = rows_of(run)

    times, ratios = time_table(rows, "cpu"), ratio_table(rows, "cpu")

    ours = ["tapegrad eager", "tapegrad function", "tapegrad keras", "tapegrad keras-function"]
    assert list(times.columns[2:6]) == ours
    assert [line[2].text for line in ratios.rows] == ours
    bars = ratios_of(rows[0])
    assert bars["tapegrad keras"] == pytest.approx(1.1)
    assert bars["tapegrad keras-function"] == pytest.approx(1.1)
    assert bars["torch eager"] == pytest.approx(2.2)


# What fit adds


def test_the_overhead_of_fit_is_that_of_the_turn_in_the_middle():
    found = fit_overhead.Overhead("function", (1.1e-3, 9e-3, 1.2e-3), (1e-3, 1e-3, 1e-3))

    assert found.ratio == pytest.approx(1.2)
    assert found.line == "function  fit  1.20 ms a step, by hand  1.00 ms, ratio 1.200"


@pytest.mark.parametrize("is_eager", [True, False], ids=["eager", "function"])
def test_fit_and_the_loop_by_hand_learn_the_same_task(is_eager):
    task = fit_overhead.Task(examples=20, batch=8, inputs=16, hidden=64, classes=2)
    epochs = (fit_overhead.make_fit(task, is_eager), fit_overhead.make_loop(task, is_eager))

    losses = [[epoch() for _ in range(60)] for epoch in epochs]

    assert task.steps == 3
    assert all(found[-1] < found[0] / 2 for found in losses)


def test_an_overhead_above_the_limit_is_a_failure(capsys):
    arguments = ["--modes", "eager", "--turns", "1", "--examples", "64"]

    statuses = [fit_overhead.main([*arguments, "--limit", limit]) for limit in ("1000", "0.001")]

    assert statuses == [0, 1]
    assert capsys.readouterr().out.count("eager     fit") == 2
