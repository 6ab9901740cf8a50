"""The benchmark's workloads, its reference, and the comparison of both."""

from __future__ import annotations

import numpy as np
import pytest

from tapegrad_bench.adapters import CONTENDERS, load
from tapegrad_bench.judge import Checked, checked, judge, judge_loss
from tapegrad_bench.reference import Reference, as_double, plain_loss, reference
from tapegrad_bench.workload import SETS, Kind, Problem
from tapegrad_bench.workloads import WORKLOADS

COMPUTING = [w for w in WORKLOADS.values() if w.kind is not Kind.FOOTPRINT]
EAGER, FUNCTION = CONTENDERS[:2]


def judged(workload, dtype, contender):
    problem = Problem(workload, workload.check, dtype)
    prepared = load(contender, "cpu").prepare(contender.mode, problem)
    return judge(workload, dtype, checked(prepared), reference(problem))


# Workloads


@pytest.mark.parametrize("contender", [EAGER, FUNCTION], ids=lambda c: c.mode)
@pytest.mark.parametrize("workload", COMPUTING, ids=lambda w: w.name)
def test_tapegrad_agrees_with_the_reference(workload, contender):
    assert judged(workload, "float32", contender).complaint == ""


@pytest.mark.parametrize("workload", COMPUTING, ids=lambda w: w.name)
def test_tapegrad_in_double_precision_agrees_to_the_last_digits(workload):
    assert judged(workload, "float64", EAGER).complaint == ""


@pytest.mark.parametrize("name", ["convnet", "gpt2"])
def test_gradients_not_derived_by_hand_agree_with_differences_of_numpys_loss(name):
    workload = WORKLOADS[name]
    dims = {**workload.check, "batch": 2}
    problem = Problem(workload, dims, "float64")
    rng = np.random.default_rng(1)
    params, batch = as_double(problem.params), as_double(problem.batch)
    direction = [rng.standard_normal(p.shape) * 1e-8 for p in params]

    ahead, behind = (
        plain_loss(problem, [p + sign * d for p, d in zip(params, direction)], batch)
        for sign in (1, -1)
    )
    slope = sum(np.sum(g * d) for g, d in zip(reference(problem).outputs[0][1:], direction))

    assert (ahead - behind) / 2 == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("workload", COMPUTING, ids=lambda w: w.name)
def test_the_same_seed_draws_the_same_data(workload):
    first, second = (Problem(workload, workload.check, "float32") for _ in range(2))

    for one, other in zip(first.params + first.batch, second.params + second.batch):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("workload", COMPUTING, ids=lambda w: w.name)
def test_the_sets_of_inputs_differ(workload):
    problem = Problem(workload, workload.check, "float32")
    training = workload.kind is Kind.TRAINING
    sets = [*problem.batches()] if training else [[*p, *b] for p, b in problem.inputs()]

    seen = {b"".join(array.tobytes() for array in one) for one in sets}

    assert len(sets) == SETS
    # Small sets come round earlier, and a number has no other order.
    assert len(seen) >= 3 or all(array.size == 1 for array in sets[0])


@pytest.mark.parametrize("workload", COMPUTING, ids=lambda w: w.name)
def test_parameters_are_counted(workload):
    problem = Problem(workload, workload.check, "float32")

    assert problem.cost.parameters == sum(p.size for p in problem.params)


@pytest.mark.parametrize("workload", COMPUTING, ids=lambda w: w.name)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_sizes_have_labels_of_their_own_and_positive_costs(workload, device):
    dims = [workload.defaults[device], *workload.scaling]

    costs = [workload.cost(each, workload.dtypes[device]) for each in dims]

    assert len(workload.sizes(device)) >= len(workload.scaling)
    assert all(cost.bytes > 0 and (cost.flops is None or cost.flops > 0) for cost in costs)


@pytest.mark.parametrize(
    ("name", "amount", "expected"),
    [
        ("elementwise", "bytes", 1.61e9),
        ("softmax_xent", "bytes", 1.65e9),
        ("layernorm", "bytes", 0.67e9),
        ("gpt2", "flops", 6.55e12),
    ],
)
def test_costs_of_the_large_rows_are_those_of_the_tables(name, amount, expected):
    workload = WORKLOADS[name]

    cost = workload.cost(workload.defaults["cuda"], workload.dtypes["cuda"])

    assert getattr(cost, amount) == pytest.approx(expected, rel=5e-3)


def test_half_precision_trains_single_precision_weights():
    problem = Problem(WORKLOADS["mlp_large"], WORKLOADS["mlp_large"].check, "bfloat16")

    assert (problem.parameter_dtype, problem.dtype) == ("float32", "bfloat16")


# The comparison


def test_a_gradient_of_another_shape_is_wrong():
    known = Reference([[np.ones(()), np.ones(3)]])

    found = judge(WORKLOADS["chain"], "float32", Checked([[np.ones(()), np.ones(2)]]), known)

    assert found.complaint == "gradient 1 has shape (2,) where (3,) is expected."


def test_a_nan_is_wrong():
    known = Reference([[np.ones(())]])

    found = judge(WORKLOADS["chain"], "float32", Checked([[np.array(np.nan)]]), known)

    assert found.complaint.startswith("the output differs from the reference by inf")


def test_a_wrong_update_shows_in_the_losses():
    known = Reference([[np.ones(())]], (1.0, 0.9, 0.8))

    found = judge(
        WORKLOADS["mlp_small"], "float32", Checked([[np.ones(())]], (1.0, 0.9, 0.81)), known
    )

    assert found.complaint.startswith("the loss of step 3 differs")


def test_a_wrong_loss_at_the_timed_size_is_wrong():
    assert judge_loss("float32", 1.0, 1.0, "large").complaint == ""
    assert judge_loss("float32", 1.1, 1.0, "large").complaint.startswith("the loss at size large")
