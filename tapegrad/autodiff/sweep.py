"""The reverse sweep: from cotangents of targets to cotangents of sources.

Nothing here knows TensorFlow's API; see gradient_tape.py. A sweep is planned first (which nodes,
in which order) and then run, on raw arrays when nobody listens and on tensors otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tapegrad.autodiff.bias_sums import Waiting, product_beside
from tapegrad.autodiff.plan import Plan
from tapegrad.autodiff.single_call import single_call
from tapegrad.core.backend import backend_of, find_backend
from tapegrad.core.primitive import INTERPRETERS, PRIMITIVES
from tapegrad.core.recorder import (
    EMPTY,
    RAW,
    Node,
    Operation,
    Token,
    active_stack,
    make_node,
    using_stack,
)
from tapegrad.core.recovery import run_again
from tapegrad.core.rule import PICK, Rule, as_tensor_value
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.errors import ArgumentError, MissingRuleError
from tapegrad.ops import arithmetic, cast, creation, gather
from tapegrad.ops.basic import sum_to_shape


class Sweep:
    """One run over a plan. `grads` maps nodes to what has arrived for them."""

    def __init__(self, plan: Plan, token: Token, release: bool) -> None:
        self.plan = plan
        self.token = token
        self.release = release
        self.grads: dict[Any, Any] = {}
        self._owned: set[Node] = set()
        self._add_into: Callable[[Any, Any], None] | None = None
        self._into_kernels: dict[Any, Callable[..., bool] | None] = {}
        self._adopt_others: Callable[..., Any] | None = None
        self._cast_many: Callable[..., list[Any]] | None = None
        self._multiply_and_sum: Callable[..., tuple[Any, Any]] | None = None
        self._waiting: dict[Node, Waiting] = {}
        self._postponed: list[Node] = []

    def run(self, seeds: list[tuple[Node, Any]]) -> dict[Node, Any]:
        """Sweep from seeds (cotangent tensors) and return tensors by source node.

        The list is emptied, so that a seed does not outlive its use.
        """
        if active_stack().tokens or any([type(seed) is not Tensor for _, seed in seeds]):
            while seeds:
                self._add(*seeds.pop())
            self._run_tensors()
        else:
            while seeds:
                node, seed = seeds.pop()
                self._add(node, seed.array)
            seed = None
            with using_stack(RAW):
                self._run_raw()
        grads = self.grads
        return {node: _as_tensor(grads[node]) for node in self.plan.sources if node in grads}

    def _run_raw(self) -> None:
        """The fast sweep: rules on raw arrays, no tensor is made."""
        grads, needed = self.grads, self.plan.needed
        kept = [node for node in self.plan.sources if node.primitive is not None]
        take = grads.pop
        has_kind = all([hasattr(grad.dtype, "kind") for grad in grads.values()])
        like = _like_of_all(grads)
        backend = find_backend(type(like))
        kind = None
        if backend is not None:
            kind = _kind_with_vjp_kernels(grads)
            self._add_into = backend.kernels.get("add.into") if kind is not None else None
            self._cast_many = backend.kernels.get("cast.many") if kind is not None else None
            self._multiply_and_sum = backend.kernels.get("matmul_with_sums")
            self._adopt_others = getattr(backend, "adopt_others", None)
        without_into: set[Any] = set()
        pull_at_once = self._pull_at_once
        for node in self.plan.nodes:
            primitive = node.primitive
            if primitive is None:
                if node.fit is not None and node in grads:
                    self._cast_leaf(node, kind)
                continue
            t = grads.get(node) if kept and node in kept else take(node, None)
            if t is None:
                continue
            rules = primitive.plain_rules if has_kind else None
            if self._adopt_others is not None:
                adopt = partial(self._adopt_others, like)
                node, t = _adopted(node, adopt), _adopted_cotangent(t, adopt)
            if primitive is PICK:
                self._keep_part(node, t)
            elif type(t) is kind and rules is not None and pull_at_once(node, t, kind):
                pass
            elif rules is None or (primitive.conjugates and t.dtype.kind == "c"):
                self._pull(node, t, raw=True)
            else:
                saved = self._pull_bias(node, t) if node in self._waiting else node.saved
                fit, i = node.fit, -1
                wants = primitive.rule_wants
                for source in node.inputs:
                    i += 1
                    read = saved[i]
                    if read is None or (needed is not None and source not in needed):
                        continue
                    if kind is not None and primitive not in without_into:
                        if self._accumulate(node, i, t):
                            continue
                        if self._into_kernels[primitive] is None:
                            without_into.add(primitive)
                    try:
                        # Spelled out because an unpacked call costs twice as much.
                        if wants is not None:
                            params = node.params
                            if len(params) != len(wants[i]):
                                params = {name: params[name] for name in wants[i]}
                            share = rules[i](t, *read, **params)
                        elif not read:
                            share = rules[i](t)
                        elif len(read) == 1:
                            share = rules[i](t, read[0])
                        else:
                            share = rules[i](t, *read)
                        if fit is not None and fit[i] is not None:
                            share = _fitted(share, fit[i])
                    except MemoryError as error:
                        again = partial(_share, node, i, t, read, False)
                        share = run_again(_gradient_of(node), (t,), again, error, (node,))
                    if source in grads:
                        self._add(source, share)
                    else:
                        grads[source] = share
            if self.release:
                if len(node.tokens) == 1:
                    node.inputs = ()
                    node.primitive = node.saved = node.fit = None
                else:
                    self._release(node)
        self._cast_postponed()

    def _cast_leaf(self, node: Node, kind: type | None) -> None:
        """Bring the gradient of a cast variable to its dtype; if it can be, many at once later."""
        t = self.grads[node]
        if self._cast_many is not None and type(t) is kind:
            self._postponed.append(node)
        else:
            self.grads[node] = _attempt(node, cast.cast_like, t, node.fit)

    def _cast_postponed(self) -> None:
        nodes, grads = self._postponed, self.grads
        if nodes:
            run = partial(_cast_all, self._cast_many, [node.fit for node in nodes])
            grads.update(zip(nodes, _attempt(nodes[0], run, *[grads[node] for node in nodes])))

    def _pull_at_once(self, node: Node, t: Any, kind: Any) -> bool:
        """Pull back by the backend's one kernel for all rules of a node, if there is one."""
        primitive = node.primitive
        kernel = primitive.vjp_kernel(kind)
        if kernel is None:
            return False
        needed = self.plan.needed
        if needed is None:
            wanted = tuple([read is not None for read in node.saved])
        else:
            pairs = zip(node.saved, node.inputs)
            wanted = tuple([read is not None and source in needed for read, source in pairs])
        conjugate = primitive.conjugates and t.dtype.kind == "c"
        try:
            shares = kernel(t, node.saved, wanted, node.params, conjugate)
        except MemoryError:
            shares = _attempt(node, kernel, t, node.saved, wanted, node.params, conjugate)
        if shares is None:
            return False
        fit, grads = node.fit, self.grads
        for i, source in enumerate(node.inputs):
            share = shares[i]
            if share is not None:
                if fit is not None and fit[i] is not None:
                    if share is t and self._let_wait(node, i, t):
                        continue
                    try:
                        share = _fitted(share, fit[i])
                    except MemoryError:
                        share = _attempt(node, _fitted, share, fit[i])
                if source in grads:
                    self._add(source, share)
                else:
                    grads[source] = share
        return True

    def _let_wait(self, node: Node, i: int, t: Any) -> bool:
        """Leave the sums for a bias to the product beside it, which may get the same cotangent."""
        product = None if self._multiply_and_sum is None else product_beside(node, i, t)
        source, needed = node.inputs[i], self.plan.needed
        if product is None or source is None or product in self._waiting:
            return False
        if needed is not None and product.inputs[1] not in needed:
            return False
        self._waiting[product] = source, node.fit[i], t
        return True

    def _pull_bias(self, node: Node, t: Any) -> Any:
        """Find what waits for a product; return what is left of the values that its rules read."""
        source, fit, of = self._waiting.pop(node)
        call, weight = single_call(node.primitive, 1, node.params), node.inputs[1]
        assert weight is not None
        assert self._multiply_and_sum is not None
        if t is not of or weight in self.grads or call is None:
            self._add(source, _attempt(node, _fitted, of, fit))
            return node.saved
        operands = [t if position < 0 else node.saved[1][position] for position in call.operands]
        kernel = partial(self._multiply_and_sum, **call.params, of_first=call.operands[0] < 0)
        self.grads[weight], sums = _attempt(node, kernel, *operands)
        self._owned.add(weight)  # the call has made a new array
        self._add(source, sums)
        return node.saved[0], None

    def _accumulate(self, node: Node, i: int, t: Any) -> bool:
        """Let the backend add the share of an input to what has arrived for it, if it can."""
        into = self._into_kernels.get(node.primitive)
        if into is None:
            if node.primitive in self._into_kernels:
                return False
            into = backend_of(t).kernels.get(f"{node.primitive.name}.into")
            self._into_kernels[node.primitive] = into
            return into is not None and self._accumulate(node, i, t)
        if node.fit is not None and node.fit[i] is not None:
            return False
        call = single_call(node.primitive, i, node.params)
        if call is None or call.primitive is not node.primitive:
            return False
        source, read = node.inputs[i], node.saved[i]
        assert source is not None
        operands = [t if position < 0 else read[position] for position in call.operands]
        if source not in self.grads:
            kernel = node.primitive.kernel(type(t))
            try:
                self.grads[source] = kernel(*operands, **call.params)
            except MemoryError:
                self.grads[source] = _attempt(node, partial(kernel, **call.params), *operands)
            self._owned.add(source)  # the call has made a new array
            return True
        return source in self._owned and into(self.grads[source], *operands, **call.params)

    def _run_tensors(self) -> None:
        """The same on tensors, so that outer recorders can follow the sweep."""
        for node in self.plan.nodes:
            if node.primitive is None:
                if node.fit is not None and node in self.grads:
                    self._cast_leaf(node, None)
                continue
            is_source = node in self.plan.sources
            t = self.grads.get(node) if is_source else self.grads.pop(node, None)
            if t is None:
                continue
            self._pull(node, t, raw=False)
            if self.release:
                self._release(node)

    def _pull(self, node: Node, t: Any, raw: bool) -> None:
        """Pull a cotangent back through one node of any kind."""
        primitive = node.primitive
        if raw and primitive.add_part is not None and self._adopt_others is None:
            self._add_part(node, t)
            return
        if primitive is PICK:
            self._keep_part(node, t)
            return
        if primitive.vjp_rules is None or primitive.sparse_vjp is not None:
            self._pull_special(node, t, raw)
            return
        conjugate = primitive.conjugates and _is_complex(t)
        for i, source in enumerate(node.inputs):
            rule = primitive.vjp_rules[i]
            if rule is None or not self._wants(source):
                continue
            saved = node.saved[i] if raw else rule.rewrap(node.saved[i], node)
            self._add(source, _attempt(node, _share, node, i, t, saved, conjugate))

    def _wants(self, source: Node | None) -> bool:
        return source is not None and (self.plan.needed is None or source in self.plan.needed)

    def _keep_part(self, node: Node, t: Any) -> None:
        """Keep the cotangent of one of several outputs with the others, for the node of all."""
        parts = self.grads.setdefault(node.inputs[0], {})
        index = node.params["index"]
        parts[index] = t if index not in parts else _attempt(node, _sum, parts[index], t)

    def _pull_special(self, node: Node, t: Any, raw: bool) -> None:
        """Joint rules, sparse gathers, and missing rules."""
        primitive = node.primitive
        if primitive.sparse_vjp is not None:
            self._pull_sparse(node, t, raw)
            return
        if primitive.joint_vjp is None:
            raise MissingRuleError(
                f"{primitive.name} has no gradient rule, and the target depends on a source "
                "through it. Declare one, or use custom_gradient around the call."
            )
        shares = _attempt(node, self._joint, node, t, raw)
        if len(shares) != len(node.inputs):
            raise ArgumentError(
                f"The gradient rule of {primitive.name} must return {len(node.inputs)} values, "
                f"one per input. It returned {len(shares)}."
            )
        grads, fits = self.grads, None if primitive.many else node.fit
        for i, (source, share) in enumerate(zip(node.inputs, shares, strict=True)):
            if share is not None and self._wants(source):
                if fits is not None and fits[i] is not None:
                    share = _fitted(share, fits[i])
                if source in grads:
                    self._add(source, share)
                else:
                    grads[source] = share

    def _joint(self, node: Node, t: Any, raw: bool) -> Any:
        primitive, saved, params = node.primitive, node.saved, node.params
        if primitive.takes_none:
            t = tuple([t.get(k) for k in node.fit])
        elif primitive.many:
            t = _with_zeros(t, node.fit, saved)
        if "needs" in primitive.joint_vjp.wants:
            params = {**params, "needs": tuple(map(self._wants, node.inputs))}
        if raw and primitive.needs_tensors:
            with using_stack(EMPTY):
                shares = primitive.joint_vjp(_tensors(t), tuple(map(_tensors, saved)), params)
            return [s.array if isinstance(s, Tensor) else s for s in shares]
        if not raw:
            saved = primitive.joint_vjp.rewrap(saved, node)
        return primitive.joint_vjp(t, saved, params)

    def _pull_sparse(self, node: Node, t: Any, raw: bool) -> None:
        """A gather's cotangent stays sparse when it goes straight to a variable."""
        source = node.inputs[0]
        if not self._wants(source):
            return
        assert source is not None
        sparse = source.primitive is None and source.params.get("variable")
        rule = node.primitive.sparse_vjp if sparse else node.primitive.vjp_rules[0]
        saved = node.saved[0] if raw else rule.rewrap(node.saved[0], node)
        self._add(source, _attempt(node, rule, t, saved, node.params))

    def _add_part(self, node: Node, t: Any) -> None:
        """Add the cotangent of a part into the whole, so that a loop over parts stays linear."""
        source = node.inputs[0]
        if not self._wants(source):
            return
        assert source is not None
        total = self.grads.get(source) if source in self._owned else None
        # Sums of single numbers are NumPy's scalars, which nobody can write into.
        if total is not None and total.shape and not (_is_recorded(t) or _is_recorded(total)):
            node.primitive.add_part(total, t, **node.params)
        else:
            rule = node.primitive.vjp_rules[0]
            self._add(source, _attempt(node, rule, t, node.saved[0], node.params))
            if not isinstance(self.grads[source], gather.RowGradient):
                self._owned.add(source)  # the rule has made a new array

    def _add(self, node: Node | None, share: Any) -> None:
        """Add one contribution, in place once the sum is a buffer of our own."""
        assert node is not None
        if node not in self.grads:
            self.grads[node] = share
        elif node in self._owned and not isinstance(share, gather.RowGradient):
            total = self.grads[node]
            if self._add_into is None:
                total += share
                self.grads[node] = total
            else:
                self._add_into(total, share)
        else:
            self.grads[node] = _attempt(node, _sum, self.grads[node], share)
            if not isinstance(self.grads[node], Tensor | gather.RowGradient):
                self._owned.add(node)

    def _release(self, node: Node) -> None:
        """Free the node unless another open tape still needs it."""
        for token in node.tokens:
            if token is not self.token and token.open and token.keeps_history:
                return
        release(node)


