"""`check_indices`: find indices out of range on devices, which do not check them by default."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tapegrad.core.primitive.index_check import checking


def check_indices(on: bool = True) -> AbstractContextManager[None]:
    """Switch the check of indices on devices on or off; in a `with` block, until its end.

    On the CPU an index out of range is always an error. On a device the check is off by default,
    because it makes the host wait: reads out of range give zeros, a label out of range gives a
    loss of NaN, and writes out of range are dropped. With this switch `gather`, `take`,
    `embedding_lookup`, `x[i]`, scatters, segments and sparse labels raise an IndexOutOfRangeError
    that names the function, the index and the allowed range. Each check copies the indices to the
    host.

    >>> import tapegrad
    >>> with check_indices():
    ...     x = tapegrad.gather(tapegrad.constant([1.0, 2.0]), tapegrad.constant([1, 0]))
    >>> x.numpy().tolist()
    [2.0, 1.0]
    """
    return checking(bool(on))
