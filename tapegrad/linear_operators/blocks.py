"""Block vectors: the arguments and results of operators that are made of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.linear_operators.arguments import batch_of, right_side
from tapegrad.linear_operators.base import LinearOperator
from tapegrad.ops.creation import zeros
from tapegrad.ops.linalg.common import adjoint_of
from tapegrad.ops.shape.functions import broadcast_to
from tapegrad.ops.shape.joining import concat, split
from tapegrad.ops.shape.primitives import reshape_p


def join(parts: Sequence[Any], axis: int, rank: int | None = None) -> Any:
    """Concatenate parts whose batches may differ; a batch has all but the last `rank` axes."""
    inner = -axis if rank is None else rank
    batch = batch_of(*(tuple(part.shape[:-inner]) for part in parts))
    return concat([broadcast_to(part, (*batch, *part.shape[-inner:])) for part in parts], axis)


class BlockOperator(LinearOperator):
    """An operator that takes vectors and matrices whole, or as a list of their blocks of rows.

    Subclasses define `_multiply` and `_divide`, which take and return lists of blocks.
    """

    def _block_sizes(self, axis: int) -> list[int]:
        raise NotImplementedError

    def _multiply(self, parts: list[Any], adjoint: bool) -> list[Any]:
        raise NotImplementedError

    def _divide(self, parts: list[Any], adjoint: bool) -> list[Any]:
        raise NotImplementedError

    def _is_blockwise(self, x: Any, sizes: list[int], axis: int) -> bool:
        """Return whether a list holds the blocks of a value, and not its rows."""
        if not isinstance(x, list | tuple) or len(x) != len(sizes):
            return False
        shapes = [getattr(part, "shape", None) for part in x]
        return all(
            isinstance(shape, tuple) and len(shape) >= -axis and shape[axis] == size
            for shape, size in zip(shapes, sizes, strict=True)
        )

    def _each_block(
        self,
        x: Any,
        sizes: list[int],
        run: Callable[[list[Any]], list[Any]],
        name: str,
        is_vector: bool,
        adjoint_arg: bool = False,
    ) -> Any:
        given = -1 if is_vector or adjoint_arg else -2
        is_blockwise = self._is_blockwise(x, sizes, given)
        rank = 1 if is_vector else 2
        parts = [right_side(part, self.dtype, name, rank) for part in (x if is_blockwise else [x])]
        if is_vector:
            parts = [reshape_p(part, shape=(*part.shape, 1)) for part in parts]
        elif adjoint_arg:
            parts = [adjoint_of(part) for part in parts]
        if not is_blockwise:
            if parts[0].shape[-2] != sum(sizes):
                raise ShapeError(
                    f"{name} of an operator of shape {tuple(self.shape)} needs {sum(sizes)} rows, "
                    f"or a list of blocks with {sizes} rows. Got {parts[0].shape[-2]}."
                )
            parts = split(parts[0], sizes, axis=-2)
        found = run(parts)
        if is_vector:
            found = [reshape_p(part, shape=tuple(part.shape[:-1])) for part in found]
        return found if is_blockwise else join(found, -rank)

    def matmul(
        self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul"
    ) -> Any:
        """Return A @ x, for a matrix, a list of blocks of its rows, or an operator."""
        if isinstance(x, LinearOperator):
            return super().matmul(x, adjoint, adjoint_arg)
        sizes = self._block_sizes(-2 if adjoint else -1)
        run = self._run(self._multiply, adjoint)
        return self._each_block(x, sizes, run, "matmul", False, adjoint_arg)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """Return A @ x, for vectors, or a list of their blocks."""
        sizes = self._block_sizes(-2 if adjoint else -1)
        return self._each_block(x, sizes, self._run(self._multiply, adjoint), "matvec", True)

    def solve(
        self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve"
    ) -> Any:
        """Return X with A @ X = rhs, for a matrix, a list of blocks of its rows, or an operator."""
        if isinstance(rhs, LinearOperator):
            return super().solve(rhs, adjoint, adjoint_arg)
        self._check_solvable("solve")
        run = self._run(self._divide, adjoint)
        return self._each_block(rhs, self._block_sizes(-2), run, "solve", False, adjoint_arg)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """Return x with A @ x = rhs, for vectors, or a list of their blocks."""
        self._check_solvable("solvevec")
        run = self._run(self._divide, adjoint)
        return self._each_block(rhs, self._block_sizes(-2), run, "solvevec", True)

    def _run(self, method: Any, adjoint: bool) -> Callable[[list[Any]], list[Any]]:
        return lambda parts: method(parts, bool(adjoint))

    def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        parts = split(x, self._block_sizes(-2 if adjoint else -1), axis=-2)
        return join(self._multiply(parts, adjoint), -2)

    def _solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
        return join(self._divide(split(rhs, self._block_sizes(-2), axis=-2), adjoint), -2)

    def _blocks_to_dense(self, rows: Sequence[Sequence[LinearOperator | None]]) -> Any:
        """Return the matrix of a table of operators; None is a block of zeros."""
        heights, widths = self._block_sizes(-2), self._block_sizes(-1)
        strips = []
        for height, row in zip(heights, rows, strict=True):
            empty = [zeros((height, width), dtype=self.dtype) for width in widths]
            parts = [
                zero if operator is None else operator.to_dense()
                for zero, operator in zip(empty, row, strict=True)
            ]
            strips.append(join(parts, -1, rank=2))
        return join(strips, -2)
