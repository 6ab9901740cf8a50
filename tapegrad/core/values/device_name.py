"""The name of a tensor's device, which also answers to TensorFlow's long form of it."""

from __future__ import annotations

from functools import lru_cache
from typing import SupportsIndex

_HOST = "/job:localhost/replica:0/task:0/device:"
_KINDS = {"cpu": "CPU", "cuda": "GPU"}


class DeviceName(str):
    """A name such as "cpu" or "cuda:0", found also by the ends and parts of TensorFlow's name.

    It is the short string in every other respect, and `tensorflow` is the long one.

    >>> name = DeviceName("cpu")
    >>> name, name.endswith("CPU:0"), "GPU" in name
    ('cpu', True, False)
    >>> name.tensorflow
    '/job:localhost/replica:0/task:0/device:CPU:0'
    """

    __slots__ = ()

    @property
    def tensorflow(self) -> str:
        """TensorFlow's name of the device."""
        kind, _, number = self.partition(":")
        return f"{_HOST}{_KINDS.get(kind, kind.upper())}:{number or 0}"

    def endswith(
        self,
        suffix: str | tuple[str, ...],
        start: SupportsIndex | None = None,
        end: SupportsIndex | None = None,
        /,
    ) -> bool:
        names = (str(self), self.tensorflow)
        return any(name.endswith(suffix, start, end) for name in names)

    def startswith(
        self,
        prefix: str | tuple[str, ...],
        start: SupportsIndex | None = None,
        end: SupportsIndex | None = None,
        /,
    ) -> bool:
        names = (str(self), self.tensorflow)
        return any(name.startswith(prefix, start, end) for name in names)

    def __contains__(self, part: object) -> bool:
        return super().__contains__(part) or part in self.tensorflow  # type: ignore[operator]


@lru_cache(maxsize=64)
def device_name(name: str) -> DeviceName:
    """Return a backend's name of a device as one that also answers to TensorFlow's form."""
    return DeviceName(name)
