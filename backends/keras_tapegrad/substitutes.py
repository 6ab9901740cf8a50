"""Names in Keras' modules that tapegrad serves, because Keras takes TensorFlow for them.

Layers of text and hashing, datasets of folders and of time series, and `tf.data.Dataset` as data of
`fit` and `adapt`. If TensorFlow is installed, Keras' own layers and functions stay; datasets of
tapegrad are then accepted beside those of TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_LAYERS = {
    "string_lookup": "StringLookup",
    "integer_lookup": "IntegerLookup",
    "text_vectorization": "TextVectorization",
    "hashing": "Hashing",
    "hashed_crossing": "HashedCrossing",
}
_FUNCTIONS = {
    "audio_dataset_utils": "audio_dataset_from_directory",
    "image_dataset_utils": "image_dataset_from_directory",
    "text_dataset_utils": "text_dataset_from_directory",
    "timeseries_dataset_utils": "timeseries_dataset_from_array",
}
_ADAPTED = ("normalization", "discretization", "feature_space")
"""Modules whose layers ask whether data is a `tf.data.Dataset`."""

_ALWAYS = {
    "keras.src.ops.function": "Function",
    "keras.src.export.tfsm_layer": "TFSMLayer",
    "keras.src.trainers.data_adapters": "get_data_adapter",
    "keras.src.utils.dataset_utils": "split_dataset",
}
_WITHOUT_TENSORFLOW = {
    **{f"keras.src.layers.preprocessing.{place}": name for place, name in _LAYERS.items()},
    **{f"keras.src.utils.{place}": name for place, name in _FUNCTIONS.items()},
    **{f"keras.src.layers.preprocessing.{place}": "tf" for place in _ADAPTED},
    "keras.src.utils.backend_utils": "in_tf_graph",
    "keras.src.callbacks.tensorboard": "TensorBoard",
}
PLACES = frozenset({*_ALWAYS, *_WITHOUT_TENSORFLOW})
"""The modules of Keras in which a name is replaced."""


class _Namesake:
    """What modules that ask for TensorFlow get: tapegrad, which has the same names."""

    available = False
    SparseTensor = RaggedTensor = type("Absent", (), {})

    def __getattr__(self, name: str) -> Any:
        import tapegrad  # on first use: Keras imports these modules always

        return getattr(tapegrad, name)


def substitute(module: ModuleType) -> None:
    """Replace the name that tapegrad serves in one of the modules, after it was imported."""
    place = module.__name__
    if place in _ALWAYS:
        name = _ALWAYS[place]
        setattr(module, name, _WRAPPERS[name](getattr(module, name)))
        return
    if find_spec("tensorflow") is not None:
        return
    name = _WITHOUT_TENSORFLOW[place]
    if name == "tf":
        module.tf = _Namesake()  # type: ignore[attr-defined]
    elif name == "in_tf_graph":
        # FeatureSpace lets its layers compute as in a graph of TensorFlow, with its backend.
        module.in_tf_graph = lambda: False  # type: ignore[attr-defined]
    elif name == "TensorBoard":
        callback = import_module("keras_tapegrad.tensorboard").with_own_summaries
        module.TensorBoard = callback(module.TensorBoard)  # type: ignore[attr-defined]
    elif name in _LAYERS.values():
        layer = getattr(import_module("keras_tapegrad.host_layers"), name)
        export = import_module("keras.src.api_export").keras_export
        setattr(module, name, export(f"keras.layers.{name}")(layer))
    else:
        own = getattr(import_module("tapegrad.keras.utils"), name)
        setattr(module, name, _dataset_maker(own, getattr(module, name)))


def _dataset_maker(own: Callable[..., Any], usual: Callable[..., Any]) -> Callable[..., Any]:
    """Return tapegrad's function; datasets in other formats are made by Keras' function."""

    @wraps(own)
    def make(*args: Any, format: str = "tf", **kwargs: Any) -> Any:  # Keras' name
        if format != "tf":
            return usual(*args, format=format, **kwargs)
        return own(*args, **kwargs)

    return make


def _adapter_chooser(usual: Callable[..., Any]) -> Callable[..., Any]:
    from keras_tapegrad.backend.dataset_adapter import adapter_chooser

    return adapter_chooser(usual)


def _dataset_splitter(usual: Callable[..., Any]) -> Callable[..., Any]:
    import tapegrad
    from tapegrad.keras.utils import split_dataset

    def split(dataset: Any, *args: Any, **kwargs: Any) -> Any:
        is_ours = isinstance(dataset, tapegrad.data.Dataset)
        return (split_dataset if is_ours else usual)(dataset, *args, **kwargs)

    return split


def _loading_layer(usual: Any) -> Any:
    from keras_tapegrad.exported_layer import exported_layer

    export = import_module("keras.src.api_export").keras_export
    return export("keras.layers.TFSMLayer")(exported_layer(usual))


def _dropping_graph(usual: Any) -> Any:
    from keras_tapegrad.graph_run import dropping

    return dropping(usual)


_WRAPPERS = {
    "Function": _dropping_graph,
    "TFSMLayer": _loading_layer,
    "get_data_adapter": _adapter_chooser,
    "split_dataset": _dataset_splitter,
}
