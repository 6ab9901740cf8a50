"""The namespaces of the libraries that run translated programs, with NumPy's dtypes and SciPy's
functions under the names of primitives."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

Kernel = Callable[..., Any]

_IN_SCIPY = (
    "erf", "erfc", "erfcx", "erfinv", "erfcinv", "ndtr", "ndtri", "log_ndtr", "digamma",
    "polygamma", "zeta", "betainc", "dawsn", "spence",
)  # fmt: skip

_RENAMED = {
    "lgamma": "gammaln",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    "lbeta": "betaln",
    "expint": "expi",
    **{f"bessel_{name}": name for name in ("i0", "i1", "i0e", "i1e", "j0", "j1", "y0", "y1")},
    **{f"bessel_{name}": name for name in ("k0", "k1", "k0e", "k1e")},
}
"""The names that SciPy, and JAX after it, has for primitives."""

_RENAMED_IN_TORCH = {
    "lgamma": "gammaln",
    "igamma": "gammainc",
    "igammac": "gammaincc",
    **{f"bessel_{name}": name for name in ("i0", "i1", "i0e", "i1e")},
    "bessel_k0": "modified_bessel_k0",
    "bessel_k1": "modified_bessel_k1",
    "bessel_k0e": "scaled_modified_bessel_k0",
    "bessel_k1e": "scaled_modified_bessel_k1",
}
"""Without the functions that are off by 1e-8 or more in double precision, such as `bessel_j0`."""


def namespace(name: str) -> Any:
    """Return the Array API namespace of a library."""
    if name == "torch":
        torch: Any = importlib.import_module("torch")
        # tapegrad's products have the precision of their operands, on GPUs too.
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        return importlib.import_module("array_api_compat.torch")
    if name == "jax":
        jax: Any = importlib.import_module("jax")
        # Programs have 64-bit indices and states, and some of them 64-bit numbers. All results are
        # cast to the recorded dtypes, so the others stay as short as they are.
        jax.config.update("jax_enable_x64", True)
        # tapegrad's products have the precision of their operands, on GPUs too.
        jax.config.update("jax_default_matmul_precision", "highest")
        # Kernels ask for the device of an array, which a value inside jit does not have.
        jax.core.Tracer.device = None
    return importlib.import_module("jax.numpy" if name == "jax" else "numpy")


def special_functions(name: str) -> dict[str, Kernel]:
    """Return the special functions of a library under the names of primitives."""
    modules = {"jax": "jax.scipy.special", "torch": "torch.special", "numpy": "scipy.special"}
    try:
        module: Any = importlib.import_module(modules[name])
    except ImportError:
        return {}
    renamed = _RENAMED_IN_TORCH if name == "torch" else _RENAMED
    names = {**{n: n for n in _IN_SCIPY}, **renamed}
    if name == "numpy":
        names["digamma"] = "psi"
    found = {n: getattr(module, theirs) for n, theirs in names.items() if hasattr(module, theirs)}
    if hasattr(module, "fresnel"):
        found["fresnel_sin"] = lambda x: module.fresnel(x)[0]
        found["fresnel_cos"] = lambda x: module.fresnel(x)[1]
    found.setdefault("erfcinv", lambda x: module.ndtri(0.5 * x) * -(0.5**0.5))
    found.setdefault(
        "lbeta", lambda a, b: module.gammaln(a) + module.gammaln(b) - module.gammaln(a + b)
    )
    return found


def is_dtype(value: Any) -> bool:
    """Whether a value is one of NumPy's dtypes."""
    return isinstance(value, np.dtype) or (
        isinstance(value, type) and issubclass(value, np.generic)
    )


class Converting:
    """A namespace whose functions take NumPy's dtypes, and whose arrays are on one device."""

    def __init__(self, xp: Any, to_dtype: Callable[[Any], Any], device: Any = None) -> None:
        self._xp, self._to_dtype, self._device = xp, to_dtype, device

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._xp, name)
        if not callable(found) or isinstance(found, type):
            if isinstance(found, ModuleType):
                return Converting(found, self._to_dtype, self._device)
            return found

        @functools.wraps(found)
        def call(*operands: Any, **params: Any) -> Any:
            operands = tuple(map(self._converted, operands))
            params = {key: self._converted(value) for key, value in params.items()}
            # A kernel names the device of an operand; a value inside jax.jit does not know its.
            if "device" in params and self._device is None:
                del params["device"]
            elif "device" in params:
                params["device"] = self._device
            return found(*operands, **params)

        setattr(self, name, call)
        return call

    def _converted(self, value: Any) -> Any:
        return self._to_dtype(value) if is_dtype(value) else value


class WithBfloat16:
    """NumPy's namespace, whose `isdtype` knows bfloat16 too."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def isdtype(dtype: Any, kind: Any) -> bool:
        """Return whether a dtype is of a kind, or of one of several."""
        if np.dtype(dtype).name != "bfloat16":
            return bool(np.isdtype(dtype, kind))
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return any(one in ("real floating", "numeric", dtype) for one in kinds)