def release(node: Node) -> None:
    """Let go of how a value was made: to a tape that follows it from now on it is a leaf."""
    node.release()
    node.primitive = None


def _cast_all(cast_many: Any, dtypes: Sequence[Any], *arrays: Any) -> Any:
    return cast_many(arrays, dtypes)


def _like_of_all(grads: dict[Any, Any]) -> Any:
    """The cotangent whose backend the others are brought to: the first, or one that is recorded."""
    first = next(iter(grads.values()), None)
    if len(grads) > 1:
        return next((grad for grad in grads.values() if _is_recorded(grad)), first)
    return first


def _is_recorded(array: Any) -> bool:
    """Whether a program is being recorded with it: then it cannot be written to."""
    return getattr(find_backend(type(array)), "adopt_others", None) is not None


def _kind_with_vjp_kernels(grads: dict[Any, Any]) -> type | None:
    """The type of the cotangents, if their backend pulls back through a node in one kernel."""
    kinds = {type(grad) for grad in grads.values()}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None or PRIMITIVES["multiply"].vjp_kernel(kind) is None:
        return None
    return kind


def _adopted(node: Node, adopt: Callable[[list[Any]], list[Any]]) -> Node:
    """The node with saved arrays that a recording knows, so that rules may mix them with others."""
    saved = node.saved
    if type(saved) not in (list, tuple):
        return node
    if node.primitive.joint_vjp is None:
        saved = [None if part is None else tuple(adopt(list(part))) for part in saved]
    else:
        saved = tuple(adopt(list(saved)))
    return make_node(node.tokens, node.primitive, node.params, node.inputs, saved, node.fit)


