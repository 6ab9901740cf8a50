"""Sweeps over raw arrays: less work per node, and sums of parts in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tapegrad.autodiff.accelerator import PlainAccelerator, attempt_at
from tapegrad.autodiff.pullback import fitted, is_needed
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.out_of_memory import recover
from tapegrad.core.recorder import Node


class ReusingAccelerator(PlainAccelerator):
    """Adds the cotangent of a part into the cotangent of the whole, in place.

    The rule of a slice makes an array of zeros as large as the whole: a loop over all parts would
    take quadratic time.
    """

    def pull_back(self, node: Node, cotangent: Any) -> Sequence[Any]:
        if node.primitive.add_part is None:
            return super().pull_back(node, cotangent)
        source = node.inputs[0]
        if source is None or not is_needed(source, self.needed):
            return ()
        total = self.cotangents.get(source) if source in self.owned else None
        # The sum of single numbers is a NumPy scalar, which cannot be written to.
        if total is None or not total.shape or _is_recorded(cotangent) or _is_recorded(total):
            return self._pull_back_part(node, source, cotangent)
        node.primitive.add_part(total, cotangent, **node.params)
        return ()

    def _pull_back_part(self, node: Node, source: Node, cotangent: Any) -> Sequence[Any]:
        rule = node.primitive.vjp_rules[0]
        found = attempt_at(node, rule, cotangent, node.saved[0], node.params)
        if source not in self.cotangents:
            self.owned.add(source)  # the rule has made a new array
        return (found,)


def apply_rule(node: Node, i: int, cotangent: Any) -> Any:
    """Return the cotangent of one input by its rule, without conjugation."""
    rule = node.primitive.vjp_rules[i]
    apply = rule.guarded if node.primitive.broadcasts else rule
    found = apply(cotangent, node.saved[i], node.params)
    return found if node.specs is None or node.specs[i] is None else fitted(found, node.specs[i])


def _is_recorded(array: Any) -> bool:
    """Whether an array belongs to a recording: it cannot be written to."""
    return capabilities_of(type(array)).adoption is not None


class ArrayAccelerator(ReusingAccelerator):
    """Calls the functions of rules directly and adds to the table itself.

    Arrays must have NumPy dtypes. The forward and backward pass of a chain of 200 operations on
    one element takes 19 % fewer instructions than with `PlainAccelerator` (CPython 3.11).
    """

    def pull_back(self, node: Node, cotangent: Any) -> Sequence[Any]:
        primitive = node.primitive
        rules = primitive.plain_rules
        if rules is None or (primitive.conjugates and cotangent.dtype.kind == "c"):
            return super().pull_back(node, cotangent)
        if node.order < self.guards_before:
            rules = primitive.guarded_rules()
        saved, specs, needed, cotangents = node.saved, node.specs, self.needed, self.cotangents
        wants = primitive.rule_wants
        inputs: Any = node.inputs  # an input whose rule has saved values has a node
        i = -1
        for source in inputs:
            i += 1
            read = saved[i]
            if read is None or (needed is not None and source not in needed):
                continue
            try:
                # Spelled out because an unpacked call costs twice as much.
                if wants is not None:
                    params = node.params
                    if len(params) != len(wants[i]):
                        params = {name: params[name] for name in wants[i]}
                    found = rules[i](cotangent, *read, **params)
                elif not read:
                    found = rules[i](cotangent)
                elif len(read) == 1:
                    found = rules[i](cotangent, read[0])
                else:
                    found = rules[i](cotangent, *read)
                if specs is not None and specs[i] is not None:
                    found = fitted(found, specs[i])
            except MemoryError as error:
                found = None
                what = f"The gradient of {primitive.name}"
                again = partial(apply_rule, node, i, cotangent)
                found = recover(what, (cotangent,), again, error, (node,))
            if source in cotangents:
                cotangents[source] = self.accumulate(source, cotangents[source], found)
            else:
                cotangents[source] = found
        return ()
