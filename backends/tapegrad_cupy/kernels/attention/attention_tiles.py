"""The tiles of the attention kernels for each dtype and depth, and the kernels.

Tiles fit into the 99 KiB of shared memory that every device since 2020 has, except for float64 with
more than 128 features. The registers of a multiprocessor hold two blocks.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from tapegrad_cupy.kernels.attention import (
    attention_scalar_source as scalar,
    attention_tensor_source as tensor,
)
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS
from tapegrad_cupy.launch.cuda_source import Source, compile_kernel, full_source
from tapegrad_cupy.launch.launch import Kernel

MOST_DEPTH = 256
"""The most features of keys or values that the kernels take."""

# There are two gradient kernels, one for queries, and one for keys and values. The second is split
# for more than 128 features, because it would need too many registers.
FORWARD, QUERIES, BOTH, KEYS, VALUES = "forward", "queries", "both", "keys", "values"
_ROLES = {
    QUERIES: {"KEYS": 0, "FIRST": 1, "SECOND": 0},
    BOTH: {"KEYS": 1, "FIRST": 1, "SECOND": 1},
    KEYS: {"KEYS": 1, "FIRST": 1, "SECOND": 0},
    VALUES: {"KEYS": 1, "FIRST": 0, "SECOND": 1},
}

# For tensor cores, by padded depth: WARPS, MT, BN; and for gradients also CN and STAGES.
_TENSOR = {
    FORWARD: {32: (4, 2, 64), 64: (4, 2, 64), 96: (4, 2, 32), 128: (4, 2, 32), 256: (4, 1, 32)},
    QUERIES: {
        32: (4, 2, 64, 32, 2), 64: (4, 2, 64, 32, 2), 96: (4, 2, 32, 16, 1),
        128: (4, 2, 32, 16, 1), 256: (4, 1, 16, 16, 1),
    },
    BOTH: {
        32: (4, 2, 64, 32, 2), 64: (4, 2, 64, 16, 2), 96: (4, 1, 32, 32, 2),
        128: (4, 1, 32, 32, 2), 256: (4, 1, 16, 16, 1),
    },
}  # fmt: skip
# For ordinary arithmetic, by bytes of an element and padded depth: RI and RJ.
_SCALAR = {
    4: {
        FORWARD: {32: (4, 4), 64: (4, 4), 128: (4, 4), 256: (2, 2)},
        BOTH: {32: (4, 4), 64: (4, 4), 128: (2, 2), 256: (1, 1)},
    },
    8: {
        FORWARD: {32: (4, 2), 64: (4, 2), 128: (2, 2), 256: (1, 1)},
        BOTH: {32: (2, 2), 64: (2, 2), 128: (1, 1), 256: (1, 1)},
    },
}


class Tiles(NamedTuple):
    """The rows of a block, its threads, its shared memory in bytes, and the macros."""

    rows: int
    threads: int
    shared: int
    macros: dict[str, int]


@functools.cache
def choose_tiles(dtype: str, depth: int, role: str) -> Tiles:
    """Return the tiles of one kernel for keys and values of up to `depth` features."""
    size = FLOATS[dtype]
    if size == 2:
        return _tensor_tiles(depth, role)
    table = _SCALAR[size][FORWARD if role == FORWARD else BOTH]
    padded = next(width for width in table if width >= depth)
    i, j = table[padded]
    wide = 16 // size
    tiles = 16 * (i + j) if role == FORWARD else 32 * (i + j)
    shared = (tiles * (padded + wide) + 16 * i * (16 * j + wide)) * size
    return Tiles(16 * i, 256, shared, {"DP": padded, "RI": i, "RJ": j})


def _tensor_tiles(depth: int, role: str) -> Tiles:
    table: Any = _TENSOR[role if role in _TENSOR else BOTH]
    padded = next(width for width in table if width >= depth)
    warps, groups, columns, *rest = table[padded]
    rows, line = 16 * warps * groups, 2 * (padded + 8)
    macros = {"DP": padded, "WARPS": warps, "MT": groups, "BN": columns}
    if role == FORWARD:
        return Tiles(rows, 32 * warps, (rows + 2 * columns) * line, macros)
    part, stages = rest
    shared = 2 * (rows + stages * columns) * line + stages * 2 * columns * 4
    return Tiles(rows, 32 * warps, shared, {**macros, "CN": part, "STAGES": stages})


def gradient_roles(dtype: str, depth: int) -> tuple[str, ...]:
    """Return the roles of the gradient kernels that have to run."""
    split = choose_tiles(dtype, depth, BOTH).macros["DP"] > 128
    return (QUERIES, KEYS, VALUES) if split else (QUERIES, BOTH)


def most_shared(dtype: str, depth: int) -> int:
    """Return the most bytes of shared memory of the forward and gradient kernels."""
    roles = (FORWARD, *gradient_roles(dtype, depth))
    return max(choose_tiles(dtype, depth, role).shared for role in roles)


# Sources


def _macros(dtype: str, tiles: Tiles, role: str, causal: bool, vector: bool) -> dict[str, Any]:
    macros = {"T": C_TYPES[dtype], "CAUSAL": int(causal), "VECTOR": int(vector), **tiles.macros}
    if FLOATS[dtype] == 2:
        macros["KIND"] = '"f16"' if dtype == "float16" else '"bf16"'
    return {**macros, "STEPS": 4 if role == FORWARD else 6, **_ROLES.get(role, {})}


def _source(dtype: str, role: str) -> str:
    if FLOATS[dtype] == 2:
        return tensor.TILES + (tensor.FORWARD if role == FORWARD else tensor.BACKWARD)
    return scalar.TILES + (scalar.FORWARD if role == FORWARD else scalar.BACKWARD)


@functools.cache
def kernel(dtype: str, depth: int, role: str, causal: bool, vector: bool) -> Kernel:
    """Return the kernel for a role; `vector` tells that rows can be read 16 bytes at a time."""
    macros = _macros(dtype, choose_tiles(dtype, depth, role), role, causal, vector)
    name = "attention" if role == FORWARD else "attention_gradient"
    arguments = "5P12q6i" if role == FORWARD else "8P18q6i"
    scale = "d" if dtype == "float64" else "f"
    return Kernel(lambda: compile_kernel(_source(dtype, role), name, **macros), arguments + scale)


@functools.cache
def product_kernel(dtype: str) -> Kernel:
    """Return the kernel for the dot products of cotangents and results in each row."""
    make = functools.partial(
        compile_kernel, scalar.PRODUCTS, "attention_products", T=C_TYPES[dtype], WARPS=PRODUCT_ROWS
    )
    return Kernel(make, "3P6qq3i")


PRODUCT_ROWS = 8
"""Rows per block of the product kernel, one warp each."""


def variants() -> Iterator[Source]:
    """Yield the sources with a causal mask, which use more registers, mostly with vectors."""
    for dtype in FLOATS:
        text = full_source(scalar.PRODUCTS, T=C_TYPES[dtype], WARPS=PRODUCT_ROWS)
        yield Source(f"attention_products {dtype}", text)
        depths = (64,) if dtype == "float16" else (32, 64, 96, 128, 256)
        for depth in depths if FLOATS[dtype] == 2 else (64, 128, 256):
            for role in (FORWARD, *gradient_roles(dtype, depth)):
                for vector in (True, False) if depth == 64 else (True,):
                    tiles = choose_tiles(dtype, depth, role)
                    macros = _macros(dtype, tiles, role, True, vector)
                    label = (
                        f"attention {role} {dtype} {depth} {'vectors' if vector else 'elements'}"
                    )
                    yield Source(label, full_source(_source(dtype, role), **macros))
