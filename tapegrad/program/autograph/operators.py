"""The operators that converted code calls; see the package."""

from tapegrad.program.autograph.branches import assert_, if_, if_expression, raised
from tapegrad.program.autograph.expressions import and_, builtin, compare, goes_on, not_, or_
from tapegrad.program.autograph.iteration import for_, iterable
from tapegrad.program.autograph.loops import while_
from tapegrad.program.autograph.state import (
    UNDEFINED,
    BranchState,
    State,
    is_deleted,
    is_set_to_other,
    value_of,
)

__all__ = [
    "UNDEFINED",
    "BranchState",
    "State",
    "and_",
    "assert_",
    "builtin",
    "compare",
    "for_",
    "goes_on",
    "if_",
    "if_expression",
    "is_deleted",
    "is_set_to_other",
    "iterable",
    "not_",
    "or_",
    "raised",
    "value_of",
    "while_",
]
