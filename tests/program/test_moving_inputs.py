"""Where a CUDA graph holds the addresses of inputs, found by comparing two captures."""

import struct

import pytest

pytest.importorskip("cupy")

from tapegrad_cupy.graphs.moving_inputs import InputAddresses, Moved, Place, find_places
from tapegrad_cupy.launch import graph_nodes
from tapegrad_cupy.launch.graph_nodes import Node, UnfitError

A, B = Moved(0, 512, 0x7F0000001000, 0x7F0000005000), Moved(1, 512, 0x7F0000002000, 0x7E0000002100)


def node(layout, *values, name="kernel"):
    return Node(1, (0, name), struct.pack(layout, *values))


def test_addresses_alone_and_with_a_distance():
    before = [node("<QQQ", A.before, 5, B.before + 64), node("<Q", 9)]
    after = [node("<QQQ", A.after, 5, B.after + 64), node("<Q", 9)]

    assert find_places(before, after, [A, B]) == [Place(0, 0, 0, 0), Place(0, 16, 1, 64)]


def test_an_address_in_a_packed_structure_begins_at_a_multiple_of_four():
    before, after = (node("<iQi", 3, at, 4) for at in (A.before, A.after))

    assert find_places([before], [after], [A]) == [Place(0, 4, 0, 0)]


def test_an_address_before_the_array_moves_with_it():
    before, after = (node("<Q", at - 4096) for at in (A.before, A.after))

    assert find_places([before], [after], [A, B]) == [Place(0, 0, 0, -4096)]


def test_inputs_that_moved_alike_are_told_apart_by_where_they_are():
    other = Moved(1, 512, A.before + 1024, A.after + 1024)
    before = [node("<QQ", A.before + 8, other.before + 8)]
    after = [node("<QQ", A.after + 8, other.after + 8)]

    assert find_places(before, after, [A, other]) == [Place(0, 0, 0, 8), Place(0, 8, 1, 8)]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ([node("<Q", 1)], [node("<Q", 1), node("<Q", 1)], "another number of kernels"),
        ([node("<Q", 1)], [node("<Q", 1, name="other")], "other kernels"),
        ([node("<Q", 1)], [node("<QQ", 1, 1)], "other kernels"),
        ([node("<Q", 1)], [node("<Q", 2)], "changes from 0x1 to 0x2"),
        ([node("<Qi", A.before, 1)], [node("<Qi", A.after, 2)], "changes from 0x1 to 0x2"),
    ],
)
def test_what_moved_inputs_do_not_explain_is_refused(before, after, reason):
    with pytest.raises(UnfitError, match=reason):
        find_places(before, after, [A, B])


def test_an_address_that_belongs_to_two_inputs_is_refused():
    same = A._replace(number=1)
    with pytest.raises(UnfitError, match="several inputs"):
        find_places([node("<Q", A.before)], [node("<Q", A.after)], [A, same])


def test_half_an_address_in_a_gap_is_ignored():
    before, after = (node("<IIQ", at % 2**32, 7, at) for at in (A.before, A.after))

    assert find_places([before], [after], [A]) == [Place(0, 8, 0, 0)]


def test_what_differs_between_two_captures_of_the_same_is_ignored():
    before, after = node("<QQ", A.before, 1), node("<QQ", A.after, 2)

    assert find_places([before], [after], [A], [node("<QQ", A.before, 3)]) == [Place(0, 0, 0, 0)]
    with pytest.raises(UnfitError, match="from 0x1 to 0x2"):
        find_places([before], [after], [A], [before])
    with pytest.raises(UnfitError, match="other kernels"):
        find_places([before], [after], [A], [node("<QQ", A.before, 1, name="other")])


class Arguments:
    """Stands for the arguments of a node of an executable graph."""

    def __init__(self, executable, one):
        self.bytes = bytearray(one.arguments)
        self.updates = []
        executable.append(self)

    def update(self):
        self.updates.append(bytes(self.bytes))


@pytest.fixture
def executable(monkeypatch):
    monkeypatch.setattr("tapegrad_cupy.graphs.moving_inputs.NodeArguments", Arguments)
    return []


def test_a_move_changes_each_node_once(executable):
    inputs = InputAddresses(executable, [node("<QQQ", A.before, 5, B.before + 64)])
    inputs.learn([Place(0, 0, 0, 0), Place(0, 16, 1, 64)], [A, B])

    inputs.move({0: 0x1000, 1: 0x2000})
    inputs.move({1: 0x3000})

    (arguments,) = executable
    assert arguments.updates == [
        struct.pack("<QQQ", 0x1000, 5, 0x2040),
        struct.pack("<QQQ", 0x1000, 5, 0x3040),
    ]


def test_only_alignments_that_were_compared_are_known(executable):
    inputs = InputAddresses(executable, [node("<QQ", A.before, B.before)])
    inputs.learn([Place(0, 8, 1, 0)], [B])

    assert inputs.can_move(1, 0x2000)
    assert inputs.can_move(1, B.after + 512)
    assert not inputs.can_move(1, B.after + 16)
    assert not inputs.can_move(0, A.after)

    inputs.learn([Place(0, 8, 1, 0)], [B._replace(after=B.after + 16)])

    assert inputs.can_move(1, B.after + 16)


def test_other_places_at_another_alignment_are_refused(executable):
    inputs = InputAddresses(executable, [node("<QQ", A.before, B.before)])
    inputs.learn([Place(0, 8, 1, 0)], [B])

    with pytest.raises(UnfitError, match="elsewhere"):
        inputs.learn([Place(0, 0, 1, 0)], [B])


def test_a_small_input_that_many_nodes_read_is_better_copied(executable):
    nodes = [node("<Q", A.before) for _ in range(20)]
    places = [Place(k, 0, 0, 0) for k in range(20)]
    inputs = InputAddresses(executable, nodes)

    assert inputs.learn(places, [A]) == [0]
    assert not inputs.can_move(0, A.after)
    assert inputs.learn(places, [A._replace(size=1 << 30)]) == []
    assert inputs.can_move(0, A.after)


def test_a_driver_without_a_function_is_no_error_of_its_own(monkeypatch):
    monkeypatch.setattr(graph_nodes, "driver", lambda: object())
    with pytest.raises(UnfitError, match="CUDA's driver has no cuGraphGetNodes"):
        graph_nodes.read_nodes(0)
