"""Declaration of derivatives (`defvjp`, `defjvp`), and the other names of autograd's core.

defvjp(f, lambda ans, x, y: lambda g: ..., lambda ans, x, y: lambda g: ...)
defjvp(f, lambda g, ans, x, y: ..., "same")
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from tapegrad.compat.autograd.primitives import (
    ByArgument,
    name_of,
    primitive,
    primitive_jvps,
    primitive_vjps,
)
from tapegrad.compat.autograd.tracer import Box, Node, getval, isbox, trace
from tapegrad.compat.autograd.tracing import Recording, make_jvp, make_vjp, pushed
from tapegrad.compat.autograd.util import func, subval, subvals, toposort
from tapegrad.compat.autograd.values import Function, MissingDerivativeError
from tapegrad.compat.autograd.vspaces import SparseObject, VSpace, vspace
from tapegrad.errors import ArgumentTypeError

__all__ = [
    "Box", "JVPNode", "Node", "SparseObject", "VJPNode", "VSpace", "add_outgrads", "backward_pass",
    "def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum",
    "defvjp_argnums", "func", "getval", "isbox", "make_jvp", "make_vjp", "primitive",
    "primitive_jvps", "primitive_vjps", "primitive_with_deprecation_warnings", "sparse_add",
    "subval", "subvals", "sum_outgrads", "toposort", "trace", "vspace",
]  # fmt: skip

primitive_with_deprecation_warnings = primitive

# Reverse mode


def defvjp_argnums(fun: Any, vjpmaker: Function) -> None:
    """Set the rule `vjpmaker(argnums, ans, args, kwargs)`: maps g to one cotangent per argnum.

    >>> from tapegrad.compat.autograd import grad
    >>> times = primitive(lambda x, y: x * y)
    >>> def maker(argnums, ans, args, kwargs):
    ...     return lambda g: tuple(g * args[1 - n] for n in argnums)
    >>> defvjp_argnums(times, maker)
    >>> [float(d) for d in grad(times, (0, 1))(2.0, 3.0)]
    [3.0, 2.0]
    """
    primitive_vjps[fun] = vjpmaker


def defvjp_argnum(fun: Any, vjpmaker: Function) -> None:
    """Set the rule `vjpmaker(argnum, ans, args, kwargs)`, called once per argument.

    >>> from tapegrad.compat.autograd import grad
    >>> total = primitive(lambda *xs: sum(xs))
    >>> defvjp_argnum(total, lambda argnum, ans, args, kwargs: lambda g: g)
    >>> float(grad(total, 2)(1.0, 2.0, 3.0))
    1.0
    """

    def by_argnums(argnums: Iterable[int], *rest: Any) -> Function:
        vjps = [vjpmaker(argnum, *rest) for argnum in argnums]
        return lambda g: [vjp(g) for vjp in vjps]

    defvjp_argnums(fun, by_argnums)


def defvjp(fun: Any, *vjpmakers: Function | None, argnums: Iterable[int] | None = None) -> None:
    """Set one maker `(ans, *args, **kwargs)` of rules per argument; None means zero.

    `argnums` gives the arguments that they belong to, by default the first ones.

    >>> from tapegrad.compat.autograd import grad
    >>> scaled = primitive(lambda name, x: 2.0 * x)
    >>> defvjp(scaled, lambda ans, name, x: lambda g: 2.0 * g, argnums=[1])
    >>> float(grad(scaled, 1)("by two", 3.0))
    2.0
    """
    for maker in vjpmakers:
        if maker is not None and not callable(maker):
            raise ArgumentTypeError(
                f"A VJP of {name_of(fun)} must be a function or None. Got {maker!r}."
            )
    numbers = count() if argnums is None else argnums
    defvjp_argnums(fun, ByArgument(fun, dict(zip(numbers, vjpmakers))))


class VJPNode(Node):
    """The node of a reverse-mode trace, which holds the recording of the whole function."""

    recording: Recording

    def follow(self, fun: Function, x: Any) -> tuple[Any, Any]:
        self.recording = Recording(fun, x, persistent=True)
        found = self if self.recording.is_connected(self.recording.output) else None
        return self.recording.value, found


def backward_pass(g: Any, end_node: VJPNode) -> Any:
    """Return the cotangent of a traced function's argument.

    >>> value, node = trace(VJPNode.new_root(), lambda x: x * x, 3.0)
    >>> float(backward_pass(1.0, node))
    6.0
    """
    return end_node.recording.vjp(g)


# Forward mode


def defjvp_argnums(fun: Any, jvpmaker: Function) -> None:
    """Set the rule `jvpmaker(argnums, gs, ans, args, kwargs)`: the tangent of the result.

    >>> from tapegrad.compat.autograd import make_jvp
    >>> double = primitive(lambda x: 2.0 * x)
    >>> defjvp_argnums(double, lambda argnums, gs, ans, args, kwargs: 2.0 * gs[0])
    >>> float(make_jvp(double)(3.0)(1.0)[1])
    2.0
    """
    primitive_jvps[fun] = jvpmaker


def defjvp_argnum(fun: Any, jvpmaker: Function) -> None:
    """Set the rule `jvpmaker(argnum, g, ans, args, kwargs)`; contributions are added.

    >>> from tapegrad.compat.autograd import make_jvp
    >>> triple = primitive(lambda x: 3.0 * x)
    >>> defjvp_argnum(triple, lambda argnum, g, ans, args, kwargs: 3.0 * g)
    >>> float(make_jvp(triple)(3.0)(1.0)[1])
    3.0
    """

    def by_argnums(argnums: Any, gs: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        pairs = zip(argnums, gs, strict=True)
        return sum_outgrads(jvpmaker(argnum, g, ans, args, kwargs) for argnum, g in pairs)

    defjvp_argnums(fun, by_argnums)


def defjvp(fun: Any, *jvpfuns: Function | str | None, argnums: Iterable[int] | None = None) -> None:
    """Set one rule `(g, ans, *args, **kwargs)` per argument; "same" means linear, None zero.

    >>> from tapegrad.compat.autograd import make_jvp
    >>> scaled = primitive(lambda x, y: x * y)
    >>> defjvp(scaled, "same", lambda g, ans, x, y: x * g)
    >>> float(make_jvp(scaled, 1)(3.0, 4.0)(1.0)[1])
    3.0
    """
    numbers = count() if argnums is None else argnums
    rules = {n: _jvp_rule(fun, n, rule) for n, rule in zip(numbers, jvpfuns)}

    def by_argnum(argnum: int, g: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        if argnum not in rules:
            raise MissingDerivativeError(
                f"The JVP of {name_of(fun)} for argument {argnum} is not defined. "
                "Define it with defjvp."
            )
        return rules[argnum](g, ans, *args, **kwargs)

    defjvp_argnum(fun, by_argnum)


def _jvp_rule(fun: Any, argnum: int, rule: Any) -> Function:
    if rule is None:
        return lambda g, ans, *args, **kwargs: vspace(ans).zeros()
    if isinstance(rule, str) and rule == "same":
        return lambda g, ans, *args, **kwargs: fun(*subval(args, argnum, g), **kwargs)
    if callable(rule):
        return rule  # type: ignore[no-any-return]
    raise ArgumentTypeError(
        f"A JVP of {name_of(fun)} must be a function, 'same' or None. Got {rule!r}."
    )


def def_linear(fun: Any) -> None:
    """Declare that a function is linear in each of its arguments.

    >>> from tapegrad.compat.autograd import make_jvp
    >>> product = primitive(lambda x, y: x * y)
    >>> def_linear(product)
    >>> float(make_jvp(product)(3.0, 4.0)(1.0)[1])
    4.0
    """

    def by_argnum(argnum: int, g: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        return fun(*subval(args, argnum, g), **kwargs)

    defjvp_argnum(fun, by_argnum)


class JVPNode(Node):
    """The node of a forward-mode trace, which ends with the tangent `g`."""

    g: Any

    def initialize_root(self, g: Any) -> None:
        self.g = g

    def follow(self, fun: Function, x: Any) -> tuple[Any, Any]:
        value, tangent = pushed(fun, x, self.g)
        return value, JVPNode.new_root(tangent)


# Sums of contributions


def add_outgrads(prev_g_flagged: tuple[Any, bool] | None, g: Any) -> tuple[Any, bool]:
    """Add a contribution to a sum (initially None); the flag says that the sum is a new value.

    >>> add_outgrads((1.0, False), 2.0)
    (3.0, True)
    """
    dense = g.dense() if isinstance(g, SparseObject) else g
    if prev_g_flagged is None:
        return dense, isinstance(g, SparseObject)
    return vspace(dense).add(prev_g_flagged[0], dense), True


def sum_outgrads(gs: Iterable[Any]) -> Any:
    """Return the sum of contributions.

    >>> sum_outgrads([1.0, 2.0, 3.0])
    6.0
    """
    total: tuple[Any, bool] | None = None
    for g in gs:
        total = add_outgrads(total, g)
    return None if total is None else total[0]


def sparse_add(vs: Any, x_prev: Any, x_new: SparseObject) -> Any:
    """Add a sparse object to a vector; None stands for zeros."""
    return x_new.mut_add(vs.zeros() if x_prev is None else x_prev)
