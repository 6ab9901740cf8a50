"""Launch a captured graph with inputs at other addresses, without another capture or a copy.

Every training step gets another batch, so the inputs of a program lie elsewhere at each call, and a
graph holds their addresses in the arguments of its nodes. To find them, the program is captured
again with the inputs at their new addresses and all other memory as before. That capture is only
compared with the graph and then thrown away. A word that changed by the distance that an input
moved is an address in that input, alone, in a structure, or in a descriptor of a tensor. If every
change is explained in this way, a later launch replaces these words in the nodes that hold them.
Otherwise the inputs cannot move, and they are copied to fixed addresses.

Libraries choose kernels by the alignment of addresses. A graph is therefore compared once for each
alignment of each input.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tapegrad_cupy.launch.graph_nodes import Node, NodeArguments, UnfitError

ALIGNMENT = 256
"""Addresses that are equal modulo this number are alike to all kernels and libraries."""

MOST_COPIED = 1 << 20
"""The most bytes of an input that may be cheaper to copy than to move."""

MOST_NODES = 6
"""The most nodes that are changed because a small input moved.

A change takes the host about 3 microseconds, and a launch that copies all such inputs about 20
(measured on an H200).
"""

_NEAR = 1 << 31
"""How far an address may be from its input, e.g. before it where a convolution pads."""

_HALF = 1 << 32
_ADDRESS = struct.Struct("<Q")


class Place(NamedTuple):
    """Where a graph holds an address: the position of a node, an offset into its arguments, the
    number of the input, and the distance of the address from the beginning of the input."""

    node: int
    offset: int
    number: int
    distance: int


class Moved(NamedTuple):
    """An input that was moved: its number, its size in bytes, and both addresses."""

    number: int
    size: int
    before: int
    after: int


def find_places(
    before: Sequence[Node],
    after: Sequence[Node],
    moved: Sequence[Moved],
    again: Sequence[Node] | None = None,
) -> list[Place]:
    """Return where the nodes hold addresses of the moved inputs.

    Raise UnfitError if the nodes differ in anything else. Bytes that also differ between `before`
    and `again`, a second capture of the same, say nothing: structures have gaps, in which a library
    leaves what was on the stack.

    >>> old = [Node(1, ("kernel",), struct.pack("<QQ", 4096, 7))]
    >>> new = [Node(2, ("kernel",), struct.pack("<QQ", 8192, 7))]
    >>> find_places(old, new, [Moved(0, 512, 4096, 8192)])
    [Place(node=0, offset=0, number=0, distance=0)]
    """
    again = before if again is None else again
    if not len(before) == len(after) == len(again):
        raise UnfitError("it launches another number of kernels at other addresses")
    places: list[Place] = []
    for position, (old, new, same) in enumerate(zip(before, after, again, strict=True)):
        for one in (new, same):
            if old.identity != one.identity or len(old.arguments) != len(one.arguments):
                raise UnfitError("it launches other kernels at other addresses")
        places += _places_in(position, old.arguments, new.arguments, same.arguments, moved)
    return places


def _places_in(
    position: int, old: bytes, new: bytes, same: bytes, moved: Sequence[Moved]
) -> list[Place]:
    places = []
    at = 0
    while at < len(old):
        # Structures may be packed, so an address may begin at each multiple of four.
        half = old[at : at + 4]
        if half == new[at : at + 4] or half != same[at : at + 4]:
            at += 4
            continue
        word, other = (int.from_bytes(blob[at : at + 8], "little") for blob in (old, new))
        found = _input_of(word, other - word, moved) if at + 8 <= len(old) else None
        if found is not None:
            places.append(Place(position, at, found.number, word - found.before))
            at += 8
        elif any((one.after - one.before - other + word) % _HALF == 0 for one in moved):
            at += 4  # the lower half of an address, which cannot be used as one
        else:
            raise UnfitError(f"an argument changes from {word:#x} to {other:#x}")
    return places


def _input_of(word: int, distance: int, moved: Sequence[Moved]) -> Moved | None:
    """Return the input that an address belongs to, by how far both moved and by where it points.

    Raise UnfitError if several inputs are possible.
    """
    candidates = [
        one
        for one in moved
        if one.after - one.before == distance and -_NEAR <= word - one.before <= one.size + _NEAR
    ]
    if len(candidates) > 1:
        candidates = [one for one in candidates if one.before <= word < one.before + one.size]
        if len(candidates) != 1:
            raise UnfitError("an address belongs to several inputs")
    return candidates[0] if candidates else None


class InputAddresses:
    """The addresses of inputs in the nodes of an executable graph."""

    def __init__(self, executable: int, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self._executable = executable
        self._arguments: dict[int, NodeArguments] = {}
        self._places: dict[int, list[Place]] = {}
        self._alignments: dict[int, set[int]] = {}

    def learn(self, places: Sequence[Place], moved: Sequence[Moved]) -> list[int]:
        """Remember where the addresses of moved inputs are.

        Return the numbers of inputs that are cheaper to copy, which are not remembered. Raise
        UnfitError if another comparison found an input's addresses elsewhere.
        """
        costly: list[int] = []
        for one in moved:
            mine = [place for place in places if place.number == one.number]
            if one.size <= MOST_COPIED and len({place.node for place in mine}) > MOST_NODES:
                costly.append(one.number)
                continue
            if self._places.setdefault(one.number, mine) != mine:
                raise UnfitError("its addresses are elsewhere at another alignment")
            known = self._alignments.setdefault(one.number, {one.before % ALIGNMENT})
            known.add(one.after % ALIGNMENT)
        for place in places:
            if place.node not in self._arguments:
                self._arguments[place.node] = NodeArguments(
                    self._executable, self.nodes[place.node]
                )
        return costly

    def can_move(self, number: int, address: int) -> bool:
        """Return whether an input may lie at an address."""
        return address % ALIGNMENT in self._alignments.get(number, ())

    def move(self, addresses: Mapping[int, int]) -> None:
        """Let later launches read the inputs with these numbers at these addresses."""
        changed: dict[int, NodeArguments] = {}
        for number, address in addresses.items():
            for place in self._places[number]:
                arguments = changed[place.node] = self._arguments[place.node]
                _ADDRESS.pack_into(arguments.bytes, place.offset, address + place.distance)
        for arguments in changed.values():
            arguments.update()
