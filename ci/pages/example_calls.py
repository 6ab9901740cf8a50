"""Calls that stand for functions whose docstring has no example; the reference runs them."""

from __future__ import annotations

RANDOM = {
    "random": "2",
    "bernoulli": "0.5, size=4",
    "beta": "2.0, 3.0, size=2",
    "binomial": "10, 0.5, size=3",
    "bytes": "3",
    "chisquare": "2.0, size=2",
    "choice": "[1, 2, 3], size=2",
    "dirichlet": "[1.0, 2.0]",
    "exponential": "2.0, size=2",
    "f": "2.0, 3.0, size=2",
    "gamma": "2.0, size=2",
    "geometric": "0.5, size=3",
    "gumbel": "size=2",
    "hypergeometric": "5, 5, 4, size=3",
    "laplace": "size=2",
    "logistic": "size=2",
    "lognormal": "size=2",
    "logseries": "0.5, size=3",
    "multinomial": "6, [0.5, 0.5]",
    "multivariate_normal": "[0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]]",
    "negative_binomial": "3, 0.5, size=3",
    "noncentral_chisquare": "2.0, 1.0, size=2",
    "noncentral_f": "2.0, 3.0, 1.0, size=2",
    "normal": "0.0, 1.0, size=2",
    "pareto": "3.0, size=2",
    "permutation": "5",
    "poisson": "3.0, size=3",
    "power": "3.0, size=2",
    "rand": "2",
    "randint": "0, 10, size=3",
    "randn": "2",
    "random_integers": "1, 6, size=3",
    "rayleigh": "size=2",
    "standard_cauchy": "size=2",
    "standard_exponential": "size=2",
    "standard_gamma": "2.0, size=2",
    "standard_normal": "size=2",
    "standard_t": "3.0, size=2",
    "triangular": "0.0, 0.5, 1.0, size=2",
    "uniform": "0.0, 1.0, size=2",
    "vonmises": "0.0, 1.0, size=2",
    "wald": "1.0, 1.0, size=2",
    "weibull": "2.0, size=2",
    "zipf": "3.0, size=3",
}
"""Arguments of the distributions of `tapegrad.numpy.random`; the seed is set before each call."""

PAIR = "tf.ones([1, 2]), 2.0 * tf.ones([1, 2])"
MERGED = ("add", "average", "concatenate", "maximum", "minimum", "multiply", "subtract")
REDUCED = ("logsumexp", "max", "mean", "min", "prod", "sum")
A_MATRIX = "[[2.0, 0.0], [0.0, 1.0]]"

