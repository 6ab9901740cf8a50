"""`check_indices`: find indices out of range on devices, where they are not checked otherwise."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tapegrad.core.index_check import checking


def check_indices(on: bool = True) -> AbstractContextManager[None]:
    """Check indices on devices from now on, or until the end of a `with` block; or stop that.

    On the CPU an index out of range is always an error. On a device it is not looked for, because
    the host would have to wait: reading there gives zeros (a label out of range a loss of NaN),
    and what is written there is dropped. With this switch `gather`, `take`, `embedding_lookup`,
    `x[i]`, scatters, segments and sparse labels raise an IndexOutOfRangeError that names the
    function, the index and what is allowed. Each check copies the indices to the host.

    >>> import tapegrad
    >>> with check_indices():
    ...     x = tapegrad.gather(tapegrad.constant([1.0, 2.0]), tapegrad.constant([1, 0]))
    >>> x.numpy().tolist()
    [2.0, 1.0]
    """
    return checking(bool(on))
