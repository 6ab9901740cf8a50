"""Steps of a program as they are timed: one library in one mode, with another batch at each call.

TensorFloat-32 is allowed everywhere, as it is by default in JAX.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad_bench.adapters.library import in_turn
from tapegrad_bench.adapters.tensorflow_names import restart_optimizer, slots_of
from tapegrad_bench.evidence import Digest, Evidence, digest, distance
from tapegrad_bench.reference import dense
from tapegrad_zoo.limits import least_cost
from tapegrad_zoo.program import Arrays, Cost, Kind, Optimizer, Program, Values

SETS = 8
"""How many batches a program takes in turn."""

CHECKED_STEPS = 2
"""Steps whose results are compared. The second shows that the first has updated the parameters;
after more of them Adam has moved those with tiny gradients too differently for a comparison."""

MODES = {
    "cpu": {"tapegrad": ("eager", "function"), "jax": ("jit",), "torch": ("eager", "compile")},
    "cuda": {
        "tapegrad": ("eager", "function"),
        "jax": ("jit",),
        # "graph" is a whole step in one CUDA graph, the loss compiled and the batch copied in.
        "torch": ("eager", "compile", "graph"),
    },
}
"""The modes of a library, by device."""


def _unknown() -> None:
    return None


@dataclass(frozen=True)
class Timed:
    """A step, and what waits until its work is done."""

    step: Callable[[], Any]
    synchronize: Callable[[Any], None]
    loss: Callable[[Any], float | None]
    """Return the loss of a result as a number."""
    evidence: Callable[[], Evidence]
    """Begin again with the first batch and the first parameters, run some steps by this same step,
    and return digests of what they computed."""
    needed: Callable[[], Cost | None] = _unknown
    """Return the least that the step needs, once it has run."""


@dataclass(frozen=True)
class _Run:
    """What the evidence of a program in one library is taken from."""

    program: Program
    start: Values
    step: Callable[[], Any]
    restart: Callable[[Values], None]
    """Begin again with the first batch, these parameters, and an optimizer without updates."""
    to_host: Callable[[Any], np.ndarray]
    params: Callable[[], Arrays]
    """Return the parameters as they are now."""
    moments: Callable[[], Iterable[Any]]
    """Return Adam's running means of the gradients."""
    device: str

    def evidence(self) -> Evidence:
        """Run the first steps, and find how much of their results is rounding."""
        found = self._evidence(self.start)
        if not self.start:
            return found
        other = self._evidence(nudged(self.start, self.program.dtypes[self.device], self.device))
        return replace(
            found,
            output_noise=tuple(map(_distances, found.outputs, other.outputs)),
            movement_noise=tuple(map(distance, found.movements, other.movements)),
            moment_noise=tuple(map(distance, found.moments, other.moments)),
        )

    def _evidence(self, start: Values) -> Evidence:
        """Run the first steps; their results are read after the last one, which must spare them."""
        self.restart(start)
        results = [self.step() for _ in range(CHECKED_STEPS)]
        if self.program.kind is not Kind.TRAINING:
            return Evidence(tuple(self._digests(result) for result in results))
        now = {name: self.to_host(value) for name, value in self.params().items()}
        return Evidence(
            losses=tuple(float(self.to_host(_first(result))) for result in results),
            movements=tuple(_digest(now[name] - value) for name, value in start.items()),
            moments=tuple(_digest(self.to_host(moment)) for moment in self.moments()),
        )

    def _digests(self, result: Any) -> dict[str, Digest]:
        if self.program.kind is Kind.GRADIENT:
            loss, gradients = result
            named = {f"the gradient of {name}": gradients[name] for name in self.start}
            result = {"the loss": loss, **named}
        return {name: _digest(self.to_host(result[name])) for name in sorted(result)}


ROUNDING = {
    "cpu": {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-8},
    "cuda": {"float64": 2.0**-52, "float32": 2.0**-11, "bfloat16": 2.0**-8},  # TensorFloat-32
}
"""The relative size of an error that a product makes of its operands, by device and dtype; at least
the spacing of the parameters, which would not change otherwise."""


