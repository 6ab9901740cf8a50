"""User-defined primitives: `primitive`, and the tables that defvjp fills.

A primitive runs on raw values. Its call becomes one operation on the tapes, whose rules are the
user's functions. These get raw values too, unless an outer trace follows them.
"""

from __future__ import annotations

import functools
from types import MethodType
from typing import Any

from tapegrad.autodiff.batching import Batched, is_batched
from tapegrad.compat.autograd.values import (
    Function,
    MissingDerivativeError,
    as_tensor,
    is_tensor,
    is_traced,
    map_leaves,
    plain,
    plain_structure,
    raw,
)
from tapegrad.compat.autograd.vspaces import SparseObject, vspace
from tapegrad.core.call_site import warn_outside
from tapegrad.core.primitive.primitive import record_many
from tapegrad.core.primitive.rule import PICK
from tapegrad.core.recorder import EMPTY, Node, Operation, active_stack, make_node, using_stack
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops import creation
from tapegrad.ops.casting import cast
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.shape import functions as shape, joining

primitive_vjps: dict[Any, Function] = {}
"""Per primitive: maps `(argnums, ans, args, kwargs)` to the function of the cotangent."""

primitive_jvps: dict[Any, Function] = {}
"""Per primitive: maps `(argnums, tangents, ans, args, kwargs)` to the tangent of the result."""


def primitive(f: Function) -> UserPrimitive:
    """Decorate a function of raw values, whose derivatives `defvjp` and `defjvp` define.

    >>> from tapegrad.compat.autograd.extend import defvjp
    >>> from tapegrad.compat.autograd import grad
    >>> cube = primitive(lambda x: x**3)
    >>> defvjp(cube, lambda ans, x: lambda g: g * 3.0 * x**2)
    >>> float(grad(cube)(2.0))
    12.0
    """
    return UserPrimitive(f)


