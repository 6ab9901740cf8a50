"""Exits: where a value that a recorder follows leaves it for Python, NumPy or another library.

Results computed from such a value are constants for the recorder, so a derivative may be lost. Each
exit is noted with the user's line. A gradient transform warns of it, because its user has no tape
to ask; a tape warns where a conversion is easily overlooked. Text, truth values and indices carry
no derivative, so printing, formatting, logging and branching are no exits.
"""

from __future__ import annotations

import warnings
import weakref
from collections import deque
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import NamedTuple

from tapegrad.core.call_site import module_of, place_of, user_call
from tapegrad.core.recorder import Node, active_stack
from tapegrad.core.uninterrupted import starts_uninterrupted
from tapegrad.errors import TapeExitError, TapeExitWarning, TapegradError

AS_ARRAY = "__array__ or memoryview()"
"""The name of a read by NumPy, which since Python 3.12 may use either."""
DLPACK = "__dlpack__"
CUDA_INTERFACE = "__cuda_array_interface__"
CUPY = "cupy.asarray()"
_TEXT = {"repr()", "==", "text or file"}
"""Reads by functions of tapegrad whose result is text, a truth value or a file."""
_SILENT = {"numpy()", "numpy_later()"}
_DELIBERATE = {*_SILENT, "pickle"}
_BECAME = {
    AS_ARRAY: "a NumPy array",
    DLPACK: "an array of another library through __dlpack__",
    CUDA_INTERFACE: "an array of another library through __cuda_array_interface__",
    CUPY: "a CuPy array",
    "tolist()": "a list of Python numbers",
    "bytes()": "bytes",
    "pickle": "a pickle",
}
_TO_OTHERS = (
    "Wrap that computation in tapegrad.custom_gradient, or give it tapegrad.stop_gradient(x)"
)
_TO_NUMBERS = (
    "Compute with the tensor itself: np.sin(x) is recorded, math.sin(x) is not. To fill an array, "
    "make it with tapegrad.numpy.zeros, or collect the values in a list and join them with "
    "np.stack. Take x.numpy()"
)
MODES = ("warn", "raise", "ignore")
_MOST = 256
_LATEST = 8
_MOST_SITES = 1000
_LONGEST = 80

_mode: ContextVar[str] = ContextVar("tapegrad_tape_exits", default="warn")


class exit_mode:  # noqa: N801  # used like a function
    """Choose what happens at an exit in this thread; as a context manager, until the block ends."""

    def __init__(self, mode: str) -> None:
        self._token = _mode.set(mode)

    def __enter__(self) -> None:
        """Do nothing: the constructor has set the mode."""

    @starts_uninterrupted
    def __exit__(self, *_: object) -> None:
        _mode.reset(self._token)


class Cut:
    """A place where a recorder lost values: an exit, or an operation without derivative.

    `is_deliberate` is true for `x.numpy()` and pickling, which obviously leave the tape. References
    to nodes are weak, so that explanations keep no computation alive.
    """

    __slots__ = ("is_deliberate", "is_exit", "nodes", "reason", "where")

    def __init__(self, reason: str, where: str, is_exit: bool, is_deliberate: bool) -> None:
        self.reason = reason
        self.where = where
        self.is_exit = is_exit
        self.is_deliberate = is_deliberate
        self.nodes: deque[weakref.ref[Node]] = deque(maxlen=_LATEST)

    def __str__(self) -> str:
        return f"{self.reason} ({self.where})"


_NO_CUTS: dict[tuple[str, str], Cut] = {}


class CutLog:
    """The cuts of one recorder, each place once, the latest last.

    `warns_of_numbers` is true for the recorders of transforms, which also warn of conversions to
    Python numbers.
    """

    tracks_exits = True
    allows_exits = False
    warns_of_numbers = False
    cuts: dict[tuple[str, str], Cut] = _NO_CUTS
    warned: frozenset[str] = frozenset()
    """The lines that a warning has named."""

    def note_cut(
        self,
        reason: str,
        node: Node,
        where: str,
        is_exit: bool = False,
        is_deliberate: bool = False,
    ) -> None:
        """Remember where a value was lost, for explanations."""
        if self.cuts is _NO_CUTS:
            self.cuts = {}  # not in the constructor: most tapes have no cuts
        known = self.cuts.pop((reason, where), None)
        if known is None:
            known = Cut(reason, where, is_exit, is_deliberate)
            if len(self.cuts) >= _MOST:
                del self.cuts[next(iter(self.cuts))]
        known.nodes.append(weakref.ref(node))
        self.cuts[reason, where] = known

    def forget_cuts(self) -> None:
        self.cuts, self.warned = _NO_CUTS, frozenset()

    @property
    def exits(self) -> list[Cut]:
        """The exits, the latest first."""
        return [cut for cut in reversed(self.cuts.values()) if cut.is_exit]


