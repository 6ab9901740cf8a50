"""Functions that call NumPy on arrays and tapegrad on traced values."""

from __future__ import annotations

import functools
import importlib
from collections import deque
from collections.abc import Mapping
from itertools import chain
from types import GeneratorType, ModuleType
from typing import Any

from tapegrad.compat.autograd.primitives import call_primitive, primitive_jvps, primitive_vjps
from tapegrad.compat.autograd.tracing import make_jvp, make_vjp
from tapegrad.compat.autograd.util import subvals
from tapegrad.compat.autograd.values import (
    Function,
    MissingDerivativeError,
    holds_arrays,
    holds_tensors,
    map_leaves,
    on_host,
    plain,
    plain_structure,
    raw,
    uses_tensors,
)
from tapegrad.core.values.tensor import Tensor

# NumPy functions that query their arguments and have no derivative.
ABOUT = {
    "base_repr",
    "binary_repr",
    "bitwise_count",
    "format_float_positional",
    "format_float_scientific",
    "isfortran",
    "may_share_memory",
    "mintypecode",
    "packbits",
    "savez_compressed",
    "shares_memory",
    "typename",
    "unpackbits",
}


# These move a NumPy array to the device.
_PLACING = {"array", "asanyarray", "asarray"}

# Programs use these to compute lengths and indices (`np.prod(shape)`): for Python numbers alone,
# they return host numbers.
_COUNTING = {"amax", "amin", "cumprod", "cumsum", "max", "maximum", "min", "minimum", "prod", "sum"}

# HIPS autograd joins the results of these.
_ITERATORS: tuple[Any, ...] = (
    GeneratorType,
    chain,
    deque,
    filter,
    map,
    reversed,
    type({}.items()),
    type({}.keys()),
    type({}.values()),
    zip,
)


def dispatched(name: str, host: Function, on_tensors: Function | None) -> Function:
    """Return the function that calls `host` on plain values and `on_tensors` on tensors.

    Arrays made on a device other than the CPU are tensors. Results of NumPy arrays alone stay on
    the host. A user's `defvjp` on the returned function replaces tapegrad's derivative.

    >>> double = dispatched("double", lambda x: 2 * x, lambda x: x + x)
    >>> double(3.0)
    6.0
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], _ITERATORS):
            args = (list(args[0]), *args[1:])
        if not (holds_tensors(args) or (kwargs and holds_tensors(kwargs.values()))):
            if on_tensors is None or not uses_tensors() or _stays(name, args, kwargs):
                return host(*args, **kwargs)
            return _untraced(on_tensors(*args, **kwargs))
        if call in primitive_vjps or call in primitive_jvps:
            complete_rules(call, on_tensors)
            return call_primitive(call, plainly, args, kwargs)
        if on_tensors is None:
            _refuse_without_rule(name)
            return host(*map_leaves(raw, args), **kwargs)
        return _untraced(on_tensors(*args, **kwargs))

    def plainly(*args: Any, **kwargs: Any) -> Any:
        if on_tensors is None or not holds_tensors((*args, *kwargs.values())):
            return host(*args, **kwargs)
        return _untraced(on_tensors(*args, **kwargs))

    functools.update_wrapper(call, host, ("__name__", "__doc__"), ())
    return call


def _stays(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call without tensors runs on the host although arrays are elsewhere."""
    if name in _COUNTING:
        return True
    return name not in _PLACING and (holds_arrays(args) or holds_arrays(kwargs.values()))