CALLS: dict[str, list[str]] = {
    **{
        f"tapegrad.numpy.random.{name}": [
            "tf.numpy.random.seed(0)",
            f"tf.numpy.random.{name}({arguments})",
        ]
        for name, arguments in RANDOM.items()
    },
    **{f"tapegrad.keras.layers.{name}": [f"tf.keras.layers.{name}([{PAIR}])"] for name in MERGED},
    "tapegrad.keras.layers.dot": [f"tf.keras.layers.dot([{PAIR}], axes=1)"],
    **{
        f"tapegrad.compat.v1.reduce_{name}": [
            f"tf.compat.v1.reduce_{name}([[1.0, 2.0], [3.0, 4.0]], axis=1)"
        ]
        for name in REDUCED
    },
    "tapegrad.compat.v1.reduce_all": ["tf.compat.v1.reduce_all([True, False])"],
    "tapegrad.compat.v1.reduce_any": ["tf.compat.v1.reduce_any([True, False])"],
    "tapegrad.numpy.random.seed": ["tf.numpy.random.seed(0)", "tf.numpy.random.random()"],
    "tapegrad.numpy.random.get_state": [
        "state = tf.numpy.random.get_state()",
        "first = tf.numpy.random.random()",
        "tf.numpy.random.set_state(state)",
        "bool(tf.numpy.random.random() == first)",
    ],
    "tapegrad.numpy.random.shuffle": [
        "x = tf.numpy.arange(4)",
        "tf.numpy.random.shuffle(x)",
        "sorted(x.tolist())",
    ],
    "tapegrad.keras.ops.average_pool": [
        "tf.keras.ops.average_pool(tf.ones([1, 4, 4, 1]), 2).shape"
    ],
    "tapegrad.keras.ops.max_pool": ["tf.keras.ops.max_pool(tf.ones([1, 4, 4, 1]), 2).shape"],
    "tapegrad.keras.config.disable_flash_attention": [
        "tf.keras.config.disable_flash_attention()",
        "tf.keras.config.is_flash_attention_enabled()",
    ],
    "tapegrad.keras.config.disable_interactive_logging": [
        "tf.keras.config.disable_interactive_logging()",
        "tf.keras.config.is_interactive_logging_enabled()",
    ],
    "tapegrad.keras.config.disable_traceback_filtering": [
        "tf.keras.config.disable_traceback_filtering()",
        "tf.keras.config.is_traceback_filtering_enabled()",
    ],
    "tapegrad.keras.config.dtype_policy": ["tf.keras.config.dtype_policy().name"],
    "tapegrad.numpy.emath.sqrt": ["tf.numpy.emath.sqrt(-4.0)"],
    "tapegrad.numpy.emath.log": ["tf.numpy.emath.log(-1.0)"],
    "tapegrad.numpy.emath.log2": ["tf.numpy.emath.log2(-2.0)"],
    "tapegrad.numpy.emath.log10": ["tf.numpy.emath.log10(-10.0)"],
    "tapegrad.numpy.emath.arctanh": ["tf.numpy.emath.arctanh(2.0)"],
    "tapegrad.numpy.linalg.EigResult": [f"tf.numpy.linalg.eig({A_MATRIX}).eigenvalues"],
    "tapegrad.numpy.linalg.EighResult": [f"tf.numpy.linalg.eigh({A_MATRIX}).eigenvalues"],
    "tapegrad.numpy.linalg.QRResult": [f"tf.numpy.linalg.qr({A_MATRIX}).R"],
    "tapegrad.numpy.linalg.SVDResult": [f"tf.numpy.linalg.svd({A_MATRIX}).S"],
    "tapegrad.numpy.linalg.SlogdetResult": [f"tf.numpy.linalg.slogdet({A_MATRIX}).logabsdet"],
    "tapegrad.numpy.polynomial.polynomial.polypow": [
        "tf.numpy.polynomial.polynomial.polypow([1.0, 1.0], 2)"
    ],
    "tapegrad.extend.unary": [
        'cube = tf.extend.unary("cube", lambda t, x: 3.0 * t * x * x, forward=lambda xp, x: x**3)',
        "tf.grad(cube)(2.0)",
        'del tf.extend.PRIMITIVES["cube"]',
    ],
    "tapegrad.extend.binary": [
        "forward = lambda xp, x1, x2: x1 * x2",
        (
            'area = tf.extend.binary("area", lambda t, x2: t * x2, lambda t, x1: t * x1, '
            "forward=forward)"
        ),
        "tf.grad(area)(2.0, 3.0)",
        'del tf.extend.PRIMITIVES["area"]',
    ],
}
CALLS["tapegrad.numpy.random.set_state"] = CALLS["tapegrad.numpy.random.get_state"]
for _end in ("flash_attention", "interactive_logging", "traceback_filtering"):
    CALLS[f"tapegrad.keras.config.is_{_end}_enabled"] = [
        f"tf.keras.config.enable_{_end}()",
        f"tf.keras.config.is_{_end}_enabled()",
    ]

DOWNLOADS = "it downloads a file"
WITHOUT = {
    **{
        f"tapegrad.keras.datasets.{name}.load_data": DOWNLOADS
        for name in ("boston_housing", "california_housing", "cifar10", "cifar100",
                     "fashion_mnist", "imdb", "mnist", "reuters")
    },
    "tapegrad.keras.datasets.imdb.get_word_index": DOWNLOADS,
    "tapegrad.keras.datasets.reuters.get_word_index": DOWNLOADS,
    "tapegrad.extend.elementwise": "docs/primitives.md shows the form",
    "tapegrad.extend.linear": "docs/primitives.md shows the form",
    "tapegrad.extend.nondifferentiable": "docs/primitives.md shows the form",
    "tapegrad.extend.register_backend": "it changes the registry; docs/backends.md shows it",
    "tapegrad.extend.unregister_backend": "it changes the registry; docs/backends.md shows it",
    "tapegrad.keras.callbacks.CallbackList": "`fit` makes it",
    "tapegrad.keras.callbacks.ProgbarLogger": "`fit` makes it",
    "tapegrad.profiler.experimental.stop": "`start` has the example of both",
    "tapegrad.types.experimental.GenericFunction": "a type for annotations",
    "tapegrad.types.experimental.TensorLike": "a type for annotations",
}  # fmt: skip
"""Public names without an example, each with the reason."""