def nudged(values: Values, dtype: str, device: str) -> Values:
    """Return parameters with an error of the size of rounding in each element.

    >>> float(nudged({"w": np.float32([1.0])}, "bfloat16", "cpu")["w"][0]) in (1 + 2**-8, 1 - 2**-8)
    True
    """
    rng = np.random.default_rng(0)
    size = ROUNDING[device][dtype]
    return {
        name: (value * (1 + size * rng.choice([-1.0, 1.0], value.shape))).astype(value.dtype)
        for name, value in values.items()
    }


def _distances(found: Mapping[str, Digest], other: Mapping[str, Digest]) -> dict[str, float]:
    return {name: distance(value, other[name]) for name, value in found.items()}


def _digest(array: np.ndarray) -> Digest:
    """Return the digest of an array; a complex one is two real ones."""
    if array.dtype.kind == "c":
        return digest(np.stack([array.real, array.imag]))
    return digest(array.astype(np.float64))


BATCHES = ("device", "host")
"""Where the batches are when a step gets them: arrays of its library, or arrays of NumPy."""


def make(library: str, mode: str, program: Program, device: str, batches: str = "device") -> Timed:
    """Bring the data to a device, "cpu" or "cuda", and return the step.

    With batches on the "host" each step gets arrays of NumPy, in the way that its library
    recommends.
    """
    maker = {"tapegrad": _in_tapegrad, "jax": _in_jax, "torch": _in_torch}[library]
    return maker(mode, program, device, batches == "host")


def _cast(values: Values, dtype: str) -> Values:
    """Return the arrays in single precision unless the program needs double."""
    if dtype == "float64":
        return values
    kinds = {"f": np.float32, "c": np.complex64}
    return {name: v.astype(kinds.get(v.dtype.kind, v.dtype)) for name, v in values.items()}


def _drawn(program: Program, device: str) -> tuple[Values, list[Values], bool]:
    """Return parameters, batches, and whether products are in half precision."""
    params, batches = program.draw(device, SETS)
    dtype = program.dtypes[device]
    return _cast(params, dtype), [_cast(batch, dtype) for batch in batches], dtype == "bfloat16"


def _first(result: Any) -> Any:
    if isinstance(result, dict):
        return result.get("loss")
    return result[0] if isinstance(result, tuple) else result


def _in_tapegrad(mode: str, program: Program, device: str, is_host: bool) -> Timed:
    import tapegrad as tf

    values, drawn, is_half = _drawn(program, device)
    half = (lambda x: tf.cast(x, "bfloat16")) if is_half else (lambda x: x)
    with tf.device(device):
        variables = {name: tf.Variable(value) for name, value in values.items()}
        batches: list[Any] = drawn
        if not is_host:
            batches = [{k: tf.constant(v) for k, v in batch.items()} for batch in drawn]
        function = program.on_tapegrad(program.sizes[device], half)
    rule = program.optimizer
    optimizer = None if rule is None else _tapegrad_optimizer(rule)

    def step(batch: Arrays) -> Any:
        if program.kind is Kind.STEP:
            return function(variables, batch)
        with tf.GradientTape() as tape:
            loss = function(variables, batch)
        gradients = tape.gradient(loss, variables)
        if optimizer is None:
            return loss, gradients
        optimizer.apply_gradients([(gradients[name], v) for name, v in variables.items()])
        return loss

    def synchronize(result: Any) -> None:
        if device != "cpu":
            importlib.import_module("cupy").cuda.Device().synchronize()

    run: Any = tf.function(step) if mode == "function" else step
    converts = is_host and mode == "eager"  # a function takes arrays of NumPy itself

    def on_device(batch: Arrays) -> Any:
        with tf.device(device):
            return run({k: tf.constant(v) for k, v in batch.items()} if converts else batch)

    def needed() -> Cost | None:
        if mode != "function":
            return None
        with tf.device(device):
            try:
                return least_cost(run.program(batches[0]).graph)
            except ArgumentError:  # the step is not recorded: it runs eagerly
                return None

    each, rewind = in_turn(on_device, [(batch,) for batch in batches])

    def restart(start: Values) -> None:
        rewind()
        with tf.device(device):
            for name, variable in variables.items():
                variable.assign(start[name])
            if optimizer is not None:
                restart_optimizer(tf, optimizer)

    def moments() -> list[Any]:
        is_adam = rule is not None and rule.name == "adam"
        return slots_of(optimizer)[::2] if is_adam else []

    kept = _Run(program, values, each, restart, _from_tapegrad, lambda: variables, moments, device)
    return Timed(each, synchronize, _number, kept.evidence, needed)


