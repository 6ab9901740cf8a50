"""HIPS autograd's interface, implemented by tapegrad: only the import line changes.

    import tapegrad.compat.autograd.numpy as np
    from tapegrad.compat.autograd import grad

On the CPU, values outside of a trace are NumPy's; with TAPEGRAD_DEVICE=cuda they are tensors on
the GPU. Inside a trace, traced values are tensors: writing into them is recorded, containers that
hold them are plain Python containers, and jacobians take one batched sweep for all rows. Not
supported: traced values of user classes (`Box.register`), and extended precision, which becomes
double.
"""

from tapegrad.compat.autograd import numpy
from tapegrad.compat.autograd.builtins import dict, isinstance, list, tuple, type
from tapegrad.compat.autograd.differential_operators import (
    checkpoint,
    deriv,
    elementwise_grad,
    grad,
    grad_and_aux,
    grad_named,
    hessian,
    hessian_tensor_product,
    hessian_vector_product,
    holomorphic_grad,
    jacobian,
    make_ggnvp,
    make_hvp,
    make_jvp,
    make_vjp,
    multigrad_dict,
    primitive,
    tensor_jacobian_product,
    value_and_grad,
    vector_jacobian_product,
)

__all__ = [
    "checkpoint", "deriv", "dict", "elementwise_grad", "grad", "grad_and_aux", "grad_named",
    "hessian", "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad", "isinstance",
    "jacobian", "list", "make_ggnvp", "make_hvp", "make_jvp", "make_vjp", "multigrad_dict", "numpy",
    "primitive", "tensor_jacobian_product", "tuple", "type", "value_and_grad",
    "vector_jacobian_product",
]  # fmt: skip
