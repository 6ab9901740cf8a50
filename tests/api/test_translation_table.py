"""Every primitive that a sample calls, in each library that is installed, against tapegrad's."""

from __future__ import annotations

import functools
import importlib.util

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.exact_key import exact_key
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.errors import ArgumentError
from tapegrad.program.forward_backward import recording_call
from tapegrad.program.graph.graph import Call, Value
from tapegrad.program.host_call import host_call_p
from tapegrad.program.passes.pipeline import tidied
from tapegrad.testing.sample import Sample, normal
from tapegrad.testing.samples import all_samples, scipy_special
from tapegrad_bench.translation import LIBRARIES, Peer, computed, translated
from tapegrad_bench.translation_missing import MISSING
from tests.house.test_samples_complete import load_every_primitive
from tests.seeds import chosen

pytest.importorskip("scipy")

PACKAGES = {"numpy": ("numpy",), "jax": ("jax",), "torch": ("torch", "array_api_compat")}
INSTALLED = [n for n in LIBRARIES if all(map(importlib.util.find_spec, PACKAGES[n]))]

# The first prints, and the second calls Python code.
WITHOUT_VALUES = {"act", host_call_p.name}

# Only functions record loops as one call: see test_translation_of_loops.py.
IN_FUNCTIONS = {"conditional_loop_gradient"}

MORE = [Sample("dropout", lambda x: tf.nn.dropout(x, 0.5), [normal(3, 4)])]

SIGNS = {"schur", "schur_real"}
"""Decompositions that are unique up to the order and the phases of vectors."""


def samples():
    """Return the samples; of those that consist of thousands of elementary calls only some."""
    long = {sample.name for sample in scipy_special.SAMPLES}
    some = chosen(scipy_special.SAMPLES, one_in=8)
    return [*(s for s in all_samples() if s.name not in long), *some, *MORE]


def results_and_derivatives(sample, tensors):
    """Return the results of a sample, its gradients and its tangents."""
    sources = [x for x in tensors if x.dtype.is_differentiable]
    if not (sample.differentiable and sources):
        return as_list(sample.function(*tensors))
    with tf.autodiff.ForwardAccumulator(sources, sources) as accumulator:
        results = as_list(sample.function(*tensors))
    tangents = [accumulator.jvp(y) for y in results if y.dtype.is_differentiable]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        results = as_list(sample.function(*tensors))
    targets = [y for y in results if y.dtype.is_differentiable]
    return [*results, *tangents, *tape.gradient(targets, sources)]


def as_list(results):
    return [*results] if isinstance(results, list | tuple) else [results]


def recorded(sample):
    """Return the graph of a sample with its derivatives, and the arrays that it reads."""
    arrays = sample.make()
    with (
        tf.device("cpu"),
        recording_call([tf.constant(array) for array in arrays]) as (recording, inside),
    ):
        found = results_and_derivatives(sample, inside)
    outputs = [y.array for y in found if y is not None]
    graph = tidied(recording.graph(outputs, *recording.finish()))
    values = dict(zip([value.number for value in graph.inputs], arrays, strict=True))
    values.update({v.number: recording.variables[n].numpy() for n, v in graph.variables.items()})
    recording.let_go()
    return graph, values | graph.constants


@functools.cache
def recorded_calls():
    """Return calls of all samples that differ in shapes, dtypes or params, with their arrays."""
    calls = {}
    for sample in samples():
        graph, values = recorded(sample)
        for call in graph.calls:
            operands = [values[o.number] if isinstance(o, Value) else o for o in call.operands]
            results = call.primitive.kernel(call.array_type)(*operands, **call.params)
            results = results if isinstance(results, tuple | list) else (results,)
            values.update(zip([value.number for value in call.results], results, strict=True))
            shapes = [getattr(o, "shape", None) for o in operands]
            dtypes = [getattr(o, "dtype", type(o)) for o in operands]
            key = (call.primitive.name, repr([shapes, dtypes, exact_key(call.params)]))
            if key not in calls:
                copies = [np.array(o) if hasattr(o, "dtype") else o for o in operands]
                calls[key] = (sample.name, call, copies, [np.array(r) for r in results])
    return [*calls.values()]


