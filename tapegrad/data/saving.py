"""Datasets in a folder: Dataset.save and Dataset.load.

The folder holds the elements in the format of a cache, and their spec as JSON.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tapegrad.core.files.atomic import replacing
from tapegrad.core.files.formats import parse_json
from tapegrad.core.values import nest
from tapegrad.data.caching import InFile
from tapegrad.data.functions import annotate_errors
from tapegrad.data.plan import END, Plan, Run, peek
from tapegrad.data.sources import random_access
from tapegrad.errors import FileFormatError, NotFoundError
from tapegrad.program.record.signature import TensorSpec

_ELEMENTS = "elements.npz"
_SPEC = "spec.json"


def save(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write the elements of one pass to a folder."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    source = plan.start(Run())
    keeper = InFile(folder / _ELEMENTS).begin()
    try:
        with annotate_errors("save"):
            while (element := source.next()) is not END:
                keeper.add(element)
        shapes = [spec.shape for spec in nest.flatten(plan.spec())] if keeper.count else []
        with replacing(folder / _SPEC) as file:
            file.write(json.dumps({"shapes": shapes}).encode())
        keeper.finish()
    except BaseException:
        keeper.abandon()
        raise
    finally:
        source.close()


def load(path: str | os.PathLike[str], element_spec: Any) -> Plan:
    """Return a plan with the elements of a folder, each read on demand."""
    folder = Path(path)
    for name in (_ELEMENTS, _SPEC):
        if not (folder / name).is_file():
            raise NotFoundError(
                f"{str(path)!r} is not a folder that Dataset.save wrote: it has no {name}."
            )
    rows = InFile(folder / _ELEMENTS).rows()
    assert rows is not None  # the file exists
    shapes = _read_shapes(folder / _SPEC)

    def spec() -> Any:
        if element_spec is not None:
            return element_spec
        first = peek(plan)
        leaves = nest.flatten(first)
        if len(leaves) != len(shapes):
            raise FileFormatError(f"{str(folder / _SPEC)!r} does not fit the elements beside it.")
        specs = [TensorSpec(shape, leaf.dtype) for shape, leaf in zip(shapes, leaves)]
        return nest.pack_sequence_as(first, specs)

    plan = random_access("load", rows, spec)
    return plan


def _read_shapes(path: Path) -> list[Any]:
    head = parse_json(path.read_bytes(), str(path), "the spec")
    try:
        return [None if s is None else tuple(map(_checked, s)) for s in head["shapes"]]
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{str(path)!r} is damaged: it holds no list of shapes.") from error


def _checked(size: Any) -> int | None:
    if size is not None and (type(size) is not int or size < 0):
        raise ValueError(size)
    return size