def _from_tapegrad(value: Any) -> np.ndarray:
    return np.asarray(dense(value).numpy())


def _tapegrad_optimizer(rule: Optimizer) -> Any:
    from tapegrad import optimizers

    if rule.name == "adam":
        return optimizers.Adam(rule.rate, rule.beta_1, rule.beta_2, epsilon=rule.epsilon)
    return optimizers.SGD(rule.rate, rule.momentum if rule.name == "momentum" else 0.0)


def _number(result: Any) -> float | None:
    value = _first(result)
    return None if value is None else float(value)


def _in_jax(mode: str, program: Program, device: str, is_host: bool) -> Timed:
    import jax
    import jax.numpy as jnp

    if program.dtypes[device] == "float64":
        jax.config.update("jax_enable_x64", True)
    values, drawn, is_half = _drawn(program, device)
    half = (lambda x: x.astype(jnp.bfloat16)) if is_half else (lambda x: x)
    function = program.on_jax(program.sizes[device], half)
    place = jax.devices("cpu" if device == "cpu" else "gpu")[0]
    batches: list[Any] = drawn  # jit takes arrays of NumPy itself
    if not is_host:
        batches = [{k: jax.device_put(v, place) for k, v in batch.items()} for batch in drawn]
    rule = program.optimizer
    number = 0 if rule is None else {"sgd": 0, "momentum": 1, "adam": 2}[rule.name]

    def first_state(start: Values) -> list[Any]:
        params = {name: jax.device_put(np.array(value), place) for name, value in start.items()}
        slots = {name: [jnp.zeros_like(p) for _ in range(number)] for name, p in params.items()}
        return [params, slots, jnp.zeros((), "float32", device=place)]

    def train(params: Arrays, slots: Any, count: Any, batch: Arrays) -> Any:
        assert rule is not None
        loss, gradients = jax.value_and_grad(function)(params, batch)
        new = {
            name: _updated(jnp, rule, p, gradients[name].conj(), slots[name], count + 1)
            for name, p in params.items()
        }
        return loss, {k: v[0] for k, v in new.items()}, {k: v[1] for k, v in new.items()}, count + 1

    state = first_state(values)
    step = jax.jit(train, donate_argnums=(0, 1, 2))
    whole = jax.jit(function if program.kind is Kind.STEP else _differentiated(function))

    def on_batch(batch: Arrays) -> Any:
        loss, *state[:] = step(*state, batch)
        return loss

    run = on_batch if rule is not None else lambda batch: whole(state[0], batch)
    each, rewind = in_turn(run, [(batch,) for batch in batches])

    def restart(start: Values) -> None:
        rewind()
        state[:] = first_state(start)

    def moments() -> list[Any]:
        # In the order of the parameters: jit sorts the names of a dictionary.
        return [state[1][name][0] for name in values] if number == 2 else []

    kept = _Run(program, values, each, restart, np.asarray, lambda: state[0], moments, device)
    return Timed(each, jax.block_until_ready, _number, kept.evidence)


def _differentiated(function: Callable[[Arrays, Arrays], Any]) -> Callable[..., Any]:
    """Return loss and gradients; those that JAX gives are the conjugates of other libraries'."""
    import jax

    def whole(params: Arrays, batch: Arrays) -> Any:
        loss, gradients = jax.value_and_grad(function)(params, batch)
        return loss, {name: gradient.conj() for name, gradient in gradients.items()}

    return whole


def _updated(xp: Any, rule: Optimizer, p: Any, g: Any, slots: Any, count: Any) -> Any:
    """Return the new parameter and slots."""
    if rule.name == "sgd":
        return p - rule.rate * g, []
    if rule.name == "momentum":
        velocity = rule.momentum * slots[0] - rule.rate * g
        return p + velocity, [velocity]
    m = rule.beta_1 * slots[0] + (1 - rule.beta_1) * g
    v = rule.beta_2 * slots[1] + (1 - rule.beta_2) * g * g.conj()
    rate = rule.rate * xp.sqrt(1 - rule.beta_2**count) / (1 - rule.beta_1**count)
    return (p - rate * m / (xp.sqrt(v) + rule.epsilon)).astype(p.dtype), [m, v]


