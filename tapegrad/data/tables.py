"""make_csv_dataset: batches of the columns of comma-separated files, which are kept in memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.data.dataset import Dataset
from tapegrad.errors import ArgumentError, NotFoundError
from tapegrad.io.files import files_matching
from tapegrad.io.parsing import ColumnKind, column_kind
from tapegrad.io.records import checked_compression, opened

_INFERRED = (("int32", int), ("int64", int), ("float32", float), ("float64", float))


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Any = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Dataset:
    """Make a dataset of batches of rows: dictionaries of columns, or (dictionary, label) pairs.

    Without `column_defaults`, dtypes are inferred from the first rows. Without `num_epochs`, the
    rows repeat without end. The files are read into memory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(folder + "/a.csv", "w") as file:
    ...         _ = file.write("x,y\\n1,a\\n2,b\\n")
    ...     data = make_csv_dataset(
    ...         folder + "/a.csv", 2, label_name="y", num_epochs=1, shuffle=False
    ...     )
    ...     [(x["x"].tolist(), y.tolist()) for x, y in data]
    [([1, 2], [b'a', b'b'])]
    """
    paths = files_matching(file_pattern, "make_csv_dataset")
    if not paths:
        raise NotFoundError(f"make_csv_dataset: no file matches {file_pattern!r}.")
    kind = checked_compression(compression_type)
    format = {"delimiter": field_delim, "quoting": csv.QUOTE_MINIMAL}
    if not use_quote_delim:
        format["quoting"] = csv.QUOTE_NONE
    tables = [_rows(path, kind, encoding, format) for path in paths]
    names = list(column_names) if column_names is not None else _header(tables[0], paths[0])
    rows = [row for table in tables for row in (table[1:] if header else table)]
    chosen = _chosen(names, select_columns)
    whole = [row for row in rows if len(row) == len(names)]
    if len(whole) < len(rows) and not ignore_errors:
        wrong = next(row for row in rows if len(row) != len(names))
        raise ArgumentError(
            f"Expected {len(names)} fields but found {len(wrong)} in a row of {paths}: "
            f"{field_delim.join(wrong)!r:.80}. ignore_errors=True leaves such rows out."
        )
    kinds = _kinds(names, chosen, column_defaults, whole[:num_rows_for_inference], na_value)
    columns = {names[k]: _column(whole, k, one, na_value) for k, one in zip(chosen, kinds)}
    data = Dataset.from_tensor_slices(_with_label(columns, label_name))
    if shuffle:
        data = data.shuffle(min(shuffle_buffer_size, max(len(whole), 1)), shuffle_seed)
    if num_epochs != 1:
        data = data.repeat(num_epochs)
    data = data.batch(batch_size, drop_remainder=num_epochs is None)
    return data if not prefetch_buffer_size else data.prefetch(prefetch_buffer_size)


def _rows(path: str, kind: str, encoding: str, format: Mapping[str, Any]) -> list[list[str]]:
    with opened(path, kind, "make_csv_dataset") as file:
        text = file.read().decode(encoding)
    return [row for row in csv.reader(io.StringIO(text, newline=""), **format) if row]


def _header(rows: list[list[str]], path: str) -> list[str]:
    if not rows:
        raise ArgumentError(f"make_csv_dataset: {path!r} is empty, so columns have no names.")
    return rows[0]


def _chosen(names: list[str], wanted: Sequence[Any] | None) -> list[int]:
    if wanted is None:
        return list(range(len(names)))
    found = []
    for one in wanted:
        if isinstance(one, str) and one not in names:
            raise ArgumentError(f"There is no column {one!r}. The columns are {names}.")
        found.append(names.index(one) if isinstance(one, str) else int(one))
    return sorted(found)


def _kinds(
    names: list[str], chosen: list[int], defaults: Any, rows: list[list[str]], missing: str
) -> list[ColumnKind]:
    if isinstance(defaults, Mapping):
        return [
            column_kind(defaults[names[k]]) if names[k] in defaults else _inferred(rows, k, missing)
            for k in chosen
        ]
    if defaults is None:
        return [_inferred(rows, k, missing) for k in chosen]
    if len(defaults) != len(chosen):
        raise ArgumentError(
            f"column_defaults must have one entry for each of {len(chosen)} columns. "
            f"Got {len(defaults)}."
        )
    return [column_kind(one) for one in defaults]


def _inferred(rows: list[list[str]], place: int, missing: str) -> ColumnKind:
    fields = [row[place] for row in rows if row[place] not in ("", missing)]
    for name, read in _INFERRED:
        if fields and all([_fits(field, name, read) for field in fields]):
            return ColumnKind(np.dtype(name), 0)
    if not fields:
        return ColumnKind(np.dtype("float32"), 0)
    return ColumnKind(np.dtype(object), b"")


def _fits(field: str, dtype: str, read: Any) -> bool:
    try:
        value = read(field)
    except ValueError:
        return False
    if dtype.startswith("int"):
        limits = np.iinfo(dtype)
        return bool(limits.min <= value <= limits.max)
    return dtype == "float64" or abs(value) <= np.finfo(np.float32).max or value != value  # NaN


def _column(rows: list[list[str]], place: int, kind: ColumnKind, missing: str) -> np.ndarray:
    column = np.empty(len(rows), kind.dtype)
    for number, row in enumerate(rows):
        column[number] = kind.read(row[place], missing, place, number)
    return column


def _with_label(columns: dict[str, np.ndarray], label: str | None) -> Any:
    if label is None:
        return columns
    if label not in columns:
        raise ArgumentError(
            f"label_name must be one of the columns {list(columns)}. Got {label!r}."
        )
    return {key: value for key, value in columns.items() if key != label}, columns[label]
