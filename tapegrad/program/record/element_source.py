"""What loops of recorded functions read anew at each call: datasets and their iterators."""

from __future__ import annotations


class ElementSource:
    """The base of datasets and of their iterators.

    A program would repeat the elements that its recording has read. So a function with a loop over
    such an object runs its Python code, and each round of the loop is a recorded call; see
    `tapegrad.program.autograph.element_loops`.
    """
