"""Sweeps on a device: fused pullbacks, sums in place, deferred sums of biases, batched casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tapegrad.autodiff.accelerator import Cotangents, attempt_at
from tapegrad.autodiff.plan import Plan
from tapegrad.autodiff.pullback import fitted, is_complex
from tapegrad.core.backend.registry import backend_of, capabilities_of
from tapegrad.core.out_of_memory import attempt
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.recorder import Node, with_saved
from tapegrad.engine.array_sweep import ArrayAccelerator, ReusingAccelerator, apply_rule
from tapegrad.engine.bias_sums import Deferred, product_of_bias
from tapegrad.engine.single_call import single_call
from tapegrad.ops.indexing.gather import RowGradient


class DeviceAccelerator(ArrayAccelerator):
    """Uses the optional parts of a backend that pulls back through a node in one kernel.

    All cotangents are expected to be of one array type; others take the way of the base class.
    """

    def __init__(self, plan: Plan, cotangents: Cotangents, array_type: type) -> None:
        super().__init__(plan, cotangents)
        self._array_type = array_type
        parts = capabilities_of(array_type)
        self._in_place = parts.in_place
        self._casts = parts.casts
        example = next(iter(cotangents.values()))
        self._multiply_and_sum: Callable[..., tuple[Any, Any]] | None = backend_of(
            example
        ).kernels.get("matmul_with_sums")
        self._has_numpy_dtypes = hasattr(example.dtype, "kind")
        self._accumulating: dict[Any, Callable[..., bool] | None] = {}
        self._deferred: dict[Node, Deferred] = {}
        self._to_cast: list[Node] = []

    def pull_back(self, node: Node, cotangent: Any) -> Sequence[Any]:
        primitive = node.primitive
        if primitive.plain_rules is None:
            return self._pull_back_by_rules(node, cotangent)
        if type(cotangent) is self._array_type:
            found = self._pull_back_fused(node, cotangent)
            if found is not None:
                return found
        if primitive.conjugates and is_complex(cotangent):
            return self._pull_back_by_rules(node, cotangent)
        if node in self._deferred:
            node = self._pull_back_bias(node, cotangent)
        kernel = self._accumulating_kernel(primitive)
        if kernel is None:
            return self._pull_back_by_rules(node, cotangent)
        return self._pull_back_in_place(node, cotangent, kernel)

    def _pull_back_by_rules(self, node: Node, cotangent: Any) -> Sequence[Any]:
        if self._has_numpy_dtypes:
            return super().pull_back(node, cotangent)
        return ReusingAccelerator.pull_back(self, node, cotangent)

    def _pull_back_fused(self, node: Node, t: Any) -> Sequence[Any] | None:
        """Pull back by one kernel for all rules of a node; None if there is none."""
        primitive = node.primitive
        kernel = primitive.vjp_kernel(self._array_type)
        if kernel is None:
            return None
        needed = self.needed
        if needed is None:
            wanted = tuple([read is not None for read in node.saved])
        else:
            pairs = zip(node.saved, node.inputs)
            wanted = tuple([read is not None and source in needed for read, source in pairs])
        conjugate = primitive.conjugates and is_complex(t)
        try:
            found = kernel(t, node.saved, wanted, node.params, conjugate)
        except MemoryError:
            found = attempt_at(node, kernel, t, node.saved, wanted, node.params, conjugate)
        specs = node.specs
        if found is None or specs is None:
            return found  # type: ignore[no-any-return]
        found = list(found)
        for i, input_cotangent in enumerate(found):
            if input_cotangent is not None and specs[i] is not None:
                is_deferred = input_cotangent is t and self._defer(node, i, t)
                found[i] = None if is_deferred else _fitted(node, input_cotangent, specs[i])
        return found

    def _defer(self, node: Node, i: int, t: Any) -> bool:
        """Leave the sums for a bias to the product that it was added to, if that is possible."""
        product = None if self._multiply_and_sum is None else product_of_bias(node, i, t)
        source, needed = node.inputs[i], self.needed
        if product is None or source is None or product in self._deferred:
            return False
        if needed is not None and product.inputs[1] not in needed:
            return False
        self._deferred[product] = source, node.specs[i], t
        return True

    def _pull_back_bias(self, node: Node, t: Any) -> Node:
        """Add the deferred sums of a bias; return the node with the inputs that are left.

        If the product has the cotangent that is to be summed, one call gives the cotangent of its
        second factor too.
        """
        source, spec, summed = self._deferred.pop(node)
        call, weight = single_call(node.primitive, 1, node.params), node.inputs[1]
        assert weight is not None
        assert self._multiply_and_sum is not None
        if t is not summed or weight in self.cotangents or call is None:
            self._add(source, _fitted(node, summed, spec))
            return node
        operands = [t if position < 0 else node.saved[1][position] for position in call.operands]
        kernel = partial(self._multiply_and_sum, **call.params, of_first=call.operands[0] < 0)
        self.cotangents[weight], sums = attempt_at(node, kernel, *operands)
        self.owned.add(weight)  # the call has made a new array
        self._add(source, sums)
        saved = node.saved[0], None
        return with_saved(node, saved)

    def _accumulating_kernel(self, primitive: Primitive) -> Callable[..., bool] | None:
        """Return the kernel that adds a call of a primitive to an array in place."""
        try:
            return self._accumulating[primitive]
        except KeyError:
            in_place = self._in_place
            found = None if in_place is None else in_place.accumulate(primitive.name)
            self._accumulating[primitive] = found
            return found

    def _pull_back_in_place(self, node: Node, t: Any, kernel: Callable[..., bool]) -> Sequence[Any]:
        """Add the cotangents of all inputs to the table, by calls that add to what is there."""
        needed = self.needed
        for i, (source, read) in enumerate(zip(node.inputs, node.saved)):
            if read is None or (needed is not None and source not in needed):
                continue
            if self._accumulate_call(node, i, t, kernel):
                continue
            self._add(source, attempt_at(node, apply_rule, node, i, t))
        return ()

    def _accumulate_call(self, node: Node, i: int, t: Any, kernel: Callable[..., bool]) -> bool:
        """Add the cotangent of an input in place if its rule is one call of the same primitive."""
        if node.specs is not None and node.specs[i] is not None:
            return False
        call = single_call(node.primitive, i, node.params)
        if call is None or call.primitive is not node.primitive:
            return False
        source, read, cotangents = node.inputs[i], node.saved[i], self.cotangents
        assert source is not None
        operands = [t if position < 0 else read[position] for position in call.operands]
        if source in cotangents:
            return source in self.owned and kernel(cotangents[source], *operands, **call.params)
        new = partial(node.primitive.kernel(type(t)), **call.params)
        cotangents[source] = attempt_at(node, new, *operands)
        self.owned.add(source)  # the call has made a new array
        return True

    def _add(self, source: Any, input_cotangent: Any) -> None:
        cotangents = self.cotangents
        if source in cotangents:
            cotangents[source] = self.accumulate(source, cotangents[source], input_cotangent)
        else:
            cotangents[source] = input_cotangent

    def accumulate(self, node: Node, total: Any, contribution: Any) -> Any:
        if self._in_place is None or node not in self.owned or type(contribution) is RowGradient:
            return super().accumulate(node, total, contribution)
        self._in_place.add(total, contribution)
        return total

    def cast(self, node: Node, cotangent: Any) -> Any:
        if self._casts is None or type(cotangent) is not self._array_type:
            return super().cast(node, cotangent)
        self._to_cast.append(node)  # in one launch with others
        return cotangent

    def finish(self) -> None:
        nodes, casts, cotangents = self._to_cast, self._casts, self.cotangents
        if nodes and casts is not None:
            dtypes = [node.specs for node in nodes]
            arrays = [cotangents[node] for node in nodes]
            made = attempt("A gradient", casts.cast, arrays, dtypes, on=arrays[0], nodes=nodes[:1])
            cotangents.update(zip(nodes, made))


def _fitted(node: Node, input_cotangent: Any, spec: Any) -> Any:
    try:
        return fitted(input_cotangent, spec)
    except MemoryError:
        return attempt_at(node, fitted, input_cotangent, spec)
