"""Vector spaces of arrays and containers of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, ClassVar

import numpy as np

from tapegrad.compat.autograd.values import as_tensor, is_tensor, plain, uses_tensors
from tapegrad.core.values import nest
from tapegrad.errors import ArgumentTypeError


class VSpace:
    """The vector space of a value; `vspace(value)` finds it.

    A user-defined space derives from this class, defines the methods whose names begin with an
    underscore, and calls `register`.
    """

    mappings: ClassVar[dict[type, Callable[[Any], Any]]] = {}
    iscomplex: bool = False

    def __init__(self, value: Any) -> None:
        pass

    def zeros(self) -> Any:
        """Return the zero of the space."""
        raise NotImplementedError(f"{type(self).__name__} has no zeros().")

    def ones(self) -> Any:
        """Return the vector of ones."""
        raise NotImplementedError(f"{type(self).__name__} has no ones().")

    def standard_basis(self) -> Iterator[Any]:
        """Yield the unit vectors."""
        raise NotImplementedError(f"{type(self).__name__} has no standard_basis().")

    def randn(self) -> Any:
        """Return a vector of standard normal numbers."""
        raise NotImplementedError(f"{type(self).__name__} has no randn().")

    def add(self, x_prev: Any, x_new: Any) -> Any:
        """Return the sum of two vectors."""
        return self._add(x_prev, x_new)

    def mut_add(self, x_prev: Any, x_new: Any) -> Any:
        """Return the sum; the first vector (None for zeros) may be overwritten."""
        return self._mut_add(self.zeros() if x_prev is None else x_prev, x_new)

    def scalar_mul(self, x: Any, a: Any) -> Any:
        """Return a vector times a number."""
        return self._scalar_mul(x, a)

    def inner_prod(self, x: Any, y: Any) -> Any:
        """Return the inner product of two vectors."""
        return self._inner_prod(x, y)

    def covector(self, x: Any) -> Any:
        """Return the covector of a vector: its conjugate."""
        return self._covector(x)

    def _add(self, x: Any, y: Any) -> Any:
        return x + y

    def _mut_add(self, x: Any, y: Any) -> Any:
        x += y
        return x

    def _scalar_mul(self, x: Any, a: Any) -> Any:
        return x * a

    def _inner_prod(self, x: Any, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _inner_prod(x, y).")

    def _covector(self, x: Any) -> Any:
        return x

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # spaces are compared, not looked up

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {vars(self)}>"

    @classmethod
    def register(cls, value_type: type, vspace_maker: Callable[[Any], Any] | None = None) -> None:
        """Register this space for values of a type."""
        VSpace.mappings[value_type] = cls if vspace_maker is None else vspace_maker


class ArrayVSpace(VSpace):
    """Real arrays of one shape and dtype.

    >>> space = ArrayVSpace(np.zeros((2, 3)))
    >>> space.shape, space.size, space.ones().sum()
    ((2, 3), 6, np.float64(6.0))
    """

    def __init__(self, value: Any) -> None:
        self.shape: tuple[int, ...] = tuple(np.shape(value))
        self.dtype = np.dtype(value.dtype if hasattr(value, "dtype") else type(value))

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def zeros(self) -> Any:
        return _placed(np.zeros(self.shape, self.dtype))

    def ones(self) -> Any:
        return _placed(np.ones(self.shape, self.dtype))

    def standard_basis(self) -> Iterator[Any]:
        for index in np.ndindex(*self.shape):
            vector = np.zeros(self.shape, self.dtype)
            vector[index] = 1
            yield _placed(vector)

    def randn(self) -> Any:
        draws = np.random.randn(*self.shape)  # noqa: NPY002  # seeded by np.random.seed
        return _placed(np.asarray(draws).astype(self.dtype))

    def _mut_add(self, x: Any, y: Any) -> Any:
        if is_tensor(x) or is_tensor(y) or not isinstance(x, np.ndarray):
            return x + y
        x += y
        return x

    def _inner_prod(self, x: Any, y: Any) -> Any:
        return np.sum(np.multiply(x, y))


class ComplexArrayVSpace(ArrayVSpace):
    """Complex arrays, as spaces over the reals: two dimensions per entry."""

    iscomplex = True

    @property
    def size(self) -> int:
        return 2 * prod(self.shape)

    def ones(self) -> Any:
        return _placed(np.full(self.shape, 1.0 + 1.0j, self.dtype))

    def standard_basis(self) -> Iterator[Any]:
        for vector in super().standard_basis():
            yield vector
            yield vector * 1.0j

    def randn(self) -> Any:
        draws = np.random.randn(2, *self.shape)  # noqa: NPY002  # seeded by np.random.seed
        return _placed(np.asarray(draws[0] + 1.0j * draws[1]).astype(self.dtype))

    def _inner_prod(self, x: Any, y: Any) -> Any:
        return np.real(np.sum(np.multiply(np.conj(x), y)))

    def _covector(self, x: Any) -> Any:
        return np.conj(x)


class ContainerVSpace(VSpace):
    """Lists, tuples and dicts: the product of the spaces of their entries.

    >>> ContainerVSpace([1.0, {"a": np.zeros(3)}]).size
    4
    """

    def __init__(self, value: Any) -> None:
        self.shape = _rebuilt(value, [vspace(child) for child in nest.children(value)])

    @property
    def size(self) -> int:
        return sum(space.size for space in nest.children(self.shape))

    def zeros(self) -> Any:
        return self._map(lambda space: space.zeros())

    def ones(self) -> Any:
        return self._map(lambda space: space.ones())

    def randn(self) -> Any:
        return self._map(lambda space: space.randn())

    def standard_basis(self) -> Iterator[Any]:
        spaces = nest.children(self.shape)
        for place, space in enumerate(spaces):
            for vector in space.standard_basis():
                parts = [vector if k == place else s.zeros() for k, s in enumerate(spaces)]
                yield _rebuilt(self.shape, parts)

    def _add(self, x: Any, y: Any) -> Any:
        return self._map(lambda space, a, b: space.add(a, b), x, y)

    def _mut_add(self, x: Any, y: Any) -> Any:
        return self._map(lambda space, a, b: space.mut_add(a, b), x, y)

    def _scalar_mul(self, x: Any, a: Any) -> Any:
        return self._map(lambda space, part: space.scalar_mul(part, a), x)

    def _inner_prod(self, x: Any, y: Any) -> Any:
        total: Any = 0.0
        for space, a, b in zip(*map(nest.children, (self.shape, x, y)), strict=True):
            total = total + space.inner_prod(a, b)
        return total

    def _covector(self, x: Any) -> Any:
        return self._map(lambda space, part: space.covector(part), x)

    def _map(self, function: Callable[..., Any], *values: Any) -> Any:
        columns = [nest.children(value) for value in (self.shape, *values)]
        return _rebuilt(self.shape, [function(*parts) for parts in zip(*columns, strict=True)])


class SparseObject:
    """A vector defined by its addition to another one: `mut_add(x)` returns the sum."""

    __slots__ = ("mut_add", "vs")

    def __init__(self, vs: Any, mut_add: Callable[[Any], Any]) -> None:
        self.vs = vs
        self.mut_add = mut_add

    def dense(self) -> Any:
        """Return the vector itself."""
        return self.mut_add(self.vs.zeros())


def vspace(value: Any) -> Any:
    """Return the vector space of a value.

    >>> vspace({"a": 1.0}) == vspace({"a": 2.0}), vspace(1.0) == vspace(1.0j)
    (True, False)
    """
    maker = VSpace.mappings.get(type(value))
    if maker is not None:
        return maker(value)
    if isinstance(value, SparseObject):
        return value.vs
    if nest.is_nested(value):
        return ContainerVSpace(value)
    if is_tensor(value) or isinstance(value, np.ndarray | np.generic):
        return _array_space(value)
    raise ArgumentTypeError(
        f"There is no vector space for values of type {type(value).__name__}: use floats, arrays "
        f"or containers of them, or register one with VSpace.register. Got {value!r}."
    )


def _array_space(value: Any) -> ArrayVSpace:
    kind = ComplexArrayVSpace if value.dtype.kind == "c" else ArrayVSpace
    return kind(value)


def _placed(array: Any) -> Any:
    """Return an array on the current device: NumPy's on the CPU."""
    return plain(as_tensor(array)) if uses_tensors() else array


def _rebuilt(structure: Any, parts: list[Any]) -> Any:
    """Return a container like `structure` with other parts, in the order of `nest.children`."""
    if isinstance(structure, dict):
        by_key = dict(zip(sorted(structure), parts, strict=True))
        return {key: by_key[key] for key in structure}
    if hasattr(structure, "_fields"):
        return type(structure)(*parts)
    return type(structure)(parts)


for _kind in (float, np.float64, np.float32, np.float16):
    ArrayVSpace.register(_kind)
for _complex in (complex, np.complex64, np.complex128):
    ComplexArrayVSpace.register(_complex)