def fault(call: Call, operands, expected, peer: Peer) -> str:
    """Return what is wrong with a call in another library, or ""."""
    try:
        kernel = peer.named(call.primitive.name)
        given = [peer.array(o) if hasattr(o, "dtype") else o for o in operands]
        params = {name: peer.param(value) for name, value in call.params.items()}
        found = [peer.host(y) for y in computed(call, kernel, given, params, peer)]
        if call.primitive.name in SIGNS:
            check_schur(operands[0], *found)
            return ""
        for one, other in zip(found, expected, strict=True):
            check_equal(one, other)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def check_equal(one, other):
    assert one.shape == other.shape
    assert one.dtype == other.dtype
    if one.dtype.kind not in "fc":
        np.testing.assert_array_equal(one, other)
        return
    tolerance = 1e-9 if np.finfo(one.dtype).eps < 1e-10 else 1e-5
    scale = max(1.0, np.max(np.abs(other), initial=0.0, where=np.isfinite(other)))
    np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * scale)


def check_schur(x, form, vectors):
    adjoint = np.conj(np.swapaxes(vectors, -1, -2))
    np.testing.assert_allclose(vectors @ form @ adjoint, x, atol=1e-9)
    np.testing.assert_allclose(vectors @ adjoint, np.eye(x.shape[-1]) + 0 * x, atol=1e-9)
    np.testing.assert_allclose(np.tril(form, -2), 0, atol=1e-9)


@pytest.mark.parametrize("library", INSTALLED)
def test_all_calls_agree_but_those_of_primitives_without_a_translation(library):
    peer, faults = Peer(library), {}
    with np.errstate(all="ignore"):
        for sample, call, operands, expected in recorded_calls():
            wrong = fault(call, operands, expected, peer)
            if wrong:
                faults.setdefault(call.primitive.name, f"{sample}: {call}: {wrong[:300]}")

    listed = MISSING[library] - WITHOUT_VALUES - IN_FUNCTIONS
    assert not {name: text for name, text in faults.items() if name not in listed}
    assert set(faults) == listed, "these have a translation and should not be listed"


def test_every_primitive_is_called():
    called = {call.primitive.name for _, call, _, _ in recorded_calls()}
    declared = {primitive.name for primitive in load_every_primitive()}

    assert not declared - called


def test_the_lists_name_primitives():
    for names in MISSING.values():
        assert names <= set(PRIMITIVES)
        assert names >= WITHOUT_VALUES


@pytest.mark.parametrize("library", INSTALLED)
def test_a_program_with_a_missing_primitive_is_refused_by_name(library):
    function = tf.function(lambda x: tf.random.stateless_poisson([2], [1, 2], x))
    x = tf.constant([1.0, 2.0])
    function(x)

    with pytest.raises(ArgumentError, match=f"^{library} has no translation of random_poisson"):
        translated(function.program(x).recorded, Peer(library))


@pytest.mark.parametrize("seed", [3, 2**63 + 12345])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("library", INSTALLED)
def test_random_numbers_are_the_same(library, dtype, seed):
    generator = tf.random.Generator.from_seed(seed)

    @tf.function
    def draw():
        shape = [3, 5]
        return (
            generator.uniform(shape, dtype=dtype),
            generator.normal(shape, dtype=dtype),
            generator.truncated_normal(shape, dtype=dtype),
            generator.uniform_full_int(shape, dtype="uint64"),
            generator.integers(shape, -5, 1 << 40),
        )

    draw()
    program, peer = draw.program(), Peer(library)
    state = generator.state.numpy()
    expected = [y.numpy() for y in draw()]

    found, (after,) = translated(program.recorded, peer)([], [peer.array(state)])

    rtol = 1e-3 if dtype == "float16" else 1e-5
    np.testing.assert_array_equal(peer.host(found[0]), expected[0])
    for one, other in zip(found[1:3], expected[1:3], strict=True):
        np.testing.assert_allclose(peer.host(one), other, rtol=rtol, atol=rtol)
    for one, other in zip(found[3:], expected[3:], strict=True):
        np.testing.assert_array_equal(peer.host(one), other)
    np.testing.assert_array_equal(peer.host(after), generator.state.numpy())
