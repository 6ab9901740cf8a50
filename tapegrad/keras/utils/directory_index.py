"""The files of a directory with one subdirectory per class, and their labels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import ArgumentError, ShapeError


class Files(NamedTuple):
    """Paths, one label for each (None without labels), and the names of the classes."""

    paths: list[str]
    labels: list[int] | None
    class_names: list[str]

    def part(self, start: int, stop: int | None) -> Files:
        """Return the files from `start` to `stop`."""
        labels = None if self.labels is None else self.labels[start:stop]
        return Files(self.paths[start:stop], labels, self.class_names)

    def shuffled(self, seed: int) -> Files:
        """Return the files in an order that depends on the seed only."""
        order = np.random.default_rng(seed).permutation(len(self.paths)).tolist()
        labels = None if self.labels is None else [self.labels[k] for k in order]
        return Files([self.paths[k] for k in order], labels, self.class_names)


def indexed(
    directory: Any,
    labels: Any,
    formats: Sequence[str],
    class_names: Sequence[str] | None,
    follow_links: bool,
    required: str | None = None,
) -> Files:
    """Return the files in `directory`, in the order of their names.

    With the labels "inferred", the label of a file is the position of its subdirectory among
    `class_names`, by default all subdirectories in alphabetical order. `required` says what the
    files are, e.g. "images", and refuses a directory without any.
    """
    root = Path(directory)
    if not root.is_dir():
        raise ArgumentError(f"{root} is not a directory. Pass the directory that holds the files.")
    if isinstance(labels, str) and labels == "inferred":
        found = _by_class(root, formats, _classes(root, class_names), follow_links)
    else:
        paths = list(_files(root, formats, follow_links))
        found = _labelled(paths, labels, class_names, root)
    if required is not None and not found.paths:
        raise ArgumentError(
            f"No {required} found in directory {root}. Their names must end in "
            f"{', '.join(formats)}; with labels='inferred' they are in one subdirectory for each "
            "class."
        )
    return found


def _labelled(
    paths: list[str], labels: Any, class_names: Sequence[str] | None, root: Path
) -> Files:
    """Return the files with the labels that the caller gave."""
    if labels is None:
        if class_names is not None:
            raise ArgumentError("class_names needs labels. Pass labels='inferred', or a list.")
        return Files(paths, None, [])
    if isinstance(labels, list | tuple):
        return Files(paths, _numbers(labels, paths, root), _names(labels, class_names))
    raise ArgumentError(
        f"labels must be 'inferred', None, or a list of one integer for each file. Got {labels!r}."
    )


def _classes(root: Path, wanted: Sequence[str] | None) -> list[str]:
    present = sorted(path.name for path in root.iterdir() if path.is_dir())
    present = [name for name in present if not name.startswith(".")]
    if wanted is None:
        return present
    unknown = [name for name in wanted if name not in present]
    if unknown:
        raise ArgumentError(
            f"class_names lists {', '.join(map(repr, unknown))}, but the subdirectories of {root} "
            f"are {', '.join(present) or 'none'}."
        )
    return list(wanted)


def _by_class(root: Path, formats: Sequence[str], names: list[str], follow_links: bool) -> Files:
    paths, labels = [], []
    for number, name in enumerate(names):
        of_class = list(_files(root / name, formats, follow_links))
        paths += of_class
        labels += [number] * len(of_class)
    return Files(paths, labels, names)


def _files(root: Path, formats: Sequence[str], follow_links: bool) -> Iterator[str]:
    for folder, _, names in sorted(os.walk(root, followlinks=follow_links)):
        yield from (os.path.join(folder, n) for n in sorted(names) if _ends_in(n, formats))


def _ends_in(name: str, formats: Sequence[str]) -> bool:
    return name.lower().endswith(tuple(formats))


def _numbers(labels: Sequence[Any], paths: list[str], root: Path) -> list[int]:
    if len(labels) != len(paths):
        raise ShapeError(
            f"labels must have one entry for each of the {len(paths)} files in {root}. "
            f"Got {len(labels)}."
        )
    if not all(isinstance(label, int | np.integer) for label in labels):
        raise ArgumentError(f"labels must be integers. Got {list(labels)[:5]!r}.")
    return [int(label) for label in labels]


def _names(labels: Sequence[Any], given: Sequence[str] | None) -> list[str]:
    if given is not None:
        raise ArgumentError("class_names can only be passed if labels='inferred'.")
    return [str(label) for label in sorted(set(labels))]


# Parts of the files


def check_parts(validation_split: float | None, subset: Any, shuffle: bool, seed: Any) -> None:
    """Check the arguments that divide files into a training set and a validation set."""
    if (validation_split is None) != (subset is None):
        raise ArgumentError(
            "Pass validation_split and subset together, or neither. "
            f"Got validation_split={validation_split} and subset={subset!r}."
        )
    if validation_split is None:
        return
    if not 0 < validation_split < 1:
        raise ArgumentError(f"validation_split must be between 0 and 1. Got {validation_split!r}.")
    if subset not in ("training", "validation", "both"):
        raise ArgumentError(f"subset must be 'training', 'validation' or 'both'. Got {subset!r}.")
    if shuffle and seed is None:
        raise ArgumentError(
            "Pass a seed if you shuffle with a validation_split: otherwise the same file could be "
            "in both subsets."
        )


def parts_of(files: Files, validation_split: float | None, subset: Any) -> list[Files]:
    """Return the wanted subsets: the last files are the validation set."""
    if validation_split is None:
        return [files]
    count = int(validation_split * len(files.paths))
    if not count:
        raise ArgumentError(
            f"A validation_split of {validation_split} leaves no validation files: there are only "
            f"{len(files.paths)} files."
        )
    first = len(files.paths) - count
    parts = {"training": files.part(0, first), "validation": files.part(first, None)}
    return list(parts.values()) if subset == "both" else [parts[subset]]
