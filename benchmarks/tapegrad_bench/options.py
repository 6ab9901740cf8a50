"""What to run, as the user's words say; an unknown word gets the list of those that exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tapegrad.errors import ArgumentError
from tapegrad_bench.adapters import CONTENDERS, LIBRARIES, Contender
from tapegrad_bench.precision import ITEM_SIZE
from tapegrad_bench.workload import Dims, Kind, Workload
from tapegrad_bench.workloads import WORKLOADS

DEVICES = ("cpu", "cuda")
SIZE_WORDS = ("default", "scaling", "small")


@dataclass(frozen=True)
class Options:
    """One run; an empty tuple stands for the usual choice."""

    devices: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    keras: bool = False
    """Whether the workloads that are networks also run as models of tapegrad.keras."""
    budget: float = 120.0
    threads: int = 1
    count_launches: bool = True
    output: Path | None = None


@dataclass(frozen=True)
class Group:
    """The contenders that run one workload at one size and dtype on one device, side by side."""

    workload: Workload
    dims: Dims
    dtype: str
    device: str
    contenders: tuple[Contender, ...]
    is_extra: bool = False
    """Whether it may be left out without a word when the budget is spent."""


GROWING = ("mlp_small", "elementwise")
"""Rows that also run at other sizes, tapegrad alone, where no sizes are asked for: so that a plain
run shows how time grows, and from where on a GPU pays."""


def plan(options: Options) -> list[Group]:
    """Return what to run, in the order of the tables.

    >>> [group.device for group in plan(Options(devices=("cpu",), workloads=("hvp",)))]
    ['cpu']
    """
    devices = tuple(_known("device", options.devices, DEVICES)) or DEVICES
    contenders = _contenders(options)
    list(_known("workload", options.workloads, WORKLOADS))
    list(_known("dtype", options.dtypes, ITEM_SIZE))
    _check_numbers(options)
    _check_sizes(options)
    rows = [(device, w) for device in devices for w in _workloads(options.workloads, device)]
    groups = [g for device, w in rows for g in _groups(options, w, device, contenders)]
    if not options.sizes:
        eager = tuple(c for c in contenders if c.name == "tapegrad:eager")
        groups += [
            Group(w, dims, dtype, device, eager, is_extra=True)
            for name in GROWING
            for device, w in rows
            if w.name == name
            for dims in w.scaling
            if dims != w.defaults[device]  # a size has one cell of each contender
            for dtype in options.dtypes or (w.dtypes[device],)
        ]
    return groups


def _check_numbers(options: Options) -> None:
    if not options.budget > 0:
        raise ArgumentError(f"--budget must be a positive number of seconds. Got {options.budget}.")
    if options.threads < 1:
        raise ArgumentError(f"--threads must be at least 1. Got {options.threads}.")


def _workloads(names: Sequence[str], device: str) -> list[Workload]:
    chosen = list(_known("workload", names, WORKLOADS))
    if chosen:
        return [WORKLOADS[name] for name in chosen]
    return [w for w in WORKLOADS.values() if device in w.default_on]


def _contenders(options: Options) -> list[Contender]:
    """The contenders that the words name, by library or by library:mode; tapegrad always runs."""
    peers = [library for library in LIBRARIES if library != "tapegrad"]
    modes = [contender.name for contender in CONTENDERS]
    chosen = set(_known("peer", options.peers, ["none", *peers, "tapegrad", *modes]))
    if chosen and not any(word.startswith("tapegrad") for word in chosen):
        chosen.add("tapegrad")

    def is_chosen(contender: Contender) -> bool:
        if contender.is_on_request:
            return options.keras or contender.name in chosen
        return not chosen or contender.library in chosen or contender.name in chosen

    return [contender for contender in CONTENDERS if is_chosen(contender)]


def _groups(
    options: Options, workload: Workload, device: str, contenders: Sequence[Contender]
) -> list[Group]:
    able = tuple(c for c in contenders if c.runs(workload.name, device))
    if not able:
        return []
    if workload.kind is Kind.FOOTPRINT:
        # A library has one footprint, whatever its modes.
        first = {c.library: c for c in reversed(able)}
        able = tuple(c for c in able if first[c.library] is c)
        return (
            [Group(workload, {}, workload.dtypes[device], device, able)] if device == "cpu" else []
        )
    dtypes = options.dtypes or (workload.dtypes[device],)
    return [
        Group(workload, dims, dtype, device, able)
        for dims in _sizes(options.sizes or ("default",), workload, device)
        for dtype in dtypes
    ]


def _sizes(words: Sequence[str], workload: Workload, device: str) -> list[Dims]:
    labels = workload.sizes(device)
    chosen: list[str] = []
    for word in words:
        if word == "default":
            chosen.append(workload.size(workload.defaults[device]).label)
        elif word == "small":
            chosen.append(workload.size(workload.check).label)
        elif word == "scaling":
            chosen += [workload.size(workload.defaults[device]).label]
            chosen += [workload.size(dims).label for dims in workload.scaling]
        elif word in labels:
            chosen.append(word)
    return [labels[label] for label in dict.fromkeys(chosen)]


def _check_sizes(options: Options) -> None:
    """A label of a size has to exist in one of the chosen workloads at least."""
    names = options.workloads or tuple(WORKLOADS)
    labels = [
        label
        for name in names
        if WORKLOADS[name].kind is not Kind.FOOTPRINT
        for device in DEVICES
        for label in WORKLOADS[name].sizes(device)
    ]
    list(_known("size", options.sizes, [*SIZE_WORDS, *dict.fromkeys(labels)]))


MOST_SHOWN = 40
"""How many names an error lists; all workloads together have more sizes."""


def _known(what: str, words: Iterable[str], allowed: Iterable[str]) -> Iterable[str]:
    """Yield the words, each of which must be among the allowed ones."""
    names = list(allowed)
    for word in words:
        if word not in names:
            close = difflib.get_close_matches(word, names, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
            shown = ", ".join(names[:MOST_SHOWN])
            raise ArgumentError(f"There is no {what} {word!r}. There are: {shown}{more}.{hint}")
        yield word
