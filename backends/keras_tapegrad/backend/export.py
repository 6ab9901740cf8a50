"""Export of models, which needs the graph format of another library."""

from __future__ import annotations

from typing import Any


class TapegradExportArchive:
    """Refuses SavedModel files; `model.save` writes `.keras` files."""

    def track(self, resource: Any) -> None:
        """Refuse: there is no graph in which to track resources."""
        raise NotImplementedError(
            "`track` is not implemented in the tapegrad backend. Use `model.save` and `.keras`."
        )

    def add_endpoint(self, name: str, fn: Any, input_signature: Any = None, **kwargs: Any) -> None:
        """Refuse: there is no graph to export."""
        raise NotImplementedError(
            "`add_endpoint` is not implemented in the tapegrad backend. Use `model.save` and "
            "`.keras`."
        )

    def track_and_add_endpoint(
        self, name: str, resource: Any, input_signature: Any, **kwargs: Any
    ) -> Any:
        """Refuse, with the sentence of Keras' other backends without graphs."""
        raise NotImplementedError(
            "`export_saved_model` only currently supports the tensorflow, jax and torch backends. "
            "Use `model.save` and `.keras`."
        )