def complete_rules(key: Function, on_tensors: Function | None) -> None:
    """If the user defined a derivative for one mode, keep tapegrad's for the other."""
    if on_tensors is None:
        return

    def of_some(argnums: Any, args: Any, kwargs: Any) -> tuple[Function, Any]:
        """Return the function of the arguments `argnums`, the others fixed, and their values."""

        def function(values: Any) -> Any:
            return on_tensors(*subvals(args, zip(argnums, values, strict=True)), **kwargs)

        return function, tuple(args[argnum] for argnum in argnums)

    def vjps(argnums: Any, ans: Any, args: Any, kwargs: Any) -> Function:
        pull: Function = make_vjp(*of_some(argnums, args, kwargs))[0]
        return pull

    def jvps(argnums: Any, gs: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        return make_jvp(*of_some(argnums, args, kwargs))(tuple(gs))[1]

    primitive_vjps.setdefault(key, vjps)
    primitive_jvps.setdefault(key, jvps)


def _untraced(result: Any) -> Any:
    if type(result) is Tensor:
        return plain(result)
    return plain_structure(result) if isinstance(result, list | tuple) else result


def _refuse_without_rule(name: str) -> None:
    if name not in ABOUT:
        raise MissingDerivativeError(
            f"{name} has no derivative here. Define it as a `primitive` with `defvjp`, or call it "
            "on getval(x) if its result should be a constant."
        )


class Maker:
    """NumPy's objects that make arrays by indexing: `r_`, `c_`."""

    def __init__(self, host: Any, on_tensors: Any) -> None:
        self._host = host
        self._on_tensors = on_tensors

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if holds_tensors(parts) or uses_tensors():
            return plain(self._on_tensors[key])
        return self._host[key]


class Namespace:
    """The names of a NumPy module: functions dispatch, all other values are NumPy's."""

    def __init__(
        self,
        host: ModuleType,
        on_tensors: ModuleType,
        own: Mapping[str, Function] | None = None,
        on_host: Mapping[str, Function] | None = None,
    ) -> None:
        self._host = host
        self._on_tensors = on_tensors
        self._own = own or {}
        self._on_host = on_host or {}

    def find(self, name: str) -> Any:
        """Return the value of `name`, or raise AttributeError."""
        if name.startswith("__"):
            raise AttributeError(name)
        on_tensors = self._own.get(name) or getattr(self._on_tensors, name, None)
        if name in self._on_host:
            host = self._on_host[name]
        elif hasattr(self._host, name):
            host = getattr(self._host, name)
        elif on_tensors is not None:
            host = on_tensors
        else:
            raise AttributeError(
                f"Neither {self._host.__name__} nor {self._on_tensors.__name__} has {name!r}."
            )
        if name in ("r_", "c_"):
            return Maker(host, on_tensors)
        if isinstance(host, type | ModuleType) or not callable(host):
            return host
        return dispatched(name, host, on_tensors if callable(on_tensors) else None)

    def names(self) -> list[str]:
        """Return all public names."""
        listed = getattr(self._host, "__all__", dir(self._host))
        return sorted({*listed, *self._own} - {name for name in listed if name.startswith("_")})


class Borrowed:
    """The names of a SciPy module: tapegrad's functions, and SciPy's for the others.

    SciPy is imported only for the latter, which have no derivative.
    """

    def __init__(self, on_tensors: Any, host_name: str) -> None:
        self._on_tensors = on_tensors
        self._host_name = host_name
        self._found: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return self.find(name)

    def find(self, name: str) -> Any:
        """Return the value of `name`, always the same object, or raise AttributeError."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._found:
            self._found[name] = self._made(name)
        return self._found[name]

    def _made(self, name: str) -> Any:
        known = getattr(self._on_tensors, name, None)
        if known is not None:
            return plain_results(known) if callable(known) else known
        found = getattr(self._host(name), name)
        if isinstance(found, type) or not callable(found):
            return found
        return dispatched(name, found, None)

    def _host(self, name: str) -> Any:
        module, _, attribute = self._host_name.partition(":")
        try:
            found = importlib.import_module(module)
        except ImportError as error:
            raise AttributeError(
                f"{self._host_name}.{name} needs SciPy, which is not installed."
            ) from error
        return getattr(found, attribute) if attribute else found


def plain_results(function: Function) -> Function:
    """Return the function with results converted to plain values unless they are traced."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if (call in primitive_vjps or call in primitive_jvps) and holds_tensors(args):
            complete_rules(call, function)
            return call_primitive(call, plainly, args, kwargs)
        return plainly(*args, **kwargs)

    def plainly(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        result = _untraced(function(*args, **kwargs))
        stays = uses_tensors() and holds_arrays(given) and not holds_tensors(given)
        return map_leaves(on_host, result) if stays else result

    call.__name__ = getattr(function, "__name__", "call")
    call.__doc__ = getattr(function, "__doc__", None)
    return call
