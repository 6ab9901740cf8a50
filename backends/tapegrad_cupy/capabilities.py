"""The optional parts of the backend contract that CuPy implements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.capabilities import Capabilities
from tapegrad.core.backend.optional_parts import Pullback
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad_cupy.graphs.capture import CudaGraphCapture
from tapegrad_cupy.kernels.casting.cast_groups import cast_group
from tapegrad_cupy.kernels.casting.multi_casts import cast_many
from tapegrad_cupy.kernels.convolution.convolution import conv_vjp
from tapegrad_cupy.kernels.elementwise.accumulate import add_into
from tapegrad_cupy.kernels.elementwise.vjp import Vjp
from tapegrad_cupy.kernels.fourier.transforms import overwrite_spectra, overwrite_spectrum
from tapegrad_cupy.kernels.indexing.host_rows import place_rows, take_rows
from tapegrad_cupy.kernels.loops.loops import CudaLoopCompiler
from tapegrad_cupy.kernels.products.products import add_product
from tapegrad_cupy.kernels.rows.losses_with_gradients import overwrite_logits
from tapegrad_cupy.kernels.updates.multi_norms import clip_group
from tapegrad_cupy.kernels.updates.multi_updates import average_group, update_group
from tapegrad_cupy.kernels.updates.row_updates import adagrad_rows_in_place, sgd_rows_in_place
from tapegrad_cupy.launch.multi_tensors import on_device
from tapegrad_cupy.nccl import Nccl
from tapegrad_cupy.runtime.array_limits import check_dimensions
from tapegrad_cupy.runtime.host_to_device import place_batch


class CudaPullbacks:
    """Pullbacks in one launch, traced from the VJP rules of elementwise primitives."""

    def pullback(self, primitive: str) -> Pullback | None:
        if primitive == "conv":
            return conv_vjp
        found = PRIMITIVES[primitive]
        return Vjp(found) if found.broadcasts and found.vjp_rules is not None else None


class CudaInPlaceKernels:
    """Kernels that overwrite an operand."""

    _accumulating: dict[str, Callable[..., bool]] = {"matmul": add_product}  # noqa: RUF012
    _overwriting: dict[str, Callable[..., Any]] = {  # noqa: RUF012
        "adagrad_rows_update": adagrad_rows_in_place,
        "inverse_real_fourier": overwrite_spectrum,
        "inverse_real_fourier_nd": overwrite_spectra,
        "sgd_rows_update": sgd_rows_in_place,
        "sparse_cross_entropy_and_gradient": overwrite_logits,
    }

    add = staticmethod(add_into)

    def accumulate(self, primitive: str) -> Callable[..., bool] | None:
        return self._accumulating.get(primitive)

    def overwrite(self, primitive: str) -> Callable[..., Any] | None:
        return self._overwriting.get(primitive)


class CudaCasts:
    """Casts of many arrays in one launch."""

    cast = staticmethod(cast_many)
    prepare = staticmethod(cast_group)


class CudaUpdates:
    """Optimizer steps of many variables in one launch or two."""

    prepare = staticmethod(update_group)
    prepare_averages = staticmethod(average_group)
    clip = staticmethod(clip_group)


class CudaRows:
    """Gathers rows whose indices are on the host."""

    take = staticmethod(take_rows)
    place = staticmethod(place_rows)


class CudaBatches:
    """Places the arrays of a batch in one copy, or while the previous step computes."""

    def place(self, values: Sequence[np.ndarray], device: str, as_one: bool) -> list[Any]:
        for value in values:
            check_dimensions(value.shape)
        with on_device(int(device.partition(":")[2])):
            return place_batch(values, as_one)


CAPABILITIES = Capabilities(
    pullbacks=CudaPullbacks(),
    in_place=CudaInPlaceKernels(),
    loops=CudaLoopCompiler(),
    capture=CudaGraphCapture(),
    casts=CudaCasts(),
    updates=CudaUpdates(),
    rows=CudaRows(),
    batches=CudaBatches(),
    communication=Nccl(),
    fused_rounds=True,
)
