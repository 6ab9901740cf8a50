"""The primitives without a translation, per library; a test compares the lists with the truth."""

from __future__ import annotations

# Prints, Python code, and draws by rejection, whose number of attempts depends on the values.
_ALWAYS = {
    *("act", "host_call"),
    *("random_gamma", "random_gammas", "random_poisson", "random_poissons"),
}

MISSING: dict[str, frozenset[str]] = {
    "numpy": frozenset(_ALWAYS | {"igamma_grad_a", "random_gamma_grad"}),
    "jax": frozenset(
        _ALWAYS
        | {f"bessel_{name}" for name in ("j0", "j1", "y0", "y1", "k0", "k1", "k0e", "k1e")}
        # It keeps what each round reads, and JAX has no arrays with an entry per round whose number
        # is not known.
        | {"conditional_loop_gradient"}
    ),
    "torch": frozenset(
        _ALWAYS
        | {"igamma_grad_a", "random_gamma_grad", "betainc", "dawsn", "expint", "spence"}
        | {"fresnel_sin", "fresnel_cos", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"}
    ),
}
