"""DataParallel and ModelParallel: how `fit` divides batches and weights among processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.core.world import size_of
from tapegrad.distribute.datasets import distribute_batches
from tapegrad.distribute.mirrored import equalize_models
from tapegrad.distribute.process_group import init
from tapegrad.errors import ArgumentError
from tapegrad.keras.distribution.layout_map import LayoutMap
from tapegrad.keras.distribution.mesh import DeviceMesh, TensorLayout, list_devices
from tapegrad.keras.distribution.parallel_calls import parallel_call
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.units import (
    can_be_sharded,
    read_by_calls,
    units_of,
    weights_of_unit,
)
from tapegrad.keras.models.replicated import prepare_by
from tapegrad.ops.collective.parts import gather_shards_p, join_in_group_p
from tapegrad.ops.collective.replicas import own_replica, set_replicas
from tapegrad.ops.collective.sharded_weights import ShardedWeight, cut_variable, sharded_weight


class Distribution:
    """Base class: a mesh, and the axis along which batches are divided.

    >>> Distribution(DeviceMesh((1, 1), ["batch", "model"])).batch_dim_name
    'batch'
    """

    def __init__(self, device_mesh: DeviceMesh, batch_dim_name: str | None = None) -> None:
        self.device_mesh = device_mesh
        self.batch_dim_name = batch_dim_name or device_mesh.axis_names[0]
        self._prepared: set[int] = set()
        """The numbers of the variables that are the same in all processes, or divided."""

    def get_data_layout(self, data_shape: Sequence[Any]) -> TensorLayout:
        """Return the layout of a batch: its first axis is divided."""
        axes = [self.batch_dim_name, *[None] * (len(data_shape) - 1)]
        return TensorLayout(axes, self.device_mesh)

    def get_variable_layout(self, variable: Any) -> TensorLayout:
        """Return the layout of a variable, or of a path."""
        return TensorLayout([None] * len(variable.shape), self.device_mesh)

    def get_tensor_layout(self, path: str) -> TensorLayout | None:
        """Return the layout of the tensor or variable at a path, None if it is whole."""
        return None

    def distribute_dataset(self, dataset: Any) -> Any:
        """Return the part of each batch that belongs to this process."""
        place, count = own_replica()
        return dataset if count == 1 else distribute_batches(dataset, place, count)

    @contextmanager
    def scope(self) -> Iterator[Distribution]:
        """Use this distribution inside the block."""
        before = distribution()
        set_distribution(self)
        try:
            yield self
        finally:
            set_distribution(before)

    def shard(self, model: Any) -> None:
        """Divide the weights of a built model; `fit` does it. Further calls change nothing."""
        new = [v for v in model.variables if v.number not in self._prepared]
        if not new:
            return
        equalize_models(new)
        self._prepared |= {variable.number for variable in new}
        for prefix, unit in units_of(model):
            self._shard_unit(prefix, unit)

    def _shard_unit(self, prefix: str, unit: Layer) -> None:
        layers: dict[Layer, None] = {}
        weights = []
        for path, layer, variable in weights_of_unit(unit, prefix):
            layout = self.get_tensor_layout(path)
            weight = sharded_weight(variable) or _weight_of(self, path, variable, layout)
            if weight is None:
                continue
            if not can_be_sharded(layer, variable):
                raise ArgumentError(
                    f"{path!r} cannot be divided, because it has a regularizer or a constraint. "
                    "Leave it out of the LayoutMap."
                )
            if sharded_weight(variable) is None:
                cut_variable(variable, weight)
            weights.append(weight)
            layers[layer] = None
        if weights:
            read_by_calls(list(layers))
            unit.__dict__["call"] = parallel_call(unit, weights)


def _weight_of(
    owner: Distribution, path: str, variable: Variable, layout: TensorLayout | None
) -> ShardedWeight | None:
    """Return how a variable is divided, or None if it stays whole."""
    axes = () if layout is None else layout.axes
    divided = [(axis, name) for axis, name in enumerate(axes) if name is not None]
    mesh, shape = owner.device_mesh, tuple(variable.shape)
    if not divided:
        return None
    if len(axes) != len(shape) or len(divided) > 1:
        raise ArgumentError(
            f"The layout {axes} of {path!r} must have one entry for each axis of its shape "
            f"{shape}, and divide one axis."
        )
    axis, name = divided[0]
    group = mesh.group_along(name)
    if name == owner.batch_dim_name:
        return ShardedWeight(shape, gather_shards_p, {"shape": shape, "group": group})
    if shape[axis] % size_of(group):
        raise ArgumentError(
            f"Axis {axis} of {path!r} has length {shape[axis]}, which the {size_of(group)} "
            f"processes along {name!r} do not divide."
        )
    return ShardedWeight(shape, join_in_group_p, {"axis": axis - len(shape), "group": group})


class DataParallel(Distribution):
    """Each process has the whole model and a part of every batch.

    >>> DataParallel().device_mesh.shape
    (1,)
    """

    def __init__(
        self, device_mesh: Any = None, devices: Any = None, auto_shard_dataset: bool = True
    ) -> None:
        init()
        if device_mesh is None:
            names = list_devices() if devices is None else list(devices)
            device_mesh = DeviceMesh((len(names),), ["batch"], names)
        super().__init__(device_mesh)
        self.auto_shard_dataset = auto_shard_dataset


class ModelParallel(Distribution):
    """Weights are divided as a LayoutMap says, and batches along one axis of its mesh.

    >>> layouts = LayoutMap(DeviceMesh((1, 1), ["batch", "model"]))
    >>> layouts["kernel"] = (None, "model")
    >>> ModelParallel(layout_map=layouts, batch_dim_name="batch").get_tensor_layout("dense/kernel")
    <TensorLayout axes=(None, 'model')>
    """

    def __init__(
        self,
        *,
        layout_map: LayoutMap | None = None,
        batch_dim_name: str | None = None,
        auto_shard_dataset: bool = True,
        **kwargs: Any,
    ) -> None:
        init()
        if not isinstance(layout_map, LayoutMap):
            raise ArgumentError(
                f"ModelParallel needs layout_map=LayoutMap(mesh). Got {type(layout_map).__name__}."
            )
        super().__init__(layout_map.device_mesh, batch_dim_name)
        self.layout_map, self.auto_shard_dataset = layout_map, auto_shard_dataset

    def get_variable_layout(self, variable: Any) -> TensorLayout:
        found: TensorLayout | None = self.layout_map[variable.name.removesuffix(":0")]
        return found or super().get_variable_layout(variable)

    def get_tensor_layout(self, path: str) -> TensorLayout | None:
        found: TensorLayout | None = self.layout_map[path]
        return found


class _State:
    """The distribution in use."""

    current: Distribution | None = None


def distribution() -> Distribution | None:
    """Return the distribution in use, or None.

    >>> distribution() is None
    True
    """
    return _State.current


def set_distribution(value: Distribution | None) -> None:
    """Use a distribution from now on, for models that `fit` trains; None ends it.

    >>> set_distribution(DataParallel())
    >>> distribution().batch_dim_name
    'batch'
    >>> set_distribution(None)
    """
    if value is not None and not isinstance(value, Distribution):
        raise ArgumentError(
            "set_distribution takes DataParallel, ModelParallel or None. "
            f"Got {type(value).__name__}."
        )
    _State.current = value
    if value is None:
        set_replicas(1, None)
        prepare_by(lambda model: None)
        return
    group = value.device_mesh.group_along(value.batch_dim_name)
    set_replicas(len(group), group)
    prepare_by(value.shard)


def initialize(
    job_addresses: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Join the processes that a launcher has started; the arguments are those of its environment.

    >>> initialize()
    """
    init()
