"""Export functions and models to ONNX files, which many runtimes and devices execute.

The package `onnx` must be installed: `pip install 'tapegrad[onnx]'`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.files.atomic import StrPath, replacing

__all__ = ["export"]

_MOST_BYTES = 2**31 - 2**24
"""A file of Protocol Buffers has less than 2 GiB; more goes to a second file."""


def export(
    fn: Callable[..., Any],
    path: StrPath | None,
    *args: Any,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset: int = 18,
) -> Any:
    """Write the program of `fn` to an ONNX file, and return the `onnx.ModelProto`.

    `fn` is a function of tensors, a `tapegrad.function` or a model. It is recorded with arguments
    like `args`: arrays fix the shapes, and a `TensorSpec` leaves the lengths open that are None.
    All open first axes have the same length, e.g. that of the batch. Variables become constants.
    With `path=None` nothing is written. `opset` is the version of ONNX's operators.

    ::

        spec = tapegrad.TensorSpec([None, 2], name="x")
        tapegrad.onnx.export(lambda x: tapegrad.nn.relu(x @ w), "relu.onnx", spec)

    >>> export(abs, None, opset=9)
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: opset must be from 18 to 22. Got 9.
    """
    # Imported here because models import this module, and most programs export nothing.
    from tapegrad.program.onnx.exporting import exported_model

    model = exported_model(fn, args, input_names, output_names, opset)
    if path is not None:
        _write(model, path)
    return model


def _write(model: Any, path: StrPath) -> None:
    """Write the model; the arrays of a very large one go to a file beside it."""
    if model.ByteSize() <= _MOST_BYTES:
        with replacing(path) as file:
            file.write(model.SerializeToString())
        return
    beside = f"{Path(path).name}.data"
    import_module("onnx").save_model(model, path, save_as_external_data=True, location=beside)


_check_calls(globals(), __all__)
