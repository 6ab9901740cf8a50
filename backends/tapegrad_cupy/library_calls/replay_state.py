"""Whether library calls are replayed on this machine, for `tapegrad info`."""

from __future__ import annotations

import cupy
import numpy as np

from tapegrad.errors import BackendUnavailableError
from tapegrad_cupy import switches
from tapegrad_cupy.library_calls import cublaslt
from tapegrad_cupy.library_calls.library_replay import CALLS_BEFORE, count_differing
from tapegrad_cupy.library_calls.product_steps import Gemm

_SIZE = 64


def replay_state() -> str:
    """Say whether library calls are replayed, or why not."""
    if not switches.LIBRARY_REPLAY:
        return "off: the environment variable TAPEGRAD_LIBRARY_REPLAY turns it off"
    if cublaslt.REASON:
        return f"off: {cublaslt.REASON}"
    reason = _try_product()
    if reason:
        return f"off for a product of cuBLASLt: {reason}"
    state = "used: a replayed product of cuBLASLt gave the same bits as the library"
    differing = count_differing()
    return f"{state}. {differing} plans did not and are not replayed" if differing else state


def _try_product() -> str:
    """Replay a small product; return why that is not possible, or ""."""
    rng = np.random.default_rng(0)
    a, b, d = (cupy.asarray(rng.normal(size=(_SIZE, _SIZE)).astype("f2")) for _ in range(3))
    gemm = Gemm(_SIZE, _SIZE, _SIZE, False, False, _SIZE, _SIZE)
    stream = cupy.cuda.get_current_stream().ptr
    try:
        product = cublaslt.Product(gemm, "float16", False, cupy.cuda.runtime.getDevice())
        for _ in range(CALLS_BEFORE + 1):
            product(a.data.ptr, b.data.ptr, d.data.ptr, stream)
    except (cublaslt.UnsupportedError, BackendUnavailableError) as error:
        return f"{type(error).__name__}: {error}"
    return product.why_not_replayed
