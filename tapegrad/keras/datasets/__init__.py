"""Standard datasets, downloaded at the first `load_data` and cached in ~/.keras.

(x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
"""

from tapegrad.keras.datasets import (
    boston_housing,
    california_housing,
    cifar10,
    cifar100,
    fashion_mnist,
    imdb,
    mnist,
    reuters,
)

__all__ = [
    "boston_housing",
    "california_housing",
    "cifar10",
    "cifar100",
    "fashion_mnist",
    "imdb",
    "mnist",
    "reuters",
]
