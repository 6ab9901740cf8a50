"""TensorFlow's `tf.saved_model`: write recorded functions to a folder, and run them without code.

The folder has tapegrad's format: JSON and safetensors. TensorFlow does not read it, and its own
SavedModels are not read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.files.atomic import StrPath
from tapegrad.errors import ArgumentError
from tapegrad.keras.saving.saved_model import write_saved_model
from tapegrad.keras.saving.saved_model_loading import contains_saved_model, read_saved_model

__all__ = [
    "ASSETS_DIRECTORY",
    "DEFAULT_SERVING_SIGNATURE_DEF_KEY",
    "LoadOptions",
    "SaveOptions",
    "contains_saved_model",
    "load",
    "save",
]

ASSETS_DIRECTORY = "assets"
DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"


@dataclass
class SaveOptions:
    """Options of `save`; they are accepted and change nothing.

    >>> SaveOptions().experimental_io_device is None
    True
    """

    namespace_whitelist: Any = None
    save_debug_info: bool = False
    function_aliases: Any = None
    experimental_io_device: Any = None
    experimental_variable_policy: Any = None
    experimental_custom_gradients: bool = True
    experimental_image_format: bool = False
    experimental_skip_saver: bool = False
    experimental_sharding_callback: Any = None
    extra_tags: Any = None


@dataclass
class LoadOptions:
    """Options of `load`; they are accepted and change nothing.

    >>> LoadOptions().allow_partial_checkpoint
    False
    """

    allow_partial_checkpoint: bool = False
    experimental_io_device: Any = None
    experimental_skip_checkpoint: bool = False


def save(
    obj: Any, export_dir: StrPath, signatures: Any = None, options: SaveOptions | None = None
) -> None:
    """Write the variables and the recorded functions of a Module, a layer or a model to a folder.

    A `tapegrad.function` is written for its input_signature, or for the calls that were recorded.
    Lengths that are None in the signature stay open. `signatures` are functions for serving, which
    take tensors by name and return a dict.

    >>> import tempfile, tapegrad
    >>> class Scale(tapegrad.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = tapegrad.Variable(2.0)
    ...     @tapegrad.function(input_signature=[tapegrad.TensorSpec([None])])
    ...     def __call__(self, x):
    ...         return self.w * x
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Scale(), folder)
    ...     loaded = load(folder)
    >>> loaded(tapegrad.constant([1.0, 3.0])).tolist()
    [2.0, 6.0]
    """
    write_saved_model(obj, export_dir, signatures)


def load(export_dir: StrPath, tags: Any = None, options: LoadOptions | None = None) -> Any:
    """Return an object with the variables and functions of the one that was saved.

    Its classes are not needed. `signatures` has the functions for serving by name.

    >>> load("nowhere")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: There is no saved model in 'nowhere'.
    """
    if tags not in (None, "serve", ["serve"], ("serve",)):
        raise ArgumentError(f"A saved model has the tag 'serve' only. Got tags={tags!r}.")
    return read_saved_model(export_dir)


_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absence("saved_model", name)
