"""An import hook that adds the branch "tapegrad" where Keras chooses among its backends.

Released versions of Keras choose by chains such as

    elif backend() == "numpy":
        from keras.src.backend.numpy.layer import NumpyLayer as BackendLayer

In the few modules that have them, the hook repeats the branch of NumPy for tapegrad, with imports
from this package. Keras' files are not changed, nor are their cached byte codes.
"""

from __future__ import annotations

import ast
import copy
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from keras_tapegrad import substitutes

NAME = "tapegrad"
_MODEL = "numpy"
_PLACES = frozenset(
    {
        "keras.src.backend",
        "keras.src.export.saved_model",
        "keras.src.layers.layer",
        "keras.src.models.model",
        "keras.src.trainers.trainer_test",
        "keras.src.utils.backend_utils",
    }
)
"""The modules of Keras that choose a backend."""


def is_chosen() -> bool:
    """Whether the environment chooses this backend.

    >>> os.environ["KERAS_BACKEND"] = "tapegrad"
    >>> is_chosen()
    True
    """
    return os.environ.get("KERAS_BACKEND") == NAME


def install() -> None:
    """Let `import keras` find this backend; a second call does nothing.

    >>> install()
    >>> any(isinstance(finder, BackendFinder) for finder in sys.meta_path)
    True
    """
    if not any([isinstance(finder, BackendFinder) for finder in sys.meta_path]):
        sys.meta_path.insert(0, BackendFinder())


class BackendFinder(MetaPathFinder):
    """Finds the modules of Keras that choose a backend, and loads them with one branch more."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _PLACES and fullname not in substitutes.PLACES:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        kind = _Loader if fullname in _PLACES else _SubstitutingLoader
        spec.loader = kind(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Compile the source, because cached byte code has no branch for this backend."""
        path = self.get_filename(fullname)
        tree = _AddBranch().visit(ast.parse(self.get_data(path), path))
        code: CodeType = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if module.__name__ in substitutes.PLACES:
            substitutes.substitute(module)


class _SubstitutingLoader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        substitutes.substitute(module)


class _AddBranch(ast.NodeTransformer):
    """Repeats each branch for NumPy's backend with the names of this one."""

    def visit_If(self, node: ast.If) -> Any:  # the name that ast looks for
        if not _compares_with(node.test, _MODEL):
            return self.generic_visit(node)
        for_this = _Rename().visit(copy.deepcopy(node))
        node.orelse = [self.visit(one) for one in node.orelse]
        for_this.orelse = [node]
        return for_this

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        """Add the name to tuples of the names of all backends."""
        names = {entry.value for entry in node.elts if isinstance(entry, ast.Constant)}
        if {"tensorflow", "jax", "torch", _MODEL} <= names:
            node.elts.append(ast.Constant(NAME))
        return node

    def visit_Dict(self, node: ast.Dict) -> Any:
        """Add an entry to the tables of tests that have one for each backend with gradients."""
        names = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        if {"tensorflow", "jax", "torch"} <= {*names}:
            node.keys.append(ast.Constant(NAME))
            node.values.append(node.values[names.index("jax")])
        return node


def _compares_with(test: ast.expr, name: str) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq)
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == name
    )


class _Rename(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> Any:
        return ast.Constant(NAME) if node.value == _MODEL else node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        whole = f"keras.src.backend.{_MODEL}"
        if node.module is None or not node.module.startswith(whole):
            return node
        node.module = node.module.replace(whole, "keras_tapegrad.backend", 1)
        for name in node.names:
            if name.name.startswith("Numpy"):
                name.asname = name.asname or name.name
                name.name = name.name.replace("Numpy", "Tapegrad", 1)
        return node
