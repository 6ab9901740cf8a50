"""Dtype policies: the dtype of weights and the dtype of computation."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.configured import Configured

_MIXED = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}


class DTypePolicy(Configured):
    """The dtype of variables and the dtype of computation.

    The name of a dtype sets both. "mixed_bfloat16" and "mixed_float16" keep variables in float32.

    >>> policy = DTypePolicy("mixed_bfloat16")
    >>> policy.variable_dtype, policy.compute_dtype
    ('float32', 'bfloat16')
    """

    def __init__(self, name: str) -> None:
        self.name = name
        if name in _MIXED:
            self.variable_dtype, self.compute_dtype = "float32", _MIXED[name]
            return
        try:
            self.variable_dtype = self.compute_dtype = as_dtype(name).name
        except TypeError as error:
            raise ArgumentError(
                f"A dtype policy must be the name of a dtype or one of "
                f"{', '.join(sorted(_MIXED))}. "
                f"Got {name!r}."
            ) from error

    @property
    def is_mixed(self) -> bool:
        """Whether the dtype of variables differs from the dtype of computation."""
        return self.variable_dtype != self.compute_dtype

    def __repr__(self) -> str:
        return f"<DTypePolicy {self.name!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypePolicy) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class _Global:
    policy = DTypePolicy("float32")


def set_dtype_policy(policy: Any) -> None:
    """Set the default policy of layers that are created from now on.

    >>> set_dtype_policy("mixed_bfloat16")
    >>> dtype_policy()
    <DTypePolicy 'mixed_bfloat16'>
    >>> set_dtype_policy("float32")
    """
    _Global.policy = get(policy)


def dtype_policy() -> DTypePolicy:
    """Return the default policy of layers."""
    return _Global.policy


def get(identifier: Any) -> DTypePolicy:
    """Return the policy for a name, a dtype or a configuration; None gives the default policy."""
    if identifier is None:
        return _Global.policy
    if isinstance(identifier, DTypePolicy):
        return identifier
    if isinstance(identifier, dict):
        return DTypePolicy.from_config(identifier.get("config", {}))
    name = identifier if isinstance(identifier, str) else as_dtype(identifier).name
    return DTypePolicy(name)


def __getattr__(name: str) -> Any:
    raise _absent_name("keras.dtype_policies", name, ["DTypePolicy"])