class UserPrimitive:
    """A function that tapes record as one operation; in a class it binds as a method."""

    def __init__(self, fun: Function) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call_primitive(self, self.fun, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def defvjp(self, vjp: Function, argnum: int = 0) -> None:
        """Set a rule by the deprecated interface: `vjp(g, ans, vs, gvs, *args)`."""
        _warn_deprecated("defvjp", "extend.defvjp")

        def maker(ans: Any, *args: Any, **kwargs: Any) -> Function:
            spaces = vspace(args[argnum]), vspace(ans)
            return lambda g: vjp(g, ans, *spaces, *args, **kwargs)

        self._set(argnum, maker)

    def defgrad(self, gradmaker: Function, argnum: int = 0) -> None:
        """Set a rule by the deprecated interface: `gradmaker(ans, *args)` returns a function."""
        _warn_deprecated("defgrad", "extend.defvjp")
        self._set(argnum, gradmaker)

    def defvjp_is_zero(self, argnums: tuple[int, ...] = (0,)) -> None:
        """Declare zero derivatives for some arguments by the deprecated interface."""
        _warn_deprecated("defvjp_is_zero", "extend.defvjp with None")
        for argnum in argnums:
            self._set(argnum, None)

    def _set(self, argnum: int, maker: Function | None) -> None:
        rules = primitive_vjps.get(self)
        makers = dict(rules.makers) if isinstance(rules, ByArgument) else {}
        primitive_vjps[self] = ByArgument(self, {**makers, argnum: maker})


def _warn_deprecated(old: str, new: str) -> None:
    warn_outside(f"{old} is deprecated. Use {new}.", DeprecationWarning)


class ByArgument:
    """The rule of a primitive, made of one maker of rules per argument (None: zero)."""

    def __init__(self, fun: Any, makers: dict[int, Function | None]) -> None:
        self.fun = fun
        self.makers = makers

    def __call__(self, argnums: Any, ans: Any, args: Any, kwargs: Any) -> Function:
        vjps = [self._vjp(argnum, ans, args, kwargs) for argnum in argnums]
        return lambda g: [vjp(g) for vjp in vjps]

    def _vjp(self, argnum: int, ans: Any, args: Any, kwargs: Any) -> Function:
        if argnum not in self.makers:
            raise MissingDerivativeError(
                f"The VJP of {name_of(self.fun)} for argument {argnum} is not defined. "
                "Define it with defvjp."
            )
        maker = self.makers[argnum]
        if maker is None:
            return lambda g: vspace(args[argnum]).zeros()
        vjp: Function = maker(ans, *args, **kwargs)
        return vjp


def name_of(fun: Any) -> str:
    """Return a function's name for messages."""
    return getattr(fun, "__name__", None) or repr(fun)


def call_primitive(key: Any, fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `fun` on raw values; if an argument is traced, record it with the rules of `key`."""
    leaves = nest.flatten(args)
    traced = [leaf for leaf in leaves if is_traced(leaf)]
    if not traced:
        if any([is_tensor(leaf) for leaf in leaves]):
            args = map_leaves(raw, args)
        return fun(*args, **kwargs)
    value = fun(*nest.pack_sequence_as(args, [raw(leaf) for leaf in leaves]), **kwargs)
    outputs = [as_tensor(raw(leaf)) if _is_number(leaf) else leaf for leaf in nest.flatten(value)]
    fresh = tuple(wrap(leaf.array) for leaf in outputs if isinstance(leaf, Tensor))
    call: Any = UserCall(Called(key, args, kwargs, value))
    nodes = tuple(leaf.node for leaf in traced)
    arrays, results = [leaf.array for leaf in traced], [tensor.array for tensor in fresh]
    record_many(active_stack(), call, {}, arrays, nodes, results, fresh)
    new = iter(fresh)
    filled = [plain(next(new)) if isinstance(leaf, Tensor) else leaf for leaf in outputs]
    return nest.pack_sequence_as(value, filled)


def _is_number(value: Any) -> bool:
    return hasattr(value, "dtype") or isinstance(value, float | complex)


class UserCall:
    """A call of a user's primitive, with the interface of a primitive on the tape."""

    differentiable = many = needs_tensors = True
    broadcasts = conjugates = takes_none = effects = False
    selects = True
    plain_rules = add_part = vjp_rules = jvp_rules = sparse_vjp = batch_rule = None

    def __init__(self, called: Called) -> None:
        self.name = called.name
        self.called = called
        self.joint_vjp = VJPRule(called)
        self.joint_jvp = JVPRule(called) if called.key in primitive_jvps else None


class Called:
    """The arguments of a call, and the computation of its derivatives.

    The arguments have placeholders for the traced values, which the tape keeps.
    """

    def __init__(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> None:
        self.name = name_of(key)
        self.key = key
        self.kwargs = kwargs
        self._args = map_leaves(lambda leaf: HOLE if is_traced(leaf) else raw(leaf), args)
        self._value = map_leaves(lambda leaf: HOLE if _is_number(leaf) else leaf, value)
        holes = [[leaf is HOLE for leaf in nest.flatten(arg)] for arg in self._args]
        self.argnums = [i for i, flags in enumerate(holes) for flag in flags if flag]

    def args(self, operands: Any) -> Any:
        """The arguments of the call, with the placeholders filled."""
        return _filled(self._args, operands)

    def value(self, results: Any) -> Any:
        """The result, with the placeholders filled."""
        return _filled(self._value, results)

    def vjp(self, t: Any, operands: Any, results: Any, needs: Any) -> list[Any]:
        """Return the cotangents of the operands, or None where none is needed."""
        rules = primitive_vjps.get(self.key)
        wanted = sorted({argnum for argnum, need in zip(self.argnums, needs) if need})
        if rules is None:
            raise MissingDerivativeError(
                f"The VJP of {self.name} for arguments {wanted} is not defined. "
                "Define it with defvjp."
            )
        args, ans = self.args(map(plain, operands)), self.value(map(plain, results))
        g = self.value([plain(conjugated(part)) for part in t])
        pulled = list(rules(tuple(wanted), ans, args, self.kwargs)(g))
        return self._shares(dict(zip(wanted, pulled, strict=True)), operands)

    def _shares(self, by_argnum: dict[int, Any], operands: Any) -> list[Any]:
        waiting = {
            argnum: self._leaves(cotangent, self._args[argnum], f"argument {argnum}")
            for argnum, cotangent in by_argnum.items()
        }
        shares = []
        for argnum, operand in zip(self.argnums, operands, strict=True):
            share = waiting[argnum].pop(0) if argnum in waiting else None
            shares.append(None if share is None else conjugated(self._fitted(share, operand)))
        return shares

    def jvp(self, tangents: Any, operands: Any, results: Any) -> tuple[Any, ...]:
        """Return the tangents of the results."""
        args, ans = self.args(map(plain, operands)), self.value(map(plain, results))
        moved = {n for n, t in zip(self.argnums, tangents) if t is not None}
        parts = [
            plain(creation.zeros_like(x) if t is None else t)
            for x, t in zip(operands, tangents, strict=True)
        ]
        zeros = map_leaves(lambda leaf: leaf if leaf is HOLE else 0.0, self._args)
        whole = _filled(zeros, parts)
        argnums = tuple(sorted(moved))
        gs = [whole[argnum] for argnum in argnums]
        tangent = primitive_jvps[self.key](argnums, gs, ans, args, self.kwargs)
        leaves = self._leaves(tangent, self._value, "the result")
        # Integer results have no tangent, whatever the rule returns.
        return tuple(
            self._fitted(t, y) if y.dtype.is_differentiable else creation.zeros_like(y)
            for t, y in zip(leaves, results, strict=True)
        )

    def _leaves(self, derivative: Any, structure: Any, whose: str) -> list[Any]:
        """Return the parts of a derivative that belong to the placeholders of a structure."""
        dense = derivative.dense() if isinstance(derivative, SparseObject) else derivative
        places = nest.flatten(structure)
        leaves = nest.flatten(dense) if len(places) > 1 or nest.is_nested(dense) else [dense]
        if len(leaves) != len(places):
            raise ArgumentError(
                f"A derivative of {self.name} must have as many parts as {whose}, {len(places)}. "
                f"Its rule returned {len(leaves)}."
            )
        return [leaf for leaf, place in zip(leaves, places) if place is HOLE]

    def _fitted(self, share: Any, like: Any) -> Any:
        """Convert the result of a user's rule to the shape and dtype of the value it belongs to."""
        share = as_tensor(share)
        wanted = tuple(like.shape)
        if share.shape != wanted:
            if share.size == like.size:
                share = shape.reshape(share, wanted)
            elif share.size == 1:
                share = shape.broadcast_to(shape.reshape(share, ()), wanted)
            else:
                raise ShapeError(
                    f"A derivative of {self.name} must have shape {wanted}, like the value it "
                    f"belongs to. Its rule returned {share.shape}."
                )
        return share if share.dtype == like.dtype else cast.cast(share, like.dtype)


class _Hole:
    """Placeholder for a traced value."""

    def __repr__(self) -> str:
        return "<traced>"


HOLE = _Hole()


def _filled(structure: Any, values: Any) -> Any:
    rest = iter(values)
    return map_leaves(lambda leaf: next(rest) if leaf is HOLE else leaf, structure)


def conjugated(value: Any) -> Any:
    """Conjugate complex values: the cotangents of HIPS autograd are those of the engine,
    conjugated.
    """
    return arithmetic.conj(value) if value.dtype.kind == "c" else value


class _UserRule:
    """The common part of the rules of both modes: they read all operands and all results."""

    reads = ()
    wants: tuple[str, ...] = ()

    def __init__(self, called: Called) -> None:
        self._called = called

    def pick(self, operands: Any, result: Any) -> tuple[Any, ...]:
        return (*operands, *result)

    def rewrap(self, saved: Any, node: Node) -> tuple[Any, ...]:
        """Return the saved arrays as tensors, each with its position on the tape."""
        count = len(self._called.argnums)
        operands = [wrap(array, own) for array, own in zip(saved, node.inputs)]
        results = []
        for index, array in enumerate(saved[count:]):
            own = make_node(node.tokens, PICK, {"index": index}, (node,), None, None)
            own.tangents = None if node.tangents is None else node.tangents.get(index)
            results.append(wrap(array, own))
        return (*operands, *results)

    def read_again(self, operation: Operation) -> tuple[Any, ...]:
        operands = zip(operation.operands, operation.nodes, strict=True)
        results = zip(operation.result, operation.outputs, strict=True)
        return tuple(wrap(array, own) for array, own in (*operands, *results))

    def _halves(self, saved: Any) -> tuple[Any, Any]:
        count = len(self._called.argnums)
        return saved[:count], saved[count:]


class VJPRule(_UserRule):
    """Maps the cotangents of all results to those of all operands."""

    wants = ("needs",)

    def __call__(self, t: Any, saved: Any, params: dict[str, Any]) -> list[Any]:
        operands, results = self._halves(saved)
        needs = params["needs"]
        if any([is_batched(part) for part in t]):
            return _row_by_row(lambda rows: self._called.vjp(rows, operands, results, needs), t)
        return self._called.vjp(t, operands, results, needs)


class JVPRule(_UserRule):
    """Maps the tangents of all operands to those of all results."""

    def __call__(self, t: Any, saved: Any, params: dict[str, Any]) -> tuple[Any, ...]:
        operands, results = self._halves(saved)
        if any([is_batched(part) for part in t]):
            return tuple(_row_by_row(lambda rows: self._called.jvp(rows, operands, results), t))
        return self._called.jvp(t, operands, results)


def _row_by_row(function: Function, t: Any) -> list[Any]:
    """Users' rules do not support batches: call them for each row and stack the rows."""
    level = max([part.level for part in t if is_batched(part)])
    inner = [is_batched(part) and part.level == level for part in t]
    size = next(part.tensor.shape[0] for part, flag in zip(t, inner) if flag)
    rows = []
    for i in range(size):
        row = [part.tensor[i] if flag else part for part, flag in zip(t, inner)]
        if any([is_batched(part) for part in row]):
            rows.append(_row_by_row(function, row))
        else:
            rows.append(list(function(row)))
    return [
        None if parts[0] is None else Batched(joining.stack(list(parts)), level)
        for parts in zip(*rows, strict=True)
    ]


def notrace_primitive(f: Function) -> Function:
    """Decorate a function that gets raw values and returns a constant.

    >>> from tapegrad.compat.autograd import grad
    >>> sign = notrace_primitive(lambda x: 1.0 if x > 0 else -1.0)
    >>> float(grad(lambda x: x * sign(x))(-3.0))
    -1.0
    """

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        with using_stack(EMPTY):
            return plain_structure(f(*map_leaves(raw, args), **kwargs))

    return call
