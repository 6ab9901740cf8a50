"""The families of a function: recorded calls that differ in the sizes of tensors only.

As soon as enough of them are recorded, a call with other sizes needs no recording: its program is
made from their template. A template is used only if everything that the user's code asked about
sizes has the answer that it had in the recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tapegrad.core.recorder import active_stack
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.program.families.both_passes import parts_of_both, repeat_both
from tapegrad.program.families.formulas import Unfit
from tapegrad.program.families.template import (
    SMALLEST,
    Instance,
    Member,
    Template,
    symbols_of,
    template_of,
)
from tapegrad.program.forward_backward import FirstCall, ForwardBackward
from tapegrad.program.graph.graph import Graph
from tapegrad.program.program_cache import ProgramCache
from tapegrad.program.record.arguments import Args, Kwargs
from tapegrad.program.record.guards import Guards
from tapegrad.program.record.signature import Parameters
from tapegrad.program.recorded_call import Outcome, RecordedCall

MOST_MEMBERS = 4
"""How many recordings of a family are kept, the latest ones."""

MOST_TEMPLATES = 4
"""How many templates of a family are kept, e.g. one for each branch of the Python code."""

MOST_MISTAKES = 3
"""After how many templates that proved wrong each size is recorded."""


Made = TypeVar("Made")


class Family:
    """Recorded calls that differ in sizes only, and what they have in common."""

    def __init__(self, first: Member) -> None:
        self._members = [first]
        self._templates: list[Template] = []
        self._mistakes = 0

    @property
    def guards(self) -> Guards:
        """The assumptions of the latest recording."""
        return self._members[-1].guards

    def add(self, member: Member) -> None:
        """Add a recorded call; find a template if there are enough of them."""
        others = [m for m in self._members if m.lengths != member.lengths and m.guards.hold()]
        self._members = [*others[1 - MOST_MEMBERS :], member]
        usable = [m for m in self._members if _are_comparable(m, member)]
        for count in range(len(usable), 1, -1):
            template = _template_if_enough(usable[-count:])
            if template is not None:
                self._templates = [template, *self._templates[: MOST_TEMPLATES - 1]]
                return

    def instances(self, lengths: tuple[int, ...]) -> list[Instance]:
        """Return the programs for the lengths of a call, which need no recording."""
        found = []
        for template in self._templates if self._mistakes < MOST_MISTAKES else ():
            try:
                found.append(template.instance(lengths))
            except Unfit:
                continue
        return found

    def drop(self, template: Template) -> None:
        """Forget a template that has proved wrong."""
        self._mistakes += 1
        self._templates = [other for other in self._templates if other is not template]


def _are_comparable(one: Member, other: Member) -> bool:
    pairs = zip(one.lengths, other.lengths)
    return all(min(pair) >= SMALLEST for pair in pairs if pair[0] != pair[1])


def _template_if_enough(members: Sequence[Member]) -> Template | None:
    """Return the template of some recordings, None if they are too few.

    A recording more must agree with it if the user's code reads sizes, since there are ways to
    compute with them that are not noted, such as `range(n)`.
    """
    reads_sizes = any(member.reads_sizes for member in members)
    symbols = len(symbols_of(members).places)
    return template_of(members) if len(members) > symbols + reads_sizes else None


class Families:
    """The families of a function, by the keys of calls without the sizes of tensors."""

    def __init__(self) -> None:
        self._known: ProgramCache[Family] = ProgramCache()

    def call(
        self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs, parameters: Parameters
    ) -> RecordedCall | None:
        """Return a call as if it had been recorded, None if it has to be recorded."""
        names = parameters.axis_names(args, kwargs, leaves) if self._known.latest else []

        def make(instance: Instance) -> RecordedCall:
            guards, made_from = instance.template.guards, _description(instance, names)
            return RecordedCall(instance, leaves, args, kwargs, guards, made_from)

        return self._first_made(key, leaves, make)

    def programs(
        self,
        key: tuple[Any, Sequence[bool]],
        call: tuple[Args, Kwargs],
        leaves: list[Any],
        name: str,
        parameters: Parameters,
    ) -> tuple[ForwardBackward, FirstCall] | None:
        """Return the programs of a call under tapes, None if it has to be recorded."""
        names = parameters.axis_names(*call, leaves) if self._known.latest else []

        def make(instance: Instance) -> tuple[ForwardBackward, FirstCall]:
            if instance.template.guards.track(active_stack()):
                raise LookupError  # it is recorded, and runs eagerly then
            programs, first = repeat_both(instance, call, leaves, key[1], name)
            first.made_from = _description(instance, names)
            return programs, first

        return self._first_made(_joined(key), leaves, make)

    def _first_made(
        self, key: Any, leaves: list[Any], make: Callable[[Instance], Made]
    ) -> Made | None:
        """Return what is made from the first template that fits, None if there is none."""
        if not self._known.latest:
            return None
        general, lengths = without_sizes(key, leaves)
        family = self._known.find(general)
        for instance in [] if family is None else family.instances(lengths):
            try:
                return make(instance)
            except Unfit:
                assert family is not None
                family.drop(instance.template)
            except Exception:  # the recording raises the error of the user's code
                return None
        return None

    def add(self, key: Any, leaves: list[Any], call: RecordedCall) -> None:
        """Add a recorded call that is like later ones with the same key."""
        outcome = call.outcome()
        if call.is_special or outcome.writes_arguments or call.graph.obstacle:
            return
        self._add(key, leaves, call.needed, outcome, call.guards(), None)

    def add_programs(
        self,
        key: tuple[Any, Sequence[bool]],
        leaves: list[Any],
        first: FirstCall,
        guards: Guards,
    ) -> None:
        """Add a call that was recorded under tapes, likewise."""
        both, whole = first.both, first.whole
        if both is None or whole is None or first.draws_only_once or whole.obstacle:
            return
        graph, rest, outcome = parts_of_both(both, whole)
        self._add(_joined(key), leaves, graph, outcome, guards, rest)

    def _add(
        self, key: Any, leaves: list[Any], graph: Graph, outcome: Outcome, guards: Guards, rest: Any
    ) -> None:
        general, lengths = without_sizes(key, leaves)
        member = Member(
            lengths,
            graph,
            {number: outcome.variables[number] for number in graph.variables},
            outcome.structure,
            outcome.leaves,
            outcome.size_notes.operations,
            outcome.size_notes.is_read,
            guards,
            rest,
        )
        family = self._known.find(general)
        if family is None:
            self._known.add(general, Family(member))
        else:
            family.add(member)


def _description(instance: Instance, names: Sequence[str]) -> str:
    """Describe a made program; `names` are those of the arguments, one per axis of a tensor."""
    template = instance.template
    texts = []
    for number, places in enumerate(template.symbols.places):
        known = sorted({sizes[number] for sizes in template.sizes})
        earlier = f"{', '.join(map(str, known[:-1]))} and {known[-1]}"
        size, name = instance.sizes[number], names[places[0]]
        texts.append(f"size {size} of {name}: made from the recordings for {earlier}")
    return "; ".join(texts) + ", not recorded"


def _joined(key: tuple[Any, Sequence[bool]]) -> Any:
    """Return the key of a call and the tensors that tapes track as one key."""
    return (*key[0], tuple(key[1]))


def without_sizes(key: Any, leaves: Sequence[Any]) -> tuple[Any, tuple[int, ...]]:
    """Return the key of a call with ranks in place of shapes, and the lengths of all axes."""
    parts = list(key)
    lengths: list[int] = []
    place = 1
    for leaf in leaves:
        if type(leaf) is Tensor:
            lengths += parts[place + 1]
            parts[place + 1] = len(parts[place + 1])
        place += 3 if type(leaf) is Tensor else 2 if type(leaf) is Variable else 1
    return tuple(parts), tuple(lengths)
