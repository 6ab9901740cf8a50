"""Image layers that mix the images and labels of a batch, or the results of other layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tapegrad.core.argument_checks import check_count
from tapegrad.core.values.device import device
from tapegrad.keras import random
from tapegrad.keras.layers.image_colours import (
    AutoContrast,
    Equalization,
    RandomColorDegeneration,
    RandomPosterization,
    ShareLayer,
    Solarization,
)
from tapegrad.keras.layers.image_filters import BoxLayer, RandomSharpness
from tapegrad.keras.layers.image_geometry import RandomRotation, RandomShear, RandomTranslation
from tapegrad.keras.layers.image_layers import RandomBrightness, RandomContrast
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.copying import revived
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.control.control_flow import switch_case
from tapegrad.ops.creation import arange
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import clip, where
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.reduction.functions import reduce_mean, reduce_sum
from tapegrad.ops.shape.functions import reshape


class _Mixing(BoxLayer):
    """Base class of layers that mix each image with another one of the batch."""

    moves_pixels = True

    def _order(self, x: Any) -> Any:
        with device(x.device):
            return random.shuffle(arange(0, x.shape[0], dtype="int64"), seed=self.seed_generator)

    def _shares(self, x: Any, alpha: Any) -> Any:
        """Draw the share of each image from a beta distribution, as numbers `[batch, 1, 1, 1]`."""
        with device(x.device):
            return random.beta((x.shape[0], 1, 1, 1), alpha, alpha, "float32", self.seed_generator)

    def _changed_labels(self, labels: Any, drawn: Any) -> Any:
        if drawn is None:
            return labels
        order, share = drawn[:2]
        labels = labels if labels.dtype.is_floating else in_dtype(labels, self.compute_dtype)
        share = reshape(share, (-1, *[1] * (len(labels.shape) - 1)))
        return _mixed(labels, gather(labels, order, axis=0), in_dtype(share, labels.dtype))


def _mixed(one: Any, other: Any, share: Any) -> Any:
    return share * one + (1.0 - share) * other


class MixUp(_Mixing):
    """Return weighted means of each image with another one of the batch, and of their labels.

    The weights have a beta distribution with both parameters `alpha`. The labels, under the key
    `labels` of a dict, are one-hot vectors. A single image does not change.

    >>> import tapegrad
    >>> parts = {"images": tapegrad.ones([4, 2, 2, 3]), "labels": tapegrad.eye(4)}
    >>> MixUp()(parts, training=True)["labels"].numpy().sum(1).round(4).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        alpha: float = 0.2,
        data_format: str | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(0.0, data_format=data_format, seed=seed, **kwargs)
        self.alpha = alpha

    def _draw(self, x: Any) -> Any:
        return (self._order(x), self._shares(x, self.alpha)) if len(x.shape) == 4 else None

    def _changed(self, x: Any, drawn: Any) -> Any:
        if drawn is None:
            return x
        order, share = drawn
        return _mixed(x, gather(x, order, axis=0), in_dtype(share, x.dtype))