class Site(NamedTuple):
    """A place in the user's program where values leave; None for the reason if nothing is lost."""

    reason: str | None
    where: str
    stores: bool


_sites: dict[tuple[CodeType, int, str, bool], Site] = {}


def note_exit(how: str, node: Node) -> None:
    """Note that the value of `node` leaves its recorders; `how` names the user's call."""
    listeners = active_stack().exit_listeners
    if not listeners or how in _TEXT:
        return
    followers = [recorder for recorder in listeners if recorder.token in node.tokens]
    if not followers:
        return
    frame, called = user_call()
    inside = _is_ours(called)
    key = (frame.f_code, frame.f_lasti, how, inside)
    site = _sites.get(key) or _site(key, frame)
    reason, where = site.reason, site.where
    if reason is None:
        return
    is_deliberate = how in _DELIBERATE and not inside
    for recorder in followers:
        recorder.note_cut(reason, node, where, True, is_deliberate)
    if how in _SILENT or (inside and how != AS_ARRAY):
        return  # a function of tapegrad says in its documentation what it reads
    followers = [r for r in followers if r.warns_of_numbers or how in (AS_ARRAY, DLPACK)]
    if followers and not any([where in recorder.warned for recorder in followers]):
        _warn(_sentence(how, site, frame), frame)
        for recorder in followers:  # afterwards: NumPy tries again if it is an error
            recorder.warned |= {where}


def _site(key: tuple[CodeType, int, str, bool], frame: FrameType) -> Site:
    """Return what happens at an instruction of the user's program, and remember it."""
    from tapegrad.core.value_use import use_at  # imports `ast`, which most programs do not need

    how, inside = key[2:]
    use = use_at(frame)
    stores = use.stores and not inside
    reason = f"left the tape through {how}"
    if stores:
        reason += " in an assignment to an item of a NumPy array"
    elif use.reader and not f"{use.reader}()".endswith(how):
        reason += f" in {use.reader}()"
    if len(_sites) >= _MOST_SITES:
        _sites.clear()
    found = _sites[key] = Site(None if use.shows else reason, place_of(frame), stores)
    return found


def _is_ours(called: FrameType) -> bool:
    """Whether the user's line calls a function of tapegrad that reads the value.

    Methods of tensors and variables, in `core`, are the exits themselves.
    """
    module = module_of(called)
    return module.startswith("tapegrad.") and not module.startswith("tapegrad.core.")


def _sentence(how: str, site: Site, frame: FrameType) -> str:
    became = "an item of a NumPy array" if site.stores else _BECAME.get(how, "a Python number")
    import linecache  # slow to import, and rarely needed

    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals).strip()
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."
    quoted = f", in `{line}`" if line else ""
    advice = _TO_OTHERS if how in (DLPACK, CUDA_INTERFACE, CUPY) else _TO_NUMBERS
    return (
        f"A tensor that a tape follows became {became}: what is computed from that is not "
        f"recorded, and its derivative is lost. It {site.reason} at {site.where}{quoted}. {advice} "
        "where no gradient is wanted."
    )


def raise_cause(error: BaseException | None) -> None:
    """Raise the error of ours that NumPy has replaced by "setting an array element ...", if any."""
    cause = None if error is None else error.__cause__
    if type(error) is ValueError and isinstance(cause, TapegradError | TapeExitWarning):
        raise cause.with_traceback(error.__traceback__) from None


def report(sentence: str) -> None:
    """Warn at the user's line that a derivative was lost, or raise if that mode is chosen."""
    _warn(sentence, user_call()[0])


def _warn(sentence: str, frame: FrameType) -> None:
    mode = _mode.get()
    if mode == "raise":
        raise TapeExitError(sentence)
    if mode == "warn":
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        name, line = frame.f_code.co_filename, frame.f_lineno
        warnings.warn_explicit(sentence, TapeExitWarning, name, line, module_of(frame), registry)
