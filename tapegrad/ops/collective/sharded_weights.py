"""Weights of which each process holds a part, and how layers read them.

The variable of such a weight has the part as its value. A layer that reads the weight during a
call gets the whole, gathered from all processes; a tape sends each process the gradient of its
part. While a *unit* (usually one layer) computes, the whole is kept; then it is freed.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values.tensor import wrap
from tapegrad.core.values.variable import Variable
from tapegrad.core.world import Group
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.collective.parts import gather_shards_p, own_part, own_shard


class ShardedWeight:
    """How the parts of a weight become the whole.

    A weight that is `summed` has gradients that are added over all replicas when the tape computes
    them; others are the parts of tensor parallelism.
    """

    def __init__(
        self, shape: Sequence[int], primitive: Primitive, params: Mapping[str, Any]
    ) -> None:
        self.shape = tuple(shape)
        self.primitive = primitive
        self.params = dict(params)
        self.part: Any = None
        """The operand that the present unit has gathered."""
        self.whole: Any = None
        """The whole weight, while a unit computes with it."""
        self.is_kept = False

    @property
    def is_summed(self) -> bool:
        return self.primitive is gather_shards_p

    @property
    def group(self) -> Group:
        """The processes that hold the parts."""
        group: Group = self.params["group"]
        return group

    def gather(self, part: Any) -> Any:
        """Return the whole weight, as a tensor or a raw array like the part of this process."""
        return self.primitive(part, **self.params)

    def cut(self, whole: Any) -> Any:
        """Return the part of this process of a raw array that all processes have."""
        xp = backend_of(whole).xp
        if self.is_summed:
            return own_shard(xp, whole, group=self.group)
        return own_part(xp, whole, **self.params)

    def read(self, variable: Variable, dtype: str | None) -> Any:
        """Return the whole weight as an operand, in another dtype if one is given."""
        if self.whole is not None:
            return self.whole
        # Fewer bytes travel in half precision.
        part = as_operand(
            variable if dtype in (None, variable.dtype.name) else cast(variable, dtype)
        )
        whole = self.gather(part)
        if self.is_kept:
            self.part, self.whole = part, whole
        return whole


_weights: dict[int, ShardedWeight] = {}
"""By the numbers of variables, which are never used again."""


def cut_variable(variable: Variable, weight: ShardedWeight) -> None:
    """Let a variable that holds a whole weight hold the part of this process."""
    variable.become(wrap(weight.cut(variable.array)))
    set_sharded(variable, weight)


def set_sharded(variable: Variable, weight: ShardedWeight | None) -> None:
    """Note that the value of a variable is a part, or with None that it is the whole again."""
    if weight is None:
        _weights.pop(variable.number, None)
    else:
        _weights[variable.number] = weight
        weakref.finalize(variable, _weights.pop, variable.number, None).atexit = False


def sharded_weight(variable: Variable) -> ShardedWeight | None:
    """Return how a variable is sharded, or None.

    >>> sharded_weight(Variable(1.0)) is None
    True
    """
    return _weights.get(variable.number)


def any_sharded() -> bool:
    """Return whether any variable of this process is sharded."""
    return bool(_weights)


def is_sharded(variable: Variable) -> bool:
    """Return whether the value of a variable is a part of a weight.

    >>> is_sharded(Variable(1.0))
    False
    """
    return variable.number in _weights


def is_summed(variable: Variable) -> bool:
    """Return whether tapes add the gradients of a variable over all replicas.

    >>> is_summed(Variable(1.0))
    False
    """
    weight = _weights.get(variable.number)
    return weight is not None and weight.is_summed


def read_weight(variable: Variable, dtype: str | None) -> Any:
    """Return what a layer computes with: the whole weight, in another dtype if one is given.

    >>> read_weight(Variable(1.0), "float16").dtype.name
    'float16'
    """
    weight = _weights.get(variable.number)
    if weight is not None:
        return weight.read(variable, dtype)
    return variable if dtype is None else cast(variable, dtype)


@contextmanager
def keeping(weights: Sequence[ShardedWeight]) -> Iterator[None]:
    """Gather each weight once inside the block, and free all of them at its end."""
    for weight in weights:
        weight.is_kept = True
    try:
        yield
    finally:
        for weight in weights:
            weight.is_kept, weight.part, weight.whole = False, None, None
