"""`tf.compat.v1.gfile`: the functions of `tf.io.gfile` under older names."""

from __future__ import annotations

from tapegrad.io.gfile import (
    GFile,
    GFile as FastGFile,
    GFile as Open,
    copy as Copy,  # noqa: N812
    exists as Exists,  # noqa: N812
    glob as Glob,  # noqa: N812
    isdir as IsDirectory,  # noqa: N812
    listdir as ListDirectory,  # noqa: N812
    makedirs as MakeDirs,  # noqa: N812
    mkdir as MkDir,  # noqa: N812
    remove as Remove,  # noqa: N812
    rename as Rename,  # noqa: N812
    rmtree as DeleteRecursively,  # noqa: N812
    stat as Stat,  # noqa: N812
    walk as Walk,  # noqa: N812
)

__all__ = [
    "Copy", "DeleteRecursively", "Exists", "FastGFile", "GFile", "Glob", "IsDirectory",
    "ListDirectory", "MakeDirs", "MkDir", "Open", "Remove", "Rename", "Stat", "Walk",
]  # fmt: skip
