"""Every primitive has a sample and its rules. Tables list the exceptions."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tapegrad.autodiff.forward import ForwardAccumulator
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.backend.registry import get_backend
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.core.values import host
from tapegrad.core.values.tensor import wrap
from tapegrad.ops.creation import ones_like
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tests.house.sources import find_modules
from tests.house.test_import_cost import run_python

PLACES = ("tapegrad.ops", "tapegrad.optimizers")

# Primitives without a batching rule, which vmap runs in a loop.
LOOPED: dict[str, str] = {
    "added_rows": "a pass of programs makes it, which have no batches any more",
    "nonzero": "how many there are depends on the values",
    "gather_when": "steps of optimizers make it, which examples of a batch share",
    "rounded_sum_when": "steps of optimizers make it, which examples of a batch share",
    "scatter_when": "steps of optimizers make it, which examples of a batch share",
    "start_all_gather": "compiled programs make it, which have no batches any more",
    "start_all_reduce": "compiled programs make it, which have no batches any more",
    "start_gather_shards": "compiled programs make it, which have no batches any more",
    "start_reduce_scatter": "compiled programs make it, which have no batches any more",
    "start_scatter_shards": "compiled programs make it, which have no batches any more",
    "start_sum": "compiled programs make it, which have no batches any more",
    "sum_when": "steps of optimizers make it, which examples of a batch share",
    "unique": "how many there are depends on the values",
    "random_bernoulli": "each seed of a batch starts a stream of its own",
    "random_categorical": "each seed of a batch starts a stream of its own",
    "random_gamma": "each seed of a batch starts a stream of its own",
    "random_integers": "each seed of a batch starts a stream of its own",
    "random_normal": "each seed of a batch starts a stream of its own",
    "random_permutation": "each seed of a batch starts a stream of its own",
    "random_poisson": "each seed of a batch starts a stream of its own",
    "random_truncated_normal": "each seed of a batch starts a stream of its own",
    "random_uniform": "each seed of a batch starts a stream of its own",
    "wait": "compiled programs make it, which have no batches any more",
}
# Steps of optimizers change variables, which examples of a batch share.
OUTSIDE_BATCHES = "_update"

# Samples that are checked by their derivative or by running alone.
WITHOUT_REFERENCE: dict[str, str] = {
    "stateless_gamma": "NumPy draws other numbers; tests/rules checks the distribution",
    "gamma": "NumPy draws other numbers; tests/rules checks the distribution",
    "poisson": "NumPy draws other numbers; tests/rules checks the distribution",
    "categorical": "NumPy draws other numbers; tests/rules checks the distribution",
}


def load_every_primitive() -> list[Primitive]:
    """Return the primitives of the engine; other tests may have declared some of their own."""
    modules = [name for name in find_modules() if name.startswith(PLACES)]
    for name in modules:
        importlib.import_module(name)
    load = f"import importlib; [importlib.import_module(name) for name in {modules}]"
    names = "from tapegrad.core.primitive.primitive import PRIMITIVES; print(*PRIMITIVES)"
    return [PRIMITIVES[name] for name in run_python(f"{load}; {names}").split()]


def run(sample: Sample) -> None:
    """Call the sample's function once, with its gradients and tangents where it has them."""
    tensors = [wrap(host.place(array)) for array in sample.make()]
    sources = [tensor for tensor in tensors if tensor.dtype.is_differentiable]
    if not sample.differentiable:
        sample.function(*tensors)
        return
    with (
        GradientTape() as tape,
        ForwardAccumulator(sources, [ones_like(x) for x in sources]),
    ):
        tape.watch(sources)
        result = sample.function(*tensors)
    results = result if isinstance(result, list | tuple) else [result]
    tape.gradient([r for r in results if r.dtype.is_differentiable], sources)


@pytest.fixture(scope="module")
def primitives() -> list[Primitive]:
    return load_every_primitive()


@pytest.fixture(scope="module")
def executed(primitives: list[Primitive]) -> set[str]:
    """The names of all primitives that ran while every sample ran once."""
    names: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        for primitive in primitives:
            # Short ways through a primitive keep the kernel that was there when they were made.
            patch.setattr(primitive, "_fast_by_params", {})
            for kind in get_backend("numpy").array_types:
                patch.setitem(primitive.kernels, kind, recording(primitive, kind, names))
        for sample in all_samples():
            run(sample)
    return names


def recording(primitive: Primitive, kind: type, names: set[str]) -> Any:
    kernel = primitive.kernel(kind)

    def record(*args: Any, **params: Any) -> Any:
        names.add(primitive.name)
        return kernel(*args, **params)

    return record


def has_vjp(primitive: Primitive) -> bool:
    return primitive.joint_vjp is not None or any(primitive.vjp_rules or ())


def has_batching(primitive: Primitive) -> bool:
    return primitive.broadcasts or primitive.batch_rule is not None


def test_every_primitive_is_executed_by_a_sample(primitives, executed):
    assert {p.name for p in primitives} - executed == set()


def test_every_differentiable_primitive_can_be_pulled_back(primitives):
    # Tangents need no rule: the VJP is transposed where there is none for them.
    assert {p.name for p in primitives if p.differentiable and not has_vjp(p)} == set()


def test_only_the_listed_primitives_are_looped_over_in_a_batch(primitives):
    looped = {p.name for p in primitives if not has_batching(p)}

    assert {name for name in looped if not name.endswith(OUTSIDE_BATCHES)} == set(LOOPED)


def test_only_the_listed_samples_have_no_reference():
    without = {sample.name for sample in all_samples() if sample.reference is None}

    assert without == set(WITHOUT_REFERENCE)


def test_names_of_samples_are_unique():
    names = [sample.name for sample in all_samples()]

    assert sorted(set(names)) == sorted(names)
