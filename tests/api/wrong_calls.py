"""Find calls with a wrong argument that end in anything but a result or an error of tapegrad.

Valid calls are read from the examples in the docstrings of public functions and classes. One
argument at a time is replaced by a wrong value. Each call runs under a time limit, in a process
with limited memory:

    python -m tests.api.wrong_calls tapegrad.numpy tapegrad.nn

prints how many calls ended in which way, and one line per call that ended badly.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import doctest
import enum
import faulthandler
import importlib
import inspect
import io
import json
import resource
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad.errors import TapegradError

FACES = tuple(
    """
    tapegrad tapegrad.math tapegrad.nn tapegrad.linalg tapegrad.random tapegrad.signal
    tapegrad.image tapegrad.bitwise tapegrad.special tapegrad.losses tapegrad.nest
    tapegrad.quantization tapegrad.linear_operators.experimental
    tapegrad.optimizers tapegrad.data tapegrad.debugging tapegrad.experimental tapegrad.train
    tapegrad.numpy tapegrad.numpy.linalg tapegrad.numpy.fft tapegrad.numpy.random
    tapegrad.numpy.special tapegrad.numpy.emath tapegrad.numpy.polynomial
    tapegrad.numpy.polynomial.polynomial tapegrad.numpy.polynomial.chebyshev
    tapegrad.numpy.polynomial.legendre tapegrad.numpy.polynomial.hermite tapegrad.scipy.integrate
    tapegrad.scipy.interpolate tapegrad.scipy.linalg tapegrad.scipy.ndimage
    tapegrad.scipy.optimize tapegrad.scipy.signal tapegrad.scipy.sparse
    tapegrad.scipy.sparse.linalg tapegrad.scipy.special tapegrad.scipy.stats tapegrad.keras.ops
    tapegrad.keras.ops.image tapegrad.keras.layers tapegrad.keras.losses tapegrad.keras.metrics
    tapegrad.keras.activations tapegrad.keras.initializers tapegrad.keras.regularizers
    tapegrad.keras.constraints tapegrad.keras.optimizers tapegrad.keras.optimizers.schedules
    tapegrad.keras.random tapegrad.keras.utils tapegrad.sparse tapegrad.ragged tapegrad.strings
    tapegrad.lookup tapegrad.lookup.experimental tapegrad.io tapegrad.audio tapegrad.saved_model
    tapegrad.numpy.polynomial.hermite_e tapegrad.numpy.polynomial.laguerre
    tapegrad.numpy.polynomial.polyutils tapegrad.keras tapegrad.keras.backend
    tapegrad.keras.preprocessing.image tapegrad.keras.preprocessing.sequence
    tapegrad.keras.preprocessing.text tapegrad.keras.tree tapegrad.keras.callbacks
    tapegrad.keras.models tapegrad.keras.saving tapegrad.keras.mixed_precision
    tapegrad.data.experimental tapegrad.distribute tapegrad.config tapegrad.config.experimental
    tapegrad.config.threading tapegrad.config.optimizer tapegrad.debug
    tapegrad.experimental.dlpack tapegrad.compat tapegrad.compat.autograd tapegrad.summary
    """.split()  # noqa: SIM905 -- a list literal would fill a page
)

# Functions that read or write files, wait, or change the state of the process; and classes of
# NumPy and Python that a module exports.
NOT_CALLED = frozenset(
    {
        *("load", "loadtxt", "save", "savetxt", "savez", "savez_compressed", "fromfile", "print"),
        *("genfromtxt", "get_file", "set_printoptions", "seterr", "seterrcall", "setbufsize"),
        *("set_seed", "Checkpoint", "CheckpointManager", "plot_model", "set_random_seed"),
        *("enable_interactive_logging", "disable_interactive_logging", "function", "device"),
        *("disable_traceback_filtering", "enable_traceback_filtering", "TensorShape"),
        *("disable_check_numerics", "enable_check_numerics"),
        *("isinstance", "type"),  # Python's own, in the place of autograd's
    }
)

# Arguments for which a call takes longer than the limit, and ends.
SLOW = {
    "2**70": ("betaincinv", "betainccinv", "fdtri", "fdtrc", "fdtridfd", "btdtri"),
}

LIMIT_S = 2.0
MEMORY = 6 * 2**30


def wrong_values() -> dict[str, Callable[[], Any]]:
    """Values that are wrong for most arguments, made anew for each call."""
    return {
        "None": lambda: None,
        "text": lambda: "bogus",
        "digits": lambda: "32",
        "1.5": lambda: 1.5,
        "2.9": lambda: 2.9,
        "-1": lambda: -1,
        "2**70": lambda: 2**70,
        "nan": lambda: float("nan"),
        "[]": list,
        "[2.9]": lambda: [2.9],
        "['a']": lambda: ["a"],
        "object()": object,
        "{}": lambda: {"a": 1},
        "tensor": lambda: tf.constant([[0.5, 1.5], [2.5, 3.5]]),
        "array": lambda: np.array([0.5, 1.5, 2.5]),
        "0-d": lambda: tf.constant(1.5),
        "empty": lambda: tf.zeros([0]),
        "empty2": lambda: tf.zeros([0, 3]),
        "integers": lambda: tf.constant([3, 1, 2]),
        "bools": lambda: tf.constant([True, False, True]),
        "complex": lambda: tf.constant([1.0 + 2.0j, 0.5j]),
        "rank5": lambda: tf.ones([1, 2, 1, 3, 1]),
        "strings": lambda: np.array(["a", "b"]),
        "objects": lambda: np.array([None, 1], dtype=object),
        "bad dtype": lambda: "float17",
        "function": lambda: len,
    }


CUT = {"1.5", "2.9", "[2.9]", "digits", "nan"}
"""Values that no whole number can be read from."""


@dataclass
class Call:
    """A valid call: `function` of `owner` with these arguments."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class Outcome:
    """What became of one call."""

    call: str
    argument: str
    value: str
    result: str
    error: str = ""


