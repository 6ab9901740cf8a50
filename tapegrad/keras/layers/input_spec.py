"""InputSpec: what a layer expects of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError, DTypeError, ShapeError


class InputSpec:
    """The rank, dtype and sizes that a layer expects of an input; None means any.

    A layer sets `self.input_spec` to one, or to a structure of several, and calls check it.

    >>> InputSpec(min_ndim=2, axes={-1: 3})
    InputSpec(min_ndim=2, axes={-1: 3})
    >>> InputSpec(shape=(None, 3)).ndim
    2
    """

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[int, int | None] | None = None,
        allow_last_axis_squeeze: bool = False,
        name: str | None = None,
        optional: bool = False,
    ) -> None:
        self.dtype = None if dtype is None else str(getattr(dtype, "name", dtype))
        self.shape = None if shape is None else tuple(shape)
        self.ndim = ndim if self.shape is None else len(self.shape)
        self.max_ndim, self.min_ndim = max_ndim, min_ndim
        self.axes = {int(axis): size for axis, size in (axes or {}).items()}
        self.allow_last_axis_squeeze = allow_last_axis_squeeze
        self.name, self.optional = name, optional
        most = ndim if ndim is not None else max_ndim
        if most is not None and self.axes and max(self.axes) >= most:
            raise ArgumentError(
                f"axes of an InputSpec must be below ndim={most}. Got {max(self.axes)}."
            )

    def __repr__(self) -> str:
        shown = {
            "dtype": self.dtype,
            "shape": self.shape,
            "ndim": self.ndim if self.shape is None else None,
            "max_ndim": self.max_ndim,
            "min_ndim": self.min_ndim,
            "axes": self.axes or None,
        }
        return f"InputSpec({', '.join(f'{k}={v}' for k, v in shown.items() if v is not None)})"

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments that `from_config` takes."""
        names = ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes", "optional")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Create a spec from the result of `get_config`."""
        return cls(**config)


def check_inputs(layer: Any, inputs: Any) -> None:
    """Raise an error unless the inputs of a call are what `layer.input_spec` says."""
    specs, values = nest.flatten(layer.input_spec), _in_order(layer, inputs)
    if len(values) != len(specs):
        raise ShapeError(f"{layer._title} takes {len(specs)} inputs. Got {len(values)}.")
    for spec, value in zip(specs, values):
        if value is None and spec is not None and spec.optional:
            continue
        if spec is not None and hasattr(value, "shape"):
            _check_one(
                layer, spec, tuple(value.shape), str(getattr(value.dtype, "name", value.dtype))
            )


def _in_order(layer: Any, inputs: Any) -> list[Any]:
    """Return the inputs as a list; a dict is read by the names of the specs."""
    specs = layer.input_spec
    if isinstance(inputs, dict) and isinstance(specs, list | tuple):
        names = [spec.name for spec in specs]
        if all(name in inputs for name in names):
            return [inputs[name] for name in names]
    return nest.flatten(inputs)


def _check_one(layer: Any, spec: InputSpec, shape: tuple[int | None, ...], dtype: str) -> None:
    rank = len(shape)
    if spec.ndim is not None and rank != spec.ndim and not _may_squeeze(spec, shape):
        _refuse(layer, f"inputs of {spec.ndim} dimensions", shape)
    if spec.max_ndim is not None and rank > spec.max_ndim:
        _refuse(layer, f"inputs of at most {spec.max_ndim} dimensions", shape)
    if spec.min_ndim is not None and rank < spec.min_ndim:
        _refuse(layer, f"inputs of at least {spec.min_ndim} dimensions", shape)
    if spec.dtype is not None and dtype != spec.dtype:
        raise DTypeError(f"{layer._title} takes inputs of {spec.dtype}. Got {dtype}.")
    for axis, size in spec.axes.items():
        in_range = -rank <= axis < rank
        if size is not None and (not in_range or shape[axis] not in (size, None)):
            _refuse(layer, f"inputs with {size} elements along axis {axis}", shape)
    if spec.shape is not None and rank == len(spec.shape):
        fits = all(a in (None, b) or b is None for a, b in zip(spec.shape, shape))
        if not fits:
            _refuse(layer, f"inputs of shape {spec.shape}", shape)


def _may_squeeze(spec: InputSpec, shape: tuple[int | None, ...]) -> bool:
    """Whether the rank may differ by a last axis of one element."""
    if not spec.allow_last_axis_squeeze or spec.ndim is None:
        return False
    if len(shape) == spec.ndim + 1:
        return shape[-1] == 1
    return len(shape) == spec.ndim - 1 and (spec.shape is None or spec.shape[-1] == 1)


def _refuse(layer: Any, what: str, shape: tuple[int | None, ...]) -> None:
    raise ShapeError(f"{layer._title} takes {what}. Got shape {shape}.")
