"""Classes of users that hold tensors: arguments and results of recorded functions, and structures.

A subclass annotates its fields. Its values are immutable, and `tapegrad.nest` flattens them.
"""

from __future__ import annotations

import inspect
import sys
from abc import ABCMeta
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, get_type_hints

from tapegrad.core.values import nest
from tapegrad.core.values.strings import StringTensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.errors import ArgumentTypeError
from tapegrad.experimental.dispatch import dispatched
from tapegrad.experimental.extension_fields import converted
from tapegrad.ops.elementwise.comparison import equal
from tapegrad.ops.reduction.functions import reduce_all
from tapegrad.program.record.signature import TensorSpec, TypeSpec
from tapegrad.program.saved.extensions import CLASSES, saved_name

_OPEN = "_is_open"
_HELD = "_fields_with_tensors"


class _Made(ABCMeta):
    """Runs the constructor, then converts and checks the fields and closes the object."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        kind: Any = cls
        made = kind.__new__(kind)
        made.__dict__[_OPEN] = True
        made.__init__(*args, **kwargs)
        made._close()
        return made


class _HasFields(metaclass=_Made):
    """What values and specs share: named fields that are set once."""

    _is_spec: ClassVar[bool] = False

    @classmethod
    def _kinds(cls) -> dict[str, Any]:
        """Return the annotated types of the fields by name."""
        raise NotImplementedError

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        defaults = self._defaults()
        places = [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=defaults.get(name, inspect.Parameter.empty),
            )
            for name in self._kinds()
        ]
        try:
            # Fields with a default may stand before others, which then need a keyword.
            bound = inspect.Signature(places, __validate_parameters__=False).bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentTypeError(f"{type(self).__qualname__}: {error}.") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    def _close(self) -> None:
        kinds = self._kinds()
        for name, kind in kinds.items():
            if name not in self.__dict__:
                raise ArgumentTypeError(
                    f"The constructor of {type(self).__qualname__} does not set the field {name!r}."
                )
            self.__dict__[name] = converted(self.__dict__[name], kind, name, self._is_spec)
        del self.__dict__[_OPEN]

    def __setattr__(self, name: str, value: Any) -> None:
        if _OPEN not in self.__dict__:
            raise AttributeError(
                f"{type(self).__qualname__} cannot be changed: {name!r} is only set in a "
                "constructor. Make a new object."
            )
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__qualname__} cannot be changed: {name!r} stays.")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._kinds())
        return f"{type(self).__qualname__.rpartition('<locals>.')[2]}({fields})"

    # As a structure

    def __tf_flatten__(self) -> tuple[Any, tuple[Any, ...]]:
        """Return the plain fields, by which programs are distinguished, and those with tensors."""
        values = {name: self.__dict__[name] for name in self._kinds()}
        # Kept with the object: anything may stand in the places of the tensors of a structure.
        held = self.__dict__.get(_HELD)
        if held is None:
            held = tuple(name for name, value in values.items() if _has_tensors(value))
        plain = tuple((name, _key(value)) for name, value in values.items() if name not in held)
        return (held, plain), tuple(values[name] for name in held)

    @classmethod
    def __tf_unflatten__(cls, metadata: Any, components: Sequence[Any]) -> Any:
        names, plain = metadata
        fields = dict(zip(names, components)) | {name: _value(one) for name, one in plain}
        kind = cls._result_of(components)
        made = kind.__new__(kind)
        made.__dict__.update({name: fields[name] for name in cls._kinds()})
        made.__dict__[_HELD] = names
        return made

    @classmethod
    def _result_of(cls, components: Sequence[Any]) -> Any:
        return cls


class _Spec(_HasFields, TypeSpec):
    """The base of the specs of extension types: a TensorSpec for each tensor."""

    _is_spec = True
    _value_type: ClassVar[Any]

    @classmethod
    def _kinds(cls) -> dict[str, Any]:
        return cls._value_type._kinds()  # type: ignore[no-any-return]

    @property
    def value_type(self) -> type:
        return self._value_type  # type: ignore[no-any-return]

    @classmethod
    def from_value(cls, value: Any) -> Any:
        """Return the spec of a value, or of a structure's part."""
        made = cls.__new__(cls)
        made.__dict__.update({name: spec_of(value.__dict__[name]) for name in cls._kinds()})
        return made

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a value has the same structure, with tensors that match."""
        if not isinstance(spec_or_value, self._value_type | type(self)):
            return False
        mine, other = self.__tf_flatten__(), spec_or_value.__tf_flatten__()
        ours, theirs = nest.flatten(list(mine[1])), nest.flatten(list(other[1]))
        return len(ours) == len(theirs) and all(
            one.is_compatible_with(leaf) for one, leaf in zip(ours, theirs)
        )

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(self.__dict__[name] == other.__dict__[name] for name in self._kinds())

    __hash__ = None  # type: ignore[assignment]  # a field may be a mapping

    @classmethod
    def _result_of(cls, components: Sequence[Any]) -> Any:
        # Tensors in the places of the specs make a value.
        leaves = nest.flatten(list(components))
        return cls if any(isinstance(one, TypeSpec) for one in leaves) else cls._value_type


class ExtensionType(_HasFields):
    """A class of tensors with named fields; recorded functions take and return its values.

    Fields are annotated with `tapegrad.Tensor`, plain types, other extension types, and tuples and
    mappings of these. Values are converted to them. Values of the class are immutable. A method
    `__validate__` checks the fields. `Spec` is the class of specs for an `input_signature`.

    >>> import tapegrad
    >>> class Masked(ExtensionType):
    ...     values: tapegrad.Tensor
    ...     mask: tapegrad.Tensor
    ...     def filled(self, value):
    ...         return tapegrad.where(self.mask, self.values, value)
    >>> @tapegrad.function
    ... def doubled(x):
    ...     return Masked(2 * x.values, x.mask)
    >>> doubled(Masked([1, 2], [True, False])).filled(0).tolist()
    [2, 0]
    """

    Spec: ClassVar[Any]
    _known_kinds: ClassVar[dict[str, Any] | None] = None
    _names: ClassVar[dict[str, Any] | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._known_kinds = None
        if any(isinstance(kind, str) for kind in inspect.get_annotations(cls).values()):
            # Annotations may name what only the function around the class knows.
            frame = sys._getframe(1)
            while frame.f_code.co_name == "__new__" and frame.f_back is not None:
                frame = frame.f_back
            cls._names = {**frame.f_globals, **frame.f_locals}
        CLASSES[saved_name(cls)] = cls
        own = cls.__dict__.get("Spec")
        bases = (_Spec,) if own is None else (own, _Spec)
        name = {"__qualname__": f"{cls.__name__}.Spec", "__module__": cls.__module__}
        cls.Spec = _Made("Spec", bases, {**name, "_value_type": cls})
        if "__eq__" in cls.__dict__ and cls.__dict__.get("__hash__") is None:
            cls.__hash__ = None  # type: ignore[assignment]

    @classmethod
    def _kinds(cls) -> dict[str, Any]:
        if cls._known_kinds is None:
            # On first use, when a class that is named in an annotation exists.
            hints = _hints(cls)
            skipped = {*_hints(ExtensionType), *dir(_HasFields)}
            names = [name for name in hints if name not in skipped and not name.startswith("__")]
            cls._known_kinds = {name: hints[name] for name in names}
        return cls._known_kinds

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        missing = object()
        found = {name: inspect.getattr_static(cls, name, missing) for name in cls._kinds()}
        return {name: value for name, value in found.items() if value is not missing}

    def _close(self) -> None:
        super()._close()
        self.__validate__()

    def __validate__(self) -> None:
        """Check the fields; subclasses raise an error if they do not fit together."""

    def __eq__(self, other: object) -> Any:
        """Return whether all fields are equal: a tensor, or False for other types or shapes."""
        if type(other) is not type(self):
            return False
        (mine, ours), (its, theirs) = self.__tf_flatten__(), other.__tf_flatten__()
        pairs = [*zip(nest.flatten(list(ours)), nest.flatten(list(theirs)))]
        if mine != its or any(tuple(a.shape) != tuple(b.shape) for a, b in pairs):
            return False
        found: Any = True
        for a, b in pairs:
            found = found & reduce_all(equal(a, b))
        return found

    def __ne__(self, other: object) -> Any:
        found = self.__eq__(other)
        return not found if isinstance(found, bool) else ~found

    __hash__ = None  # type: ignore[assignment]  # `==` may be a tensor

    def called_later(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return the result of a handler for a function of tapegrad, if one is registered."""
        return dispatched(function, args, kwargs)