def public_names(face: str) -> Iterator[tuple[str, Any]]:
    """The public functions and classes of a module."""
    module = importlib.import_module(face)
    names = getattr(module, "__all__", None) or dir(module)
    for name in names:
        value = getattr(module, name, None)
        if name.startswith("_") or name in NOT_CALLED or isinstance(value, ModuleType):
            continue
        if isinstance(value, type) and issubclass(value, BaseException | enum.Enum):
            continue
        if not str(getattr(value, "__module__", "tapegrad")).startswith("tapegrad"):
            continue
        if callable(value):
            yield f"{face}.{name}", value


def valid_calls(name: str, target: Any) -> list[Call]:
    """Calls of a function, or of a class, its instances and their methods, that return."""
    found = [call for call in _in_examples(name, target) if _returns(call)]
    if not found:
        found = [call for call in _guesses(name, target) if _returns(call)][:1]
    by_name: dict[str, Call] = {}
    for call in found:  # the one with the most arguments of each
        old = by_name.get(call.name)
        if old is None or _size(call) > _size(old):
            by_name[call.name] = call
    return list(by_name.values())


def _size(call: Call) -> int:
    return len(call.args) + len(call.kwargs)


def _in_examples(name: str, target: Any) -> Iterator[Call]:
    text = inspect.getdoc(target) or ""
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return
    place = sys.modules.get(getattr(target, "__module__", "") or "")
    names: dict[str, Any] = dict(vars(place)) if place else {}
    names.setdefault("__builtins__", __builtins__)
    names.setdefault(name.rpartition(".")[2], target)
    for example in examples:
        if example.exc_msg:
            continue
        try:
            tree = ast.parse(example.source)
            yield from _in_statement(name, target, tree, names)
            exec(compile(tree, "<example>", "exec"), names)
        except Exception:
            return


def _in_statement(name: str, target: Any, tree: ast.AST, names: dict[str, Any]) -> Iterator[Call]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        try:
            function = _value(node.func, names)
            label = _label(name, target, function)
            if label is None or any(isinstance(arg, ast.Starred) for arg in node.args):
                continue
            args = tuple([_value(arg, names) for arg in node.args])
            kwargs = {str(k.arg): _value(k.value, names) for k in node.keywords if k.arg}
        except Exception:
            continue
        yield Call(label, function, args, kwargs)


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(node), "<example>", "eval"), names)


def _label(name: str, target: Any, function: Any) -> str | None:
    """The name of a call in an example of the target, or None if it calls something else."""
    if function is target:
        return name
    if isinstance(target, type):
        if isinstance(function, target):
            return f"{name}()"
        if isinstance(getattr(function, "__self__", None), target):
            return f"{name}.{function.__name__}"
    return None


def _guesses(name: str, target: Any) -> Iterator[Call]:
    x, m = tf.constant([[0.4, 0.3], [0.2, 0.5]]), tf.constant([[2.0, 0.5], [0.5, 3.0]])
    v, i = tf.constant([0.1, 0.4, 0.7]), tf.constant([1, 0, 1])
    b = tf.constant([True, False, True])
    for args in ((x,), (x, m), (v,), (v, v), (i,), (i, i), (b,), (b, b), (m, v[:2]), (), (x, 0)):
        yield Call(name, target, args, {})
    for args in ((v, v, v), (v, v, v, v), ([x, m],), ((2, 2),), (3,), (x, (4,)), (2, v), (v, 2, v)):
        yield Call(name, target, args, {})


class OutOfTimeError(BaseException):
    """A call took longer than the limit."""


def _on_alarm(*_: Any) -> None:
    raise OutOfTimeError


