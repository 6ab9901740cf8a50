"""TensorFlow's `tf.DeviceSpec`: the name of a device in parts."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.errors import ArgumentError

_PARTS = re.compile(
    r"(?:/job:(?P<job>[A-Za-z]\w*))?(?:/replica:(?P<replica>\d+))?(?:/task:(?P<task>\d+))?"
    r"(?:/(?:device:)?(?P<device_type>[A-Za-z]+)(?::(?P<device_index>\d+|\*))?)?"
)


@dataclass(frozen=True)
class DeviceSpec:
    """The parts of the name of a device; `device` takes what `to_string` returns.

    >>> DeviceSpec(device_type="GPU", device_index=0).to_string()
    '/device:GPU:0'
    >>> DeviceSpec.from_string("/job:worker/task:1/cpu:0").device_type
    'CPU'
    """

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    device_type: str | None = None
    device_index: int | None = None

    def __post_init__(self) -> None:
        for name in ("replica", "task", "device_index"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 0):
                raise ArgumentError(f"{name} must be an integer from 0, or None. Got {value!r}.")
        if self.device_type is not None:
            object.__setattr__(self, "device_type", str(self.device_type).upper())

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Return the parts of a name such as "/job:worker/task:0/device:GPU:1"."""
        found = _PARTS.fullmatch(spec)
        if found is None:
            raise ArgumentError(
                "The name of a device looks like '/job:worker/replica:0/task:0/device:GPU:0'. "
                f"Got {spec!r}."
            )
        parts: dict[str, Any] = {
            key: int(one) if one.isdigit() else one
            for key, one in found.groupdict().items()
            if one and one != "*"
        }
        return cls(**parts)

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Return the parts of a name."""
        return type(self).from_string(spec)

    def to_string(self) -> str:
        """Return the name of the device."""
        parts = [("job", self.job), ("replica", self.replica), ("task", self.task)]
        name = "".join([f"/{key}:{value}" for key, value in parts if value is not None])
        if self.device_type is not None:
            index = "*" if self.device_index is None else self.device_index
            name += f"/device:{self.device_type}:{index}"
        return name

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Return these parts, replaced by those that `dev` has."""
        if not isinstance(dev, DeviceSpec):
            raise ArgumentError(f"make_merged_spec takes a DeviceSpec. Got {dev!r}.")
        return replace(self, **{key: one for key, one in vars(dev).items() if one is not None})

    def replace(self, **kwargs: Any) -> DeviceSpec:
        """Return the spec with other values of some parts."""
        unknown = {*kwargs} - {*vars(self)}
        if unknown:
            raise ArgumentError(
                f"A DeviceSpec has the parts {', '.join(vars(self))}. Got {sorted(unknown)[0]!r}."
            )
        return replace(self, **kwargs)


_check_calls(globals(), ("DeviceSpec",), ("from_string", "parse_from_string"))