def _adopted_cotangent(t: Any, adopt: Callable[[list[Any]], list[Any]]) -> Any:
    return dict(zip(t, adopt(list(t.values())))) if type(t) is dict else adopt([t])[0]


def _share(node: Node, i: int, t: Any, saved: Any, conjugate: bool) -> Any:
    """What a cotangent becomes at one input of a node."""
    rule = node.primitive.vjp_rules[i]
    if conjugate:
        share = _conjugated(rule, t, saved, node.params)
    else:
        share = rule(t, saved, node.params)
    if node.fit is not None and node.fit[i] is not None:
        share = _fitted(share, node.fit[i])
    return share


def _attempt(node: Node, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function at a node, and once more with more room if the memory does not suffice."""
    try:
        return function(*args)
    except MemoryError as error:
        values = [part for arg in args for part in (arg.values() if type(arg) is dict else (arg,))]
        return run_again(_gradient_of(node), values, partial(function, *args), error, (node,))


def _gradient_of(node: Node) -> str:
    return "A gradient" if node.primitive is None else f"The gradient of {node.primitive.name}"


def pull(operation: Operation, t: Any) -> list[Any]:
    """Apply the VJP rules of an operation that has just run, on tensors: one share per input."""
    primitive, params = operation.primitive, operation.params
    if primitive.joint_vjp is not None:
        rule = primitive.joint_vjp
        if "needs" in rule.wants:
            params = {**params, "needs": tuple(node is not None for node in operation.nodes)}
        return list(rule(t, rule.read_again(operation), params))
    return [
        None if rule is None or node is None else rule(t, rule.read_again(operation), params)
        for rule, node in zip(primitive.vjp_rules, operation.nodes, strict=True)
    ]


def _sum(first: Any, second: Any) -> Any:
    if isinstance(first, gather.RowGradient) or isinstance(second, gather.RowGradient):
        return gather.add_row_gradients(first, second)
    return arithmetic.add(first, second)


def _is_complex(value: Any) -> bool:
    dtype = value.dtype
    try:
        return bool(dtype.kind == "c")
    except AttributeError:
        return "complex" in str(dtype)


def _conjugated(rule: Rule, t: Any, saved: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """TensorFlow's convention: the factor is conjugated, the cotangent is not."""
    return arithmetic.conj(rule(arithmetic.conj(t), saved, params))


def _fitted(share: Any, fit: tuple[Any, Any]) -> Any:
    """Bring a contribution to the shape and dtype of its input."""
    shape, dtype = fit
    if shape is not None and share.shape != shape:
        share = sum_to_shape(share, shape)
    if dtype is not None:
        share = cast.cast_like(share, dtype)
    return share


def _with_zeros(t: dict[int, Any], specs: Any, saved: Any) -> tuple[Any, ...]:
    """Cotangents of all outputs of a primitive with several; those nobody used are zeros."""
    example = next(iter(t.values()))
    return tuple([
        t[k] if k in t else creation.zeros_for(example, shape, dtype)
        for k, (shape, dtype) in enumerate(specs)
    ])  # fmt: skip


def _tensors(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(as_tensor_value(v) for v in value)
    return as_tensor_value(value)


def _as_tensor(value: Any) -> Any:
    kind = type(value)
    if kind is Tensor or kind in INTERPRETERS:
        return value
    if isinstance(value, gather.RowGradient):
        return value.as_indexed_slices()
    return wrap(value)
