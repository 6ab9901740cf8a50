"""Dtype policies: the dtype of weights and the dtype of computation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, ArgumentTypeError
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


def serialize(dtype_policy: DTypePolicy) -> dict[str, Any]:
    """Return the class name and configuration of a policy.

    >>> serialize(DTypePolicy("mixed_bfloat16"))
    {'class_name': 'DTypePolicy', 'config': {'name': 'mixed_bfloat16'}}
    """
    if not isinstance(dtype_policy, DTypePolicy):
        raise ArgumentTypeError(f"serialize takes a DTypePolicy. Got {dtype_policy!r}.")
    return {"class_name": type(dtype_policy).__name__, "config": dtype_policy.get_config()}


def deserialize(config: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Create a policy from the result of `serialize`; `custom_objects` adds classes by name.

    >>> deserialize({"class_name": "DTypePolicy", "config": {"name": "float16"}})
    <DTypePolicy 'float16'>
    """
    if not isinstance(config, Mapping):
        return get(config)
    classes = {"DTypePolicy": DTypePolicy, "FloatDTypePolicy": DTypePolicy}
    known = {**classes, **(custom_objects or {})}
    name = config.get("class_name")
    if name not in known:
        raise ArgumentError(
            f"There is no dtype policy {name!r} here; there are {', '.join(sorted(known))}. Pass "
            "other classes as custom_objects."
        )
    return known[name].from_config(config.get("config", {}))


FloatDTypePolicy = DTypePolicy
"""The name of DTypePolicy in earlier versions of Keras 3."""


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.dtype_policies", name, ["DTypePolicy"])
