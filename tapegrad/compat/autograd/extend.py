"""The extension interface: declare primitives, their derivatives, and vector spaces."""

from tapegrad.compat.autograd.core import (
    JVPNode,
    SparseObject,
    VJPNode,
    VSpace,
    def_linear,
    defjvp,
    defjvp_argnum,
    defjvp_argnums,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    vspace,
)
from tapegrad.compat.autograd.tracer import (
    Box,
    Node,
    notrace_primitive,
    primitive,
    register_notrace,
)

__all__ = [
    "Box",
    "JVPNode",
    "Node",
    "SparseObject",
    "VJPNode",
    "VSpace",
    "def_linear",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "notrace_primitive",
    "primitive",
    "register_notrace",
    "vspace",
]
