"""Batch, layer, group, RMS and unit normalization layers.

Inputs in half precision are normalized in float32, because sums of many squares would overflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapegrad.core.primitive.operand import normalize_axes
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras import initializers
from tapegrad.keras.layers.context import current_pass
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.moving_averages import MovingAverages
from tapegrad.keras.layers.weight_rules import ruled_weight, set_rules
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.elementwise.activations import relu as rectified
from tapegrad.ops.elementwise.selection import maximum, where
from tapegrad.ops.linalg.norms import l2_normalize
from tapegrad.ops.normalization.functions import (
    batch_normalization,
    group_norm,
    layer_norm,
    rms_norm,
)
from tapegrad.ops.normalization.primitives import normalize_p
from tapegrad.ops.normalization.with_relu import normalize_relu_p
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.ops.shape.functions import broadcast_to, expand_dims, moveaxis, reshape


class _Normalizing(Layer):
    """Base class of layers whose weights have the sizes of the input along some axes."""

    supports_masking = True
    axis: Any

    def _axes(self, rank: int) -> tuple[int, ...]:
        return normalize_axes(self.axis, rank, self._title)

    def _weight_shape(self, input_shape: Any) -> tuple[Any, ...]:
        """Return the shape of the weights, and store it for later calls."""
        rank = len(input_shape)
        self._rank, self._last_axes = rank, self._axes(rank)
        self._other_axes = tuple([k for k in range(rank) if k not in self._last_axes])
        self._sizes = tuple(input_shape[axis] for axis in self._last_axes)
        return self._sizes

    def _checked(self, inputs: Any) -> tuple[int, ...]:
        """Check the input against the weights, and return its normalized axes."""
        shape = inputs.shape
        axes = self._last_axes if len(shape) == self._rank else self._axes(len(shape))
        if tuple([shape[axis] for axis in axes]) != self._sizes:
            raise ShapeError(
                f"{self._title} was built for inputs with sizes {self._sizes} along axis "
                f"{self.axis}. Got shape {inputs.shape}."
            )
        return axes

    def compute_output_shape(self, input_shape: Any) -> Any:
        self._axes(len(input_shape))
        return tuple(input_shape)


class _Affine(_Normalizing):
    """Base class of layers that scale by `gamma` and shift by `beta` at the end."""

    def __init__(self, given: Mapping[str, Any], **kwargs: Any) -> None:
        """Set the arguments of a subclass, which `given` holds by name."""
        super().__init__(**kwargs)
        self.center, self.scale = given["center"], given["scale"]
        set_rules(self, given, "beta", "gamma")

    def _add_affine(self, shape: tuple[Any, ...]) -> None:
        self.gamma = ruled_weight(self, "gamma", shape, autocast=False) if self.scale else None
        self.beta = ruled_weight(self, "beta", shape, autocast=False) if self.center else None


class BatchNormalization(_Affine):
    """Normalize each channel by batch statistics in training, by moving averages otherwise.

    With `trainable = False`, training also uses the moving averages and does not update them.

    >>> import tapegrad
    >>> layer = BatchNormalization(epsilon=0.0)
    >>> layer(tapegrad.constant([[1.0], [3.0]]), training=True).tolist()
    [[-1.0], [1.0]]
    """

    def __init__(
        self,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: Any = None,
        renorm_momentum: float = 0.99,
        synchronized: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals(), **kwargs)
        if renorm or synchronized:
            raise ArgumentError(
                "BatchNormalization uses the statistics of one batch on one device: it takes "
                "renorm=False and synchronized=False. "
                f"Got renorm={renorm}, synchronized={synchronized}."
            )
        self.axis = _one_axis(axis, "BatchNormalization")
        self.momentum, self.epsilon = float(momentum), float(epsilon)
        self.moving_mean_initializer = initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = initializers.get(moving_variance_initializer)

    def build(self, input_shape: Any) -> None:
        if len(input_shape) < 2:
            raise ShapeError(
                f"Layer {self.name!r} (BatchNormalization) takes inputs of at least 2 dimensions, "
                f"the batch first. Got shape {tuple(input_shape)}."
            )
        sizes = self._weight_shape(input_shape)
        self._add_affine(sizes)
        self.moving_mean = self.add_weight(
            sizes, self.moving_mean_initializer, None, False, False, name="moving_mean"
        )
        self.moving_variance = self.add_weight(
            sizes, self.moving_variance_initializer, None, False, False, name="moving_variance"
        )

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        return self.normalize(inputs, training, mask, relu=False)

    def normalize(self, inputs: Any, training: Any, mask: Any, relu: bool) -> Any:
        """Normalize, and apply a ReLU to the result if `relu` is set."""
        (axis,) = self._checked(inputs)
        if not training or not self.trainable:
            forward_pass = current_pass.get()
            if forward_pass is not None:
                forward_pass.finish()  # an earlier call may have been in training mode
            x = _at_least_float32(inputs)
            y = self._normalized_by(x, self.moving_mean, self.moving_variance, axis)
            return rectified(y) if relu else y
        rank = inputs.ndim
        others = self._other_axes
        axes = others if rank == self._rank else tuple([k for k in range(rank) if k != axis])
        if mask is None:
            y, mean, variance = self._normalized(_kernel_input(inputs, axes), axis, axes, relu)
        else:
            x = _at_least_float32(inputs)
            mean, variance = self._masked_moments(x, mask, axes)
            y = self._normalized_by(x, mean, variance, axis)
            y = rectified(y) if relu else y
        self._update_averages(mean, variance)
        return y

    def _normalized(
        self, x: Any, axis: int, axes: tuple[int, ...], relu: bool
    ) -> tuple[Any, Any, Any]:
        """Normalize by the batch statistics in one primitive, and return the statistics too."""
        is_whole = self.scale and self.center
        if relu and is_whole:
            gain, bias = _broadcastable(self.gamma, x, axis), _broadcastable(self.beta, x, axis)
            y, *moments = normalize_relu_p(x, gain, bias, axes=axes, epsilon=self.epsilon)
            return in_dtype(y, self.compute_dtype), *moments
        nothing = None if is_whole else zeros_for(x, (1,) * len(x.shape), x.dtype)
        y, mean, variance = normalize_p(
            x,
            _broadcastable(self.gamma, x, axis) if self.scale else nothing,
            _broadcastable(self.beta, x, axis) if self.center else nothing,
            axes=axes,
            epsilon=self.epsilon,
            center=True,
            scaled=self.scale,
            shifted=self.center,
        )
        y = in_dtype(y, self.compute_dtype)
        return rectified(y) if relu else y, mean, variance

    def _normalized_by(self, x: Any, mean: Any, variance: Any, axis: int) -> Any:
        mean, variance = _broadcastable(mean, x, axis), _broadcastable(variance, x, axis)
        offset = _broadcastable(self.beta, x, axis) if self.center else None
        scale = _broadcastable(self.gamma, x, axis) if self.scale else None
        y = batch_normalization(x, mean, variance, offset, scale, self.epsilon)
        return in_dtype(y, self.compute_dtype)

    def _masked_moments(self, x: Any, mask: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
        if tuple(mask.shape) != tuple(x.shape[:-1]):
            raise ShapeError(
                f"Layer {self.name!r} (BatchNormalization) takes a mask of shape "
                f"{tuple(x.shape[:-1])} for this input. Got {mask.shape}."
            )
        kept = broadcast_to(expand_dims(cast(mask, "bool"), -1), tuple(x.shape))
        # If everything is masked, a count of 1 instead of 0 keeps the moments finite.
        count = maximum(reduce_sum(cast(kept, x.dtype), axes, keepdims=True), 1.0)
        mean = reduce_sum(where(kept, x, 0.0), axes, keepdims=True) / count
        rest = where(kept, x - mean, 0.0)
        variance = reduce_sum(rest * rest, axes, keepdims=True) / count
        return reshape(mean, self._sizes), reshape(variance, self._sizes)

    def _update_averages(self, mean: Any, variance: Any) -> None:
        """Update the moving averages with the statistics of this batch."""
        averages = self.moving_mean, self.moving_variance
        if type(mean) is not Tensor:
            averages[0].assign(mean)  # raises: inside vmap there is no single value
        forward_pass = current_pass.get()
        moving = MovingAverages() if forward_pass is None else forward_pass
        # Raw arrays, as in an optimizer step, so that no tape records the update.
        seen = mean.array, variance.array
        moving.follow(averages, seen, self._sizes, 1.0 - self.momentum)
        if forward_pass is None:
            moving.finish()


class LayerNormalization(_Affine):
    """Normalize each example over its features, or over several axes together.

    >>> import tapegrad
    >>> LayerNormalization(epsilon=0.0)(tapegrad.constant([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals(), **kwargs)
        self.axis, self.epsilon = _checked_axis(axis, "LayerNormalization"), float(epsilon)

    def build(self, input_shape: Any) -> None:
        self._add_affine(self._weight_shape(input_shape))

    def call(self, inputs: Any) -> Any:
        axes = self._checked(inputs)
        x = _kernel_input(inputs, axes)
        y = layer_norm(x, self.gamma, self.beta, self.epsilon, axes)
        return in_dtype(y, self.compute_dtype)


class GroupNormalization(_Affine):
    """Normalize each example over groups of channels; `groups=-1` makes each channel a group.

    >>> import tapegrad
    >>> layer = GroupNormalization(groups=2, epsilon=0.0)
    >>> layer(tapegrad.constant([[1.0, 3.0, 10.0, 30.0]])).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """

    def __init__(
        self,
        groups: int = 32,
        axis: int = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals(), **kwargs)
        if groups < 1 and groups != -1:
            raise ArgumentError(
                "GroupNormalization takes a positive number of groups, or -1 for one group per "
                f"channel. Got {groups!r}."
            )
        self.groups, self.epsilon = groups, float(epsilon)
        self.axis = _one_axis(axis, "GroupNormalization")

    def build(self, input_shape: Any) -> None:
        (channels,) = self._weight_shape(input_shape)
        if channels is not None and self.groups != -1 and channels % self.groups:
            raise ShapeError(
                f"Layer {self.name!r} (GroupNormalization) takes a number of channels along axis "
                f"{self.axis} that is divisible by its {self.groups} groups. "
                f"Got shape {tuple(input_shape)}."
            )
        self._add_affine((channels,))

    def call(self, inputs: Any) -> Any:
        (axis,) = self._checked(inputs)
        x, last = _at_least_float32(inputs), len(inputs.shape) - 1
        groups = self._sizes[0] if self.groups == -1 else self.groups
        x = x if axis == last else moveaxis(x, axis, last)
        y = group_norm(x, groups, self.gamma, self.beta, self.epsilon)
        return in_dtype(y if axis == last else moveaxis(y, last, axis), self.compute_dtype)


class RMSNormalization(_Normalizing):
    """Divide by the root of the mean square, then multiply by a `scale`.

    >>> import tapegrad
    >>> RMSNormalization(epsilon=0.0)(tapegrad.constant([[3.0, -3.0]])).tolist()
    [[1.0, -1.0]]
    """

    supports_masking = False

    def __init__(self, axis: Any = -1, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis, self.epsilon = _checked_axis(axis, "RMSNormalization"), float(epsilon)

    def build(self, input_shape: Any) -> None:
        sizes = self._weight_shape(input_shape)
        self.scale = self.add_weight(sizes, "ones", autocast=False, name="scale")

    def call(self, inputs: Any) -> Any:
        axes = self._checked(inputs)
        x = _kernel_input(inputs, axes)
        return in_dtype(rms_norm(x, self.scale, self.epsilon, axes), self.compute_dtype)


class UnitNormalization(_Normalizing):
    """Divide by the Euclidean norm, so that the result has norm 1; zeros stay zeros.

    >>> import tapegrad
    >>> UnitNormalization()(tapegrad.constant([[3.0, 4.0]])).round(3).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """

    def __init__(self, axis: Any = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = _checked_axis(axis, "UnitNormalization")

    def call(self, inputs: Any) -> Any:
        # epsilon bounds the squared norm: norms below 1e-12 count as 1e-12.
        y = l2_normalize(_at_least_float32(inputs), self._axes(len(inputs.shape)), epsilon=1e-24)
        return in_dtype(y, self.compute_dtype)


def _checked_axis(axis: Any, kind: str) -> Any:
    each = axis if isinstance(axis, list | tuple) else (axis,)
    if not all(isinstance(one, int) for one in each):
        raise ArgumentTypeError(f"{kind} takes an axis, or a list of axes. Got {axis!r}.")
    return axis


def _one_axis(axis: Any, kind: str) -> int:
    if not isinstance(axis, int):
        raise ArgumentTypeError(f"{kind} takes one axis, the channel axis. Got {axis!r}.")
    return axis


def _at_least_float32(x: Any) -> Any:
    return cast(x, "float32") if x.dtype.itemsize < 4 else x


def _kernel_input(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the input in a dtype that the normalization kernels take.

    Kernels over leading or trailing axes accumulate half precision in float32. All other inputs in
    half precision are cast to float32 first.
    """
    if x.dtype.itemsize >= 4:
        return x
    count, rank = len(axes), x.ndim
    is_block = axes in (tuple(range(count)), tuple(range(rank - count, rank)))
    return x if is_block else _at_least_float32(x)


def _broadcastable(value: Any, x: Any, axis: int) -> Any:
    """Reshape one value per channel so that it broadcasts to the shape of `x`."""
    value, rank = _at_least_float32(value), x.ndim
    if axis == rank - 1:
        return value
    shape = [1] * rank
    shape[axis] = x.shape[axis]
    return reshape(value, tuple(shape))
