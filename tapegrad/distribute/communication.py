"""How several replicas exchange values; one replica has nothing to exchange."""

from __future__ import annotations

from enum import Enum
from typing import Any


class CrossDeviceOps:
    """Base class of the ways to add the values of several devices; one device needs none.

    >>> isinstance(NcclAllReduce(), CrossDeviceOps)
    True
    """


class HierarchicalCopyAllReduce(CrossDeviceOps):
    """Add values in groups of devices.

    >>> HierarchicalCopyAllReduce(num_packs=2).num_packs
    2
    """

    def __init__(self, num_packs: int = 1) -> None:
        self.num_packs = num_packs


class NcclAllReduce(CrossDeviceOps):
    """Add values with NCCL.

    >>> NcclAllReduce().num_packs
    1
    """

    def __init__(self, num_packs: int = 1) -> None:
        self.num_packs = num_packs


class ReductionToOneDevice(CrossDeviceOps):
    """Add values on one device.

    >>> ReductionToOneDevice().reduce_to_device is None
    True
    """

    def __init__(self, reduce_to_device: Any = None, accumulation_fn: Any = None) -> None:
        self.reduce_to_device, self.accumulation_fn = reduce_to_device, accumulation_fn


class CommunicationImplementation(Enum):
    """The library that several workers would use.

    >>> CommunicationImplementation("NCCL").name
    'NCCL'
    """

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


class CommunicationOptions:
    """Options of exchanges between workers; they are kept and change nothing.

    >>> CommunicationOptions().implementation.name
    'AUTO'
    """

    def __init__(
        self,
        bytes_per_pack: int = 0,
        timeout_seconds: float | None = None,
        implementation: Any = CommunicationImplementation.AUTO,
    ) -> None:
        self.bytes_per_pack, self.timeout_seconds = bytes_per_pack, timeout_seconds
        self.implementation = CommunicationImplementation(implementation)


class InputOptions:
    """Options of distributed datasets; they are kept and change nothing.

    >>> InputOptions().experimental_fetch_to_device is None
    True
    """

    def __init__(
        self,
        experimental_fetch_to_device: bool | None = None,
        experimental_replication_mode: Any = None,
        experimental_place_dataset_on_device: bool = False,
        experimental_per_replica_buffer_size: int = 1,
    ) -> None:
        self.experimental_fetch_to_device = experimental_fetch_to_device
        self.experimental_replication_mode = experimental_replication_mode
        self.experimental_place_dataset_on_device = experimental_place_dataset_on_device
        self.experimental_per_replica_buffer_size = experimental_per_replica_buffer_size


class RunOptions:
    """Options of `Strategy.run`; they are kept and change nothing.

    >>> RunOptions().experimental_enable_dynamic_batch_size
    True
    """

    def __init__(
        self,
        experimental_enable_dynamic_batch_size: bool = True,
        experimental_bucketizing_dynamic_shape: bool = False,
        experimental_xla_options: Any = None,
    ) -> None:
        self.experimental_enable_dynamic_batch_size = experimental_enable_dynamic_batch_size
        self.experimental_bucketizing_dynamic_shape = experimental_bucketizing_dynamic_shape
        self.experimental_xla_options = experimental_xla_options
