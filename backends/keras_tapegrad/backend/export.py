"""Export of models, which needs a graph format."""

from __future__ import annotations

from typing import Any


class TapegradExportArchive:
    """Refuses what SavedModel files need; `model.save` writes `.keras` files."""

    def track(self, resource: Any) -> None:
        """Refuse: there is no graph to track resources in."""
        raise NotImplementedError(
            "`track` is not implemented in the tapegrad backend. Use `model.save` and `.keras`."
        )

    def add_endpoint(self, name: str, fn: Any, input_signature: Any = None, **kwargs: Any) -> None:
        """Refuse: there is no graph to export."""
        raise NotImplementedError(
            "`add_endpoint` is not implemented in the tapegrad backend. Use `model.save` and "
            "`.keras`."
        )
