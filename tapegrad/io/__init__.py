"""TensorFlow's `tf.io`: files, records, examples and tables; `gfile` for files and folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.io import gfile
from tapegrad.io.files import match_filenames_once, matching_files, read_file, write_file
from tapegrad.io.images import (
    decode_bmp,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
)
from tapegrad.io.jpeg import decode_and_crop_jpeg, decode_gif, extract_jpeg_shape, is_jpeg
from tapegrad.io.parsing import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    VarLenFeature,
    decode_base64,
    decode_csv,
    decode_raw,
    encode_base64,
    parse_example,
    parse_single_example,
)
from tapegrad.io.records import TFRecordOptions, TFRecordWriter
from tapegrad.io.sequences import parse_sequence_example, parse_single_sequence_example
from tapegrad.io.sparse_messages import (
    deserialize_many_sparse,
    serialize_many_sparse,
    serialize_sparse,
)
from tapegrad.io.tensor_messages import parse_tensor, serialize_tensor
from tapegrad.io.unpacking import decode_compressed, decode_json_example

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "VarLenFeature",
    "TFRecordOptions",
    "TFRecordWriter",
    "decode_and_crop_jpeg",
    "decode_base64",
    "decode_bmp",
    "decode_compressed",
    "decode_csv",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_json_example",
    "decode_png",
    "decode_raw",
    "deserialize_many_sparse",
    "encode_base64",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
    "gfile",
    "is_jpeg",
    "match_filenames_once",
    "matching_files",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "parse_tensor",
    "read_file",
    "serialize_many_sparse",
    "serialize_sparse",
    "serialize_tensor",
    "write_file",
]


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("io", name)


_check_calls(globals(), __all__)