class CutMix(_Mixing):
    """Replace a random box of each image by that of another one, and mix their labels likewise.

    The area of the boxes follows a beta distribution whose parameters are drawn up to `factor`.
    The labels, under the key `labels` of a dict, are one-hot vectors.

    >>> import tapegrad
    >>> parts = {"images": tapegrad.ones([4, 8, 8, 3]), "labels": tapegrad.eye(4)}
    >>> CutMix()(parts, training=True)["labels"].numpy().sum(1).round(4).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        factor: Any = 1.0,
        seed: int | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(factor, data_format=data_format, seed=seed, **kwargs)

    def _draw(self, x: Any) -> Any:
        if len(x.shape) != 4:
            return None
        low, high = self.factor
        with device(x.device):
            alpha = self.seed_generator.uniform((), dtype="float32") * (high - low) + low + 1e-6
        length = sqrt(1.0 - self._shares(x, alpha))
        mask = self._box(x, length, length)
        # The share of the labels is that of the pixels of the box, which has whole pixels only.
        pixels = in_dtype(mask, "float32")
        return self._order(x), 1.0 - reduce_mean(pixels, (1, 2, 3), keepdims=True), mask

    def _changed(self, x: Any, drawn: Any) -> Any:
        return x if drawn is None else where(drawn[2], gather(x, drawn[0], axis=0), x)


class _Policy(ShareLayer):
    """Base class of layers that apply randomly chosen layers, with the same choice for a batch."""

    moves_pixels = True

    def __init__(
        self, value_range: Any, factor: Any, interpolation: str, seed: Any, **kwargs: Any
    ) -> None:
        super().__init__(factor, value_range, seed=seed, **kwargs)
        self.interpolation = interpolation
        own = {"seed": seed, "dtype": self.dtype_policy, "data_format": self.data_format}
        moving: dict[str, Any] = {"interpolation": interpolation, **own}
        colours: dict[str, Any] = {"value_range": value_range, **own}
        still = {key: colours[key] for key in ("value_range", "dtype", "data_format")}
        f = self.factor
        self._colour_layers: list[Any] = [
            RandomBrightness(f, **colours),
            RandomColorDegeneration(f, **colours),
            RandomContrast(f, **colours),
            RandomSharpness(f, **colours),
        ]
        self._other_layers: list[Any] = [
            RandomShear(f, f, **moving),
            RandomTranslation(f, f, **moving),
            RandomRotation(f, **moving),
            RandomPosterization(max(1, int(8 * f[1])), **colours),
            Solarization(f, f, **colours),
            AutoContrast(**still),
            Equalization(**still),
        ]

    def _choices(self, x: Any, shape: tuple[int, ...], layers: list[Any], more: int = 0) -> Any:
        """Choose layers by their numbers, and draw the random numbers of all of them."""
        with device(x.device):
            chosen = self.seed_generator.integers(shape, 0, len(layers) + more)
        return chosen, [layer._draw(x) for layer in layers]

    @staticmethod
    def _applied(x: Any, number: Any, layers: list[Any], drawn: list[Any]) -> Any:
        """Apply the layer with this number; a number that is too large changes nothing."""
        runs: list[Callable[[], Any]] = [
            partial(layer._changed, x, numbers)
            for layer, numbers in zip(layers, drawn, strict=True)
        ]
        return switch_case(number, [partial(_in, run, x) for run in runs], default=lambda: x)


def _in(run: Callable[[], Any], x: Any) -> Any:
    return in_dtype(run(), x.dtype)


class RandAugment(_Policy):
    """Apply `num_ops` randomly chosen layers: shear, rotation, contrast, solarization and others.

    >>> import tapegrad
    >>> RandAugment(seed=1)(tapegrad.ones([2, 8, 8, 3]), training=True).shape
    (2, 8, 8, 3)
    """

    def __init__(
        self,
        value_range: Any = (0, 255),
        num_ops: int = 2,
        factor: Any = 0.5,
        interpolation: str = "bilinear",
        seed: int | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        options = value_range, factor, interpolation, seed
        super().__init__(*options, data_format=data_format, **kwargs)
        self.num_ops = check_count("num_ops", num_ops, "RandAugment", 1)
        self._layers = self._other_layers[:3] + self._colour_layers + self._other_layers[3:]

    def _draw(self, x: Any) -> Any:
        return self._choices(x, (self.num_ops,), self._layers)

    def _changed(self, x: Any, drawn: Any) -> Any:
        chosen, numbers = drawn
        for k in range(self.num_ops):
            x = self._applied(x, chosen[k], self._layers, numbers)
        return x


class AugMix(_Policy):
    """Mix each image with the results of several chains of randomly chosen layers.

    Weights of the chains have a Dirichlet distribution, the share of the image a beta
    distribution, both with the parameter `alpha`. With `all_ops=False`, brightness, contrast,
    sharpness and colours stay as they are.

    >>> import tapegrad
    >>> AugMix(num_chains=1, chain_depth=1)(tapegrad.ones([2, 8, 8, 3]), training=True).shape
    (2, 8, 8, 3)
    """

    def __init__(
        self,
        value_range: Any = (0, 255),
        num_chains: int = 3,
        chain_depth: int = 3,
        factor: Any = 0.3,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: str = "bilinear",
        seed: int | None = None,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        options = value_range, factor, interpolation, seed
        super().__init__(*options, data_format=data_format, **kwargs)
        self.num_chains = check_count("num_chains", num_chains, "AugMix", 1)
        self.chain_depth = check_count("chain_depth", chain_depth, "AugMix", 1)
        self.alpha, self.all_ops = alpha, all_ops
        self._layers = self._other_layers + (self._colour_layers if all_ops else [])

    def _draw(self, x: Any) -> Any:
        source, alpha = self.seed_generator, self.alpha
        with device(x.device):
            parts = random.gamma((self.num_chains,), alpha, "float32", source)
            share = random.beta((), alpha, alpha, "float32", source)
        depth = range(self.chain_depth)
        chains = [
            [self._choices(x, (), self._layers, more=1) for _ in depth]
            for _ in range(self.num_chains)
        ]
        return parts / reduce_sum(parts), share, chains

    def _changed(self, x: Any, drawn: Any) -> Any:
        parts, share, chains = drawn
        mix = x * 0.0
        for k, chain in enumerate(chains):
            y = x
            for number, numbers in chain:
                y = self._applied(y, number, self._layers, numbers)
            mix = mix + y * in_dtype(parts[k], x.dtype)
        return clip(_mixed(x, mix, in_dtype(share, x.dtype)), *self.value_range)


class Pipeline(Layer):
    """Call layers one after the other; those of images may take dicts with images and labels.

    >>> import tapegrad
    >>> from tapegrad.keras.layers.image_layers import RandomBrightness, RandomFlip
    >>> steps = Pipeline([RandomFlip(), RandomBrightness((0.2, 0.2))])
    >>> steps(tapegrad.zeros([1, 2, 2, 1]), training=True).numpy().ravel().tolist()
    [51.0, 51.0, 51.0, 51.0]
    """

    def __init__(self, layers: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layers = [revived(layer) for layer in layers]

    def call(self, inputs: Any, training: Any = True) -> Any:
        for layer in self.layers:
            inputs = layer(inputs, training=training)
        return inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        for layer in self.layers:
            input_shape = layer.compute_output_shape(input_shape)
        return input_shape