def _in_torch(mode: str, program: Program, device: str, is_host: bool) -> Timed:
    import torch

    graphs = importlib.import_module("tapegrad_bench.adapters.torch_graph")
    if device == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    values, drawn, is_half = _drawn(program, device)
    half = (lambda x: x.to(torch.bfloat16)) if is_half else (lambda x: x)
    params = {k: torch.nn.Parameter(torch.tensor(v, device=device)) for k, v in values.items()}
    home = "cpu" if is_host else device
    batches = [{k: torch.tensor(v, device=home) for k, v in batch.items()} for batch in drawn]
    if is_host and device != "cpu":  # as a DataLoader with pin_memory=True gives them
        batches = [{k: v.pin_memory() for k, v in batch.items()} for batch in batches]
    function: Any = program.on_torch(program.sizes[device], half)
    if mode != "eager":
        function = torch.compile(function, dynamic=False)
    optimizer = None
    if program.optimizer is not None:
        optimizer = _torch_optimizer(program.optimizer, params, is_captured=mode == "graph")

    def step(batch: Arrays) -> Any:
        if program.kind is Kind.STEP:
            return function(params, batch)
        loss = function(params, batch)
        if optimizer is None:
            gradients = torch.autograd.grad(loss, [*params.values()])
            return loss.detach(), dict(zip(params, gradients))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def synchronize(result: Any) -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    def reset(start: Values = values) -> None:
        with torch.no_grad():
            for name, value in params.items():
                value.copy_(torch.from_numpy(np.asarray(start[name])))
        if optimizer is not None:
            graphs.forget_updates(optimizer)

    def on_device(batch: Arrays) -> Arrays:
        return {k: v.to(device, non_blocking=True) for k, v in batch.items()}

    run: Callable[[Arrays], Any] = (lambda batch: step(on_device(batch))) if is_host else step
    if mode == "graph":  # it copies batches from the host into its inputs, without another copy
        run = _captured_at_first_call(graphs.Captured, step, reset, on_device)
    each, rewind = in_turn(run, [(batch,) for batch in batches])

    def restart(start: Values) -> None:
        rewind()
        reset(start)

    def moments() -> list[Any]:
        states = [] if optimizer is None else [optimizer.state[p] for p in params.values()]
        return [state["exp_avg"] for state in states if "exp_avg" in state]

    kept = _Run(program, values, each, restart, _from_torch, lambda: params, moments, device)
    return Timed(each, synchronize, _number, kept.evidence)


def _captured_at_first_call(
    capture: Callable[..., Any],
    step: Callable[[Arrays], Any],
    reset: Callable[[], None],
    on_device: Callable[[Arrays], Arrays],
) -> Callable[[Arrays], Any]:
    """Return a step that becomes a CUDA graph in its first call, which is timed by itself."""
    captured: list[Callable[[Arrays], Any]] = []

    def replay(batch: Arrays) -> Any:
        if not captured:
            captured.append(capture(step, on_device(batch)))
            reset()  # the steps before the capture were updates
        return captured[0](batch)

    return replay


def _from_torch(value: Any) -> np.ndarray:
    value = value.detach().resolve_conj().cpu()
    return np.asarray(value.float() if str(value.dtype) == "torch.bfloat16" else value)


def _torch_optimizer(rule: Optimizer, params: Arrays, *, is_captured: bool = False) -> Any:
    import torch

    values = [*params.values()]
    fused = not any([value.is_complex() for value in values])
    if rule.name == "adam":
        betas = rule.beta_1, rule.beta_2
        # torch adds epsilon after the correction of the running means, the others before it. With
        # this one the first updates are the same, also of parameters with tiny gradients.
        epsilon = rule.epsilon / (1.0 - rule.beta_2) ** 0.5
        return torch.optim.Adam(
            values, rule.rate, betas, epsilon, fused=fused, capturable=is_captured
        )
    momentum = rule.momentum if rule.name == "momentum" else 0.0
    return torch.optim.SGD(values, rule.rate, momentum, fused=fused)
