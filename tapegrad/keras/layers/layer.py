"""Layer: the base class of all layers, which builds its weights on the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tapegrad.autodiff.batching import is_batched
from tapegrad.core.commit import assign_together
from tapegrad.core.failed_calls import explained
from tapegrad.core.files.limits import active_limits
from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.strings import to_any_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.trial import trial_call
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, IndexOutOfRangeError, ShapeError
from tapegrad.keras import constraints, dtype_policies, initializers, regularizers
from tapegrad.keras.configured import (
    Configured,
    accepted,
    arguments_of_base,
    keeps_objects,
)
from tapegrad.keras.layers.attribute_tracking import Gathered, Holder
from tapegrad.keras.layers.build_config import HasBuildConfig
from tapegrad.keras.layers.calling import (
    NOT_BUILT,
    built_afterwards,
    call_spec,
    check_tensors,
    lists_as_tensors,
    no_attribute,
    raise_in_layer,
    shape_of,
    shapes_for,
)
from tapegrad.keras.layers.context import current_pass, training_flag
from tapegrad.keras.layers.input_spec import check_inputs
from tapegrad.keras.layers.masks import KEPT, add_masks, keep_masks
from tapegrad.keras.layers.members import Members
from tapegrad.keras.layers.moving_averages import MovingAverages
from tapegrad.keras.layers.name_first import name_first
from tapegrad.keras.layers.older_arguments import OLDER, check_arguments, input_shape_of
from tapegrad.keras.naming import automatic_name, checked_name, snake_case
from tapegrad.keras.symbolic import KerasTensor, call_symbolically, for_two_sizes
from tapegrad.module import Module
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.collective.sharded_weights import is_sharded, read_weight
from tapegrad.sparse.functions import to_dense
from tapegrad.sparse.tensor import SparseTensor

Shape = tuple[int | None, ...]


class Layer(Configured, Module, Holder, HasBuildConfig, Members):
    """Base class of all layers: subclasses create weights in `build` and compute in `call`.

    >>> import tapegrad
    >>> class Scale(Layer):
    ...     def build(self, input_shape):
    ...         self.factor = self.add_weight((input_shape[-1],), initializer="ones", name="factor")
    ...     def call(self, inputs):
    ...         return inputs * self.factor
    >>> layer = Scale()
    >>> layer(tapegrad.constant([[1.0, 2.0]])).tolist(), layer.count_params()
    ([[1.0, 2.0]], 2)
    """

    supports_masking = False
    _makes_masks = False  # whether the class defines compute_mask
    takes_integers_as_floats = False
    """Whether a call casts integer inputs to the compute dtype.

    An integer input times a float32 weight would otherwise promote to float64.
    """

    takes_lists_as_batches = False
    """Whether a list of arrays is one batch, for layers that take no list of inputs."""

    takes_steps = False
    """Whether an input has steps before its features, of which `input_dim` is the number."""

    takes_text = False
    """Whether `text_inputs` converts the arguments of a call, e.g. lists of text."""

    input_spec: Any = None
    """An `InputSpec`, or a structure of them, that the first argument of a call must satisfy."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in vars(cls):
            cls.build = built_afterwards(vars(cls)["build"])  # type: ignore[method-assign]
        if "compute_mask" in vars(cls):
            cls._makes_masks = True

    def __init__(
        self,
        *,
        activity_regularizer: Any = None,
        trainable: bool = True,
        dtype: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        check_arguments(type(self).__name__, kwargs)
        for key in OLDER.intersection(kwargs):  # no part of a configuration
            self._arguments.pop(key, None)
        class_name = type(self).__name__
        name = name or None  # older programs write "" for an automatic name
        self._name = automatic_name(class_name) if name is None else checked_name(name)
        self._automatic = snake_case(class_name) if name is None else ""
        self.dtype_policy = dtype_policies.get(dtype)
        self.activity_regularizer = regularizers.get(activity_regularizer)
        self.built = False
        self._trainable = bool(trainable)
        self._frozen: set[int] = set()
        self._regularized: list[tuple[Variable, Any]] = []
        self._own_losses: list[Any] = []
        self._last_pass: object | None = None
        self._in_float32: dict[str, Variable] = {}
        self._kept_as_is: set[int] = set()
        self._is_calling = False
        self.last_output_shape: Any = None
        self.first_input_shape = input_shape_of(kwargs, self.takes_steps)
        vars(self)["first_weights"] = kwargs.get("weights")

    # Weights

    @name_first
    def add_weight(
        self,
        shape: Sequence[int] | int | None = None,
        initializer: Any = None,
        dtype: Any = None,
        trainable: bool = True,
        autocast: bool = True,
        regularizer: Any = None,
        constraint: Any = None,
        aggregation: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """Create a variable that belongs to this layer. Call this in `build`."""
        weight_dtype = as_dtype(self.variable_dtype if dtype is None else dtype)
        if initializer is None:
            initializer = "glorot_uniform" if weight_dtype.is_floating else "zeros"
        sizes = (shape,) if isinstance(shape, int) else tuple(shape or ())
        if any(n is None for n in sizes):
            raise ShapeError(
                f"A weight of layer {self.name!r} would have shape {sizes}, but weights need known "
                "sizes. Give them to Input or reshape; a dataset of single examples needs batch()."
            )
        limits = active_limits()
        if limits is not None:
            limits.spend_weight(sizes)
        value = initializers.get(initializer)(sizes, dtype=weight_dtype.name)
        variable = Variable(
            value,
            trainable=trainable and self._trainable,
            name=name,
            constraint=constraints.get(constraint),
        )
        if trainable and not self._trainable:
            self._frozen.add(variable.number)
        if regularizer is not None:
            self._regularized.append((variable, regularizers.get(regularizer)))
        if not autocast or not weight_dtype.is_floating:
            self._kept_as_is.add(variable.number)
        return self._placed(variable, name)

    add_variable = add_weight  # the older name

    def __setattr__(self, name: str, value: Any) -> None:
        mixed_weights = vars(self).get("_in_float32")
        if mixed_weights is not None and type(value) is Variable and self.dtype_policy.is_mixed:
            # Stored outside __dict__, so that __getattr__ can cast it to the compute dtype.
            mixed_weights[name] = value
            if value.number not in self._kept_as_is:
                self.__dict__.pop(name, None)
                self._forget_held()
                return
        elif mixed_weights:
            mixed_weights.pop(name, None)
        super().__setattr__(name, value)

    if not TYPE_CHECKING:  # a checker shall see which names there are

        def __getattr__(self, name: str) -> Any:
            try:
                variable = self.__dict__["_in_float32"][name]
            except KeyError:
                raise no_attribute(self, name) from None
            if not self._is_calling and (current_pass.get() is None or not is_sharded(variable)):
                return variable
            is_kept = variable.number in self._kept_as_is
            return read_weight(variable, None if is_kept else self.compute_dtype)

    @property
    def variables(self) -> list[Variable]:  # type: ignore[override]
        """All variables: the layer's trainable ones, its other ones, then those of sublayers."""
        gathered = self._gathered
        if gathered is None or not gathered.holds():
            found: dict[int, Variable] = {}
            contents: list[Any] = []
            self._gather(found, contents)
            gathered = Gathered(list(found.values()), contents)
            object.__setattr__(self, "_gathered", gathered)
        return list(gathered.variables)

    def _gather(self, found: dict[int, Variable], contents: list[Any]) -> None:
        """Add the variables to `found`, and the searched lists and dicts to `contents`."""
        own, layers = self._held()
        contents += self._contents
        if not all([variable.trainable for variable in own]):
            frozen = self._frozen
            first = [v for v in own if v.trainable or v.number in frozen]
            own = first + [v for v in own if not v.trainable and v.number not in frozen]
        for variable in own:
            found.setdefault(variable.number, variable)
        for layer in layers:
            layer._gather(found, contents)

    weights = variables

    @property
    def trainable_variables(self) -> list[Variable]:  # type: ignore[override]
        return [v for v in self.variables if v.trainable] if self._trainable else []

    @property
    def non_trainable_variables(self) -> list[Variable]:  # type: ignore[override]
        return [v for v in self.variables if not (v.trainable and self._trainable)]

    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables

    def checkpointed(self) -> dict[str, Any]:
        """Return the attributes that a checkpoint searches; the same under every dtype policy."""
        skipped = ("_in_float32", "_arguments", "_regularized")
        found = {name: value for name, value in self.__dict__.items() if name not in skipped}
        return {**found, **self._in_float32}

    def _own_variables(self) -> list[Variable]:
        return self._held()[0]

    def _inner_layers(self) -> list[Layer]:
        return self._held()[1]

    @property
    def trainable(self) -> bool:
        """Whether training updates this layer. Setting it also sets it on all sublayers."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = bool(value)
        for variable in self._own_variables():
            if not value and variable.trainable:
                self._frozen.add(variable.number)
                variable.trainable = False
            elif value and variable.number in self._frozen:
                self._frozen.discard(variable.number)
                variable.trainable = True
        for layer in self._inner_layers():
            layer.trainable = value

    def count_params(self) -> int:
        """Return the total number of elements in the weights."""
        if not self.built:
            raise ArgumentError(f"Layer {self.name!r} has no weights to count yet. {NOT_BUILT}")
        return sum(prod(variable.shape) for variable in self.variables)

    def get_weights(self) -> list[np.ndarray]:
        """Return the values of all weights as NumPy arrays."""
        return [variable.numpy() for variable in self.variables]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set all weights, in the order of `get_weights`.

        If the shape of any value is wrong, no weight is changed.
        """
        variables = self.variables
        shapes = [tuple(np.shape(value)) for value in weights]
        wanted = [tuple(variable.shape) for variable in variables]
        if shapes != wanted:
            hint = "" if self.built else f" {NOT_BUILT}"
            raise ShapeError(
                f"Layer {self.name!r} has weights of shapes {wanted}. Got {shapes}.{hint}"
            )
        values = [np.asarray(x, as_dtype(v.dtype).dtype) for v, x in zip(variables, weights)]
        assign_together(variables, values)

    # Dtypes and names

    @property
    def name(self) -> str:
        return self._name

    @property
    def _title(self) -> str:
        """The name and the class of the layer, for error messages."""
        return f"Layer {self.name!r} ({type(self).__name__})"

    @property
    def dtype(self) -> str:
        """The dtype of the weights."""
        return self.dtype_policy.variable_dtype

    variable_dtype = dtype

    @property
    def compute_dtype(self) -> str:
        """The dtype in which `call` computes."""
        return self.dtype_policy.compute_dtype

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments of this layer, its name included.

        A class that defines its own `get_config` gets only those that its base class takes.
        """
        config = super().get_config()
        config.pop("kwargs", None)
        if not type(self).get_config.__module__.startswith("tapegrad."):
            known = arguments_of_base(type(self))
            config = {name: value for name, value in config.items() if name in known}
        has_dtype = config.get("dtype") is not None
        if not has_dtype and (keeps_objects.get() or self.dtype_policy.name != "float32"):
            # The global policy may be another one when the config is read.
            config["dtype"] = self.dtype_policy.name
        return {**config, "name": self.name, "trainable": self.trainable}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Create a layer from the result of `get_config`."""
        return cls(**accepted(cls, config))

    # Losses

    def add_loss(self, loss: Any) -> None:
        """Add a scalar to the loss that training minimizes. Call this in `call`."""
        forward_pass = current_pass.get()
        if self._last_pass is not forward_pass:
            self._enter(forward_pass)
        self._own_losses.extend(nest.flatten(loss))

    @property
    def losses(self) -> list[Any]:
        """The losses added during the last call, and the penalties of the weight regularizers."""
        return self._losses_of(self._last_pass)

    def _losses_of(self, forward_pass: object | None) -> list[Any]:
        found = list(self._own_losses) if self._last_pass is forward_pass else []
        if self._trainable:
            found += [rule(v.shared_value()) for v, rule in self._regularized if v.trainable]
        for layer in self._inner_layers():
            found += layer._losses_of(forward_pass)
        return found

    def __getstate__(self) -> dict[str, Any]:
        # The losses may be tensors of a recording, which cannot be pickled.
        return {**self.__dict__, "_own_losses": []}

    def _enter(self, forward_pass: object | None) -> None:
        """Join a forward pass, and drop the losses of the previous one."""
        state = self.__dict__
        state["_last_pass"] = forward_pass
        if state["_own_losses"]:
            state["_own_losses"].clear()

    # Building and calling

    def build(self, input_shape: Any) -> None:
        """Create the weights for an input of this shape, in which None means any size."""

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output. Subclasses define this, and may take `training` and `mask`."""
        raise NotImplementedError(f"{type(self).__name__} must define call(self, inputs).")

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Return the mask of the output: the input's mask if the layer supports masking."""
        return previous_mask if self.supports_masking else None

    # Most layers return one tensor. Those that return several are rare enough that the type of
    # their result is left to their users.
    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        forward_pass = current_pass.get()
        if forward_pass is None:
            return self._call_outermost(args, kwargs)  # type: ignore[no-any-return]
        if KEPT or self._makes_masks:
            return self._call_with_masks(forward_pass, args, kwargs)  # type: ignore[no-any-return]
        return self._call_in(forward_pass, args, kwargs)  # type: ignore[no-any-return]

    def _call_with_masks(self, forward_pass: object, args: Any, kwargs: dict[str, Any]) -> Any:
        """Pass on the masks of the inputs, and keep those of the outputs."""
        mask = add_masks(call_spec(type(self).call), args, kwargs)
        outputs = self._call_in(forward_pass, args, kwargs)
        if self.supports_masking or self._makes_masks:
            keep_masks(self, args, kwargs, mask, outputs)
        return outputs

    def _call_in(self, forward_pass: object, args: Any, kwargs: dict[str, Any]) -> Any:
        """Build the layer if needed and call it, as a part of a forward pass."""
        training = kwargs.pop("training", None) if kwargs else None
        if self.input_spec is not None and args:
            check_inputs(self, args[0])
        if len(args) == 1 and not kwargs and type(args[0]) is Tensor:
            # Fast path for the usual case: one tensor and no keyword arguments.
            if args[0].dtype.name != self.dtype_policy.compute_dtype:
                args = (self._as_input(args[0]),)
        else:
            if any(isinstance(leaf, KerasTensor) for leaf in nest.flatten((args, kwargs))):
                more = {} if training is None else {"training": training}
                symbolic: Any = call_symbolically(self, args, {**kwargs, **more})
                return symbolic
            if self.takes_text:
                args = self.text_inputs(args)
            args = nest.map_structure(
                self._as_input, lists_as_tensors(args, self.takes_lists_as_batches)
            )
            check_tensors(self, args)
            kwargs = {name: self._as_input(value) if _is_array(value) else value
                      for name, value in kwargs.items()}  # fmt: skip
        spec = call_spec(type(self).call)
        if not self.built:
            self._build_for(spec, args, kwargs)
        outer = training_flag.get()
        if training is None:
            training = outer
        if spec.takes_training and training is not None:
            kwargs["training"] = training
        if kwargs and not spec.takes_mask:
            kwargs.pop("mask", None)
        state = self.__dict__
        if state["_last_pass"] is not forward_pass:
            self._enter(forward_pass)
        try:
            if training is not outer:
                outputs = self._call_with_training(training, args, kwargs)
            elif state["_in_float32"]:
                outputs = self._call_with_cast_weights(args, kwargs)
            else:
                outputs = self.call(*args, **kwargs)
        except (IndexOutOfRangeError, ShapeError) as error:
            raise_in_layer(self, args, error)
        if state["last_output_shape"] is None:
            self.last_output_shape = shape_of(outputs)
        if state["activity_regularizer"] is not None:
            for output in nest.flatten(outputs):
                self.add_loss(self.activity_regularizer(output) / output.shape[0])
        return outputs

    def _call_outermost(self, args: Any, kwargs: Any) -> Any:
        """Start a forward pass, and apply the deferred moving averages at its end."""
        averages, flag = MovingAverages(), training_flag.get()
        # Nested blocks that end with one call in C: an interrupt skips none of them.
        try:
            try:
                try:
                    current_pass.set(averages)
                    training_flag.set(kwargs.get("training"))
                    return self(*args, **kwargs)
                finally:
                    training_flag.set(flag)
            finally:
                current_pass.set(None)
        except Exception as error:
            other = explained(type(self).call, (self, *args), kwargs, error, self._title)
            if other is None:
                raise
            raise other from other.__cause__
        finally:
            averages.finish(self)

    def _call_with_training(self, training: bool | None, args: Any, kwargs: Any) -> Any:
        """Call with another training flag for the sublayers."""
        token = training_flag.set(training)
        try:
            return self._call_with_cast_weights(args, kwargs)
        finally:
            training_flag.reset(token)

    def _call_with_cast_weights(self, args: Any, kwargs: Any) -> Any:
        """Call with the weights cast to the compute dtype."""
        state = self.__dict__
        was_calling, state["_is_calling"] = self._is_calling, True
        try:
            return self.call(*args, **kwargs)
        finally:
            state["_is_calling"] = was_calling

    def _build_for(self, spec: Any, args: Any, kwargs: Any) -> None:
        if not self.built:
            self.build(**shapes_for("build", self, spec, args, kwargs))
            self.built = True

    def text_inputs(self, args: Any) -> Any:
        """Return the positional arguments of a call as tensors, if the layer takes text."""
        return args

    def _as_input(self, value: Any) -> Any:
        """Convert an array to a tensor, and cast floating values to the compute dtype."""
        if type(value) is not Tensor:
            if isinstance(value, SparseTensor) and not _has_own_call(self):
                value = to_dense(value, validate_indices=False)
            elif isinstance(value, SparseTensor):
                wanted = self.dtype_policy.compute_dtype
                is_cast = value.dtype.is_floating and value.dtype.name != wanted
                return value.with_values(cast(value.values, wanted)) if is_cast else value
            elif _is_array(value):
                value = to_any_tensor(value)
            if not _is_tensor(value):
                return value
        dtype, wanted = value.dtype, self.dtype_policy.compute_dtype
        if dtype.name == wanted:
            return value
        if dtype.is_floating or (self.takes_integers_as_floats and dtype.is_integer):
            return cast(value, wanted)
        return value

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the output, with None for unknown sizes.

        The default calls the layer on zeros with two values for unknown sizes.
        """
        lengths = [n for n in nest.flatten(input_shape) if isinstance(n, int)]
        shapes = for_two_sizes(
            lambda size: shape_of(self._call_on_zeros(input_shape, size)), lengths
        )
        return nest.map_structure(_common_shape, *map(_wrapped, shapes))

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Return symbolic tensors with the shapes and dtypes of the outputs of a call."""
        spec = call_spec(type(self).call)
        self._build_for(spec, args, kwargs)
        given = shapes_for("compute_output_shape", self, spec, args, kwargs)
        shapes = self.compute_output_shape(**given)
        return nest.map_structure(
            lambda shape: KerasTensor(shape.sizes, self.compute_dtype), _wrapped(shapes)
        )

    def _call_on_zeros(self, input_shape: Any, size: int) -> Any:
        limits = active_limits()
        if limits is not None:
            for shape in nest.flatten(_wrapped(input_shape)):
                limits.check_array(shape.sizes, "an array")
        zeros = nest.map_structure(
            lambda shape: self._zeros_like(shape.sizes, size), _wrapped(input_shape)
        )
        with trial_call():
            return self(zeros, training=False)

    def _zeros_like(self, shape: Sequence[int | None], size: int) -> Any:
        """Return zeros of a shape, with `size` for unknown sizes."""
        sizes = [size if n is None else n for n in shape]
        return to_tensor(np.zeros(sizes, as_dtype(self.compute_dtype).dtype))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}, built={self.built}>"


class _Shape:
    """A shape as a single leaf of a structure."""

    def __init__(self, sizes: Sequence[int | None]) -> None:
        self.sizes = tuple(sizes)


def _wrapped(shapes: Any) -> Any:
    """Return a structure of shapes in which each shape is one leaf."""
    if isinstance(shapes, list | tuple) and all(n is None or isinstance(n, int) for n in shapes):
        return _Shape(shapes)
    if isinstance(shapes, dict):
        return {name: _wrapped(shape) for name, shape in shapes.items()}
    return type(shapes)(_wrapped(shape) for shape in shapes)


def _common_shape(one: _Shape, other: _Shape) -> Shape:
    """Return the sizes that agree, and None for the others."""
    return tuple(a if a == b else None for a, b in zip(one.sizes, other.sizes))


def _has_own_call(layer: Layer) -> bool:
    """Whether users wrote what a layer computes; the layers of this package need dense tensors."""
    return not str(layer.call.__module__).startswith("tapegrad.")


def _is_array(value: Any) -> bool:
    # Ragged and sparse tensors answer calls of functions themselves.
    is_other = hasattr(type(value), "called_later")
    return hasattr(value, "__array__") and not is_other and not _is_tensor(value)


def _is_tensor(value: Any) -> bool:
    """Whether a value is a Tensor, a Variable, or a batched value inside vmap."""
    return isinstance(value, Tensor | Variable) or is_batched(value)
