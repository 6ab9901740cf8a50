"""A third backend: array_api_strict arrays on a device that is not the host.

It stands in for a GPU in the tests. It refuses implicit host copies, mixed devices and everything
beyond the Array API, so a test suite that passes on it never touches the host in rules or in the
engine. It is written against the backend contract alone (`tapegrad.core.backend`), in plain Python,
and implements every optional part of the contract in its simplest form:

- `backend.py`: devices, placement and the list of capabilities
- `namespace.py`: array_api_strict with NumPy dtypes and the second device as default
- `kernels.py`: kernels of the primitives that have no generic form
- `loops.py`: fused loops, one element after the other
- `derivatives.py`: pullbacks, in-place kernels and casts
- `training.py`: grouped optimizer steps and batches of rows
- `capture.py`: programs that overwrite variables
"""

from tapegrad_strict.backend import StrictBackend, StrictMemory, load
from tapegrad_strict.namespace import DEVICE, Array, forbidding_reads, pack, unpack

__all__ = [
    "DEVICE",
    "Array",
    "StrictBackend",
    "StrictMemory",
    "forbidding_reads",
    "load",
    "pack",
    "unpack",
]