def _run(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    signal.signal(signal.SIGALRM, _on_alarm)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            with np.errstate(all="ignore"):
                return function(*args, **kwargs)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _returns(call: Call) -> bool:
    try:
        _run(_fresh(call), _copied(call.args), _copied(call.kwargs))
    except (Exception, OutOfTimeError):
        return False
    return True


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _fresh(call: Call) -> Callable[..., Any]:
    """The function of a call; a copy of an object that the call may change."""
    owner = getattr(call.function, "__self__", None)
    if inspect.isroutine(call.function) and not isinstance(owner, ModuleType) and owner is not None:
        copied = _copied(owner)
        return getattr(copied, call.function.__name__)  # type: ignore[no-any-return]
    is_plain = inspect.isroutine(call.function) or isinstance(call.function, type)
    return call.function if is_plain else _copied(call.function)  # type: ignore[no-any-return]


def wrong_calls(call: Call) -> Iterator[tuple[str, str, tuple[Any, ...], dict[str, Any]]]:
    """The arguments of the call with one of them replaced: (argument, value, args, kwargs)."""
    values = wrong_values()
    for position in range(len(call.args)):
        for label, make in values.items():
            args = [_copied(arg) for arg in call.args]
            args[position] = make()
            yield _parameter(call, position), label, tuple(args), _copied(call.kwargs)
    try:
        parameters = list(inspect.signature(call.function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    given = {p.name for p in parameters[: len(call.args)]}
    more = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for name in dict.fromkeys([*call.kwargs, *[name for name in more if name not in given]]):
        if name == "name":
            continue
        for label, make in values.items():
            yield name, label, _copied(call.args), {**_copied(call.kwargs), name: make()}


def _parameter(call: Call, position: int) -> str:
    try:
        names = list(inspect.signature(call.function).parameters)
        return names[position] if position < len(names) else f"argument {position}"
    except (TypeError, ValueError):
        return f"argument {position}"


def outcome(call: Call, argument: str, label: str, args: Any, kwargs: Any) -> Outcome:
    """Run a call and say how it ended."""
    try:
        _run(_fresh(call), args, kwargs)
        return Outcome(call.name, argument, label, "returned")
    except OutOfTimeError:
        return Outcome(call.name, argument, label, "hang", _place(sys.exc_info()[2]))
    except Exception as error:
        kind = _class_of(error)
        text = f"{type(error).__name__}: {str(error)[:160]}"
        where = "" if kind == "good" else f" [{_place(error.__traceback__)}]"
        return Outcome(call.name, argument, label, kind, text + where)


def _class_of(error: Exception) -> str:
    if traceback.extract_tb(error.__traceback__)[-1].filename == "<example>":
        return "good"  # an error of the caller's own code, such as a function that is passed in
    if isinstance(error, TapegradError | MemoryError | np.linalg.LinAlgError):
        return "good"
    if isinstance(error, NotImplementedError) or type(error).__name__ == "RecordingError":
        return "good"
    if type(error) in (TypeError, ValueError, OverflowError, ZeroDivisionError):
        is_signature = "argument" in str(error) and "()" in str(error) and _depth(error) <= 2
        return "good" if is_signature else "raw"
    return "internal"


def _depth(error: Exception) -> int:
    frames = traceback.extract_tb(error.__traceback__)
    return len([frame for frame in frames if "wrong_calls" not in frame.filename])


def _place(tb: Any) -> str:
    frames = [f for f in traceback.extract_tb(tb) if "tapegrad" in f.filename]
    frames = [f for f in frames if "wrong_calls" not in f.filename]
    if not frames:
        return "?"
    last = frames[-1]
    return f"{'/'.join(last.filename.split('/')[-3:])}:{last.lineno} {last.name}"


def examine(name: str, target: Any) -> list[Outcome]:
    """All wrong calls of a public function or class."""
    short = name.rpartition(".")[2]
    return [
        outcome(call, argument, label, args, kwargs)
        for call in valid_calls(name, target)
        for argument, label, args, kwargs in wrong_calls(call)
        if short not in SLOW.get(label, ())
    ]


def all_names() -> list[str]:
    """The public functions and classes, each under its first name."""
    found: dict[int, str] = {}
    for face in FACES:
        for name, target in public_names(face):
            found.setdefault(id(target), name)
    return list(found.values())


def main(names: list[str]) -> None:
    """Examine these faces and functions; write one line of JSON for each call that ends badly."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable()
    counts: Counter[str] = Counter()
    without: list[str] = []
    targets = [(name, _target(name)) for name in names if name not in FACES]
    targets += [pair for face in names if face in FACES for pair in public_names(face)]
    for name, target in targets:
        _say(f"# {name}")
        found = examine(name, target)
        if not found:
            without.append(name)
        counts.update(one.result for one in found)
        for one in found:
            if one.result != "good":
                _say(json.dumps(vars(one)))
    _say(json.dumps({"counts": counts, "without a valid call": without}))


def _target(name: str) -> Any:
    face, _, short = name.rpartition(".")
    return getattr(importlib.import_module(face), short)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:] or [*FACES])
