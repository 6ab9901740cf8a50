"""TensorFlow's `tf.summary.experimental`: the step of summaries."""

from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.core.exports import list_exports as _list_exports
from tapegrad.summary.writers import get_step, set_step

__all__ = ["get_step", "set_step"]

_list_exports(globals())


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("summary.experimental", name)