class BatchableExtensionType(ExtensionType):
    """An extension type whose tensors have common first axes.

    >>> import tapegrad
    >>> class Pair(BatchableExtensionType):
    ...     first: tapegrad.Tensor
    ...     second: tapegrad.Tensor
    >>> Pair([1.0], [2.0]).first.tolist()
    [1.0]
    """


def spec_of(value: Any) -> Any:
    """Return the spec of a tensor, an extension type, or a structure of them.

    >>> spec_of((Tensor, 2))
    (<class 'tapegrad.core.values.tensor.Tensor'>, 2)
    """
    if isinstance(value, ExtensionType):
        return type(value).Spec.from_value(value)
    if isinstance(value, Tensor | StringTensor):
        return TensorSpec(value.shape, value.dtype)
    if isinstance(value, Mapping):
        return type(value)({key: spec_of(one) for key, one in value.items()})  # type: ignore[call-arg]
    if type(value) is tuple:
        return tuple(spec_of(one) for one in value)
    return value


def _hints(cls: Any) -> dict[str, Any]:
    try:
        return get_type_hints(cls, localns={**(cls._names or {}), cls.__name__: cls})
    except NameError:  # an annotation names a class that is not at the top of its module
        return {
            name: kind if not isinstance(kind, str) else Any
            for one in reversed(cls.__mro__)
            for name, kind in inspect.get_annotations(one).items()
        }


def _has_tensors(value: Any) -> bool:
    kinds = Tensor | StringTensor | TypeSpec | _HasFields
    return any(
        isinstance(leaf, kinds) or hasattr(leaf, "array") or hasattr(type(leaf), "called_later")
        for leaf in nest.flatten(value)
    ) or isinstance(value, _HasFields)


def _key(value: Any) -> Any:
    """Return a plain field as a value that programs can be distinguished by."""
    return ("TensorShape", *value) if isinstance(value, TensorShape) else value


def _value(key: Any) -> Any:
    is_shape = type(key) is tuple and key[:1] == ("TensorShape",)
    return TensorShape(key[1:]) if is_shape else key
