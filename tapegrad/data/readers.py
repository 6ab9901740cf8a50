"""Datasets of files: lines of text, TFRecord files, records of fixed length and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tapegrad.core.values.strings import StringTensor
from tapegrad.data.dataset import Dataset
from tapegrad.data.sources import FromGenerator
from tapegrad.errors import ArgumentError, FileFormatError
from tapegrad.io.files import paths_in
from tapegrad.io.parsing import column_kind, decode_csv
from tapegrad.io.paths import local_path
from tapegrad.io.records import checked_compression, opened, read_records
from tapegrad.program.record.signature import TensorSpec


def _of_files(
    filenames: Any, who: str, items: Callable[[str], Iterator[Any]], signature: Any
) -> FromGenerator:
    """Return a plan with the items of each file in turn."""

    def read() -> Iterator[Any]:
        for path in _paths(filenames, who):
            yield from items(path)

    if not isinstance(filenames, Dataset):
        paths_in(filenames, who)  # raises now if these are no paths
    return FromGenerator(read, signature, None)


def _paths(filenames: Any, who: str) -> Iterator[str]:
    if not isinstance(filenames, Dataset):
        yield from paths_in(filenames, who)
        return
    for one in filenames:
        yield local_path(one if isinstance(one, StringTensor) else str(one), who)


_TEXT = TensorSpec((), "string")


class TextLineDataset(Dataset):
    """The lines of text files, without their ends.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(folder + "/a.txt", "w") as file:
    ...         _ = file.write("some\\nwords\\n")
    ...     [line.numpy() for line in TextLineDataset(folder + "/a.txt")]
    [b'some', b'words']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        kind = checked_compression(compression_type)

        def lines(path: str) -> Iterator[bytes]:
            for line in read_lines(path, kind, "TextLineDataset"):
                yield line.rstrip(b"\r\n") if line.endswith(b"\n") else line

        super().__init__(_of_files(filenames, "TextLineDataset", lines, _TEXT))


def read_lines(path: str, compression: str, who: str) -> Iterator[bytes]:
    """Yield the lines of a file with their ends."""
    with opened(path, compression, who) as file:
        try:
            yield from file
        except (OSError, EOFError) as error:
            raise FileFormatError(f"{who} cannot read {path!r}: {error}.") from error


class TFRecordDataset(Dataset):
    """The records of TFRecord files; `tapegrad.io.parse_example` reads the examples in them.

    >>> import tempfile
    >>> from tapegrad.io.records import TFRecordWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TFRecordWriter(folder + "/a") as writer:
    ...         writer.write(b"data")
    ...     [one.numpy() for one in TFRecordDataset(folder + "/a")]
    [b'data']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: int | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        kind = checked_compression(compression_type)
        plan = _of_files(filenames, "TFRecordDataset", lambda path: read_records(path, kind), _TEXT)
        super().__init__(plan)


class FixedLengthRecordDataset(Dataset):
    """Records of a fixed number of bytes, between a header and a footer.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(folder + "/a", "wb") as file:
    ...         _ = file.write(b"#aabb")
    ...     [one.numpy() for one in FixedLengthRecordDataset(folder + "/a", 2, header_bytes=1)]
    [b'aa', b'bb']
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        buffer_size: int | None = None,
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        kind, size = checked_compression(compression_type), int(record_bytes)
        if size < 1:
            raise ArgumentError(f"record_bytes must be at least 1. Got {record_bytes}.")

        def records(path: str) -> Iterator[bytes]:
            with opened(path, kind, "FixedLengthRecordDataset") as file:
                data = file.read()
            body = data[header_bytes or 0 : len(data) - (footer_bytes or 0)]
            if len(body) % size:
                raise FileFormatError(
                    f"{path!r} has {len(body)} bytes of records, which are not a whole number of "
                    f"records of {size} bytes."
                )
            for start in range(0, len(body), size):
                yield body[start : start + size]

        super().__init__(_of_files(filenames, "FixedLengthRecordDataset", records, _TEXT))


class CsvDataset(Dataset):
    """The rows of comma-separated files, as tuples of one tensor per column.

    `record_defaults` has a default or a dtype for each column that is read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(folder + "/a.csv", "w") as file:
    ...         _ = file.write("x,y\\n1,a\\n2,b\\n")
    ...     rows = CsvDataset(folder + "/a.csv", [0, ""], header=True)
    ...     [(int(x), y.numpy()) for x, y in rows]
    [(1, b'a'), (2, b'b')]
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Sequence[Any],
        compression_type: str | None = None,
        buffer_size: int | None = None,
        header: bool = False,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Sequence[int] | None = None,
        exclude_cols: Sequence[int] | None = None,
    ) -> None:
        if exclude_cols is not None:
            raise ArgumentError("CsvDataset does not take exclude_cols: pass select_cols.")
        kind = checked_compression(compression_type)
        options = (field_delim, use_quote_delim, na_value, select_cols)

        def rows(path: str) -> Iterator[Any]:
            lines = read_lines(path, kind, "CsvDataset")
            for number, line in enumerate(lines):
                text = line.rstrip(b"\r\n")
                if text and not (header and number == 0):
                    yield tuple(decode_csv(text, record_defaults, *options))

        kinds = [column_kind(one) for one in record_defaults]
        signature = tuple(TensorSpec((), one.dtype) for one in kinds)
        super().__init__(_of_files(filenames, "CsvDataset", rows, signature))
