"""Settings of sessions, which programs of TensorFlow 2 still make to choose options of the GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

from tapegrad.core.call_site import warn_outside
from tapegrad.errors import ArgumentTypeError

_AT_ONCE = (
    "Functions run at once, and tapegrad.function compiles them; there are no graphs, sessions and "
    "placeholders."
)


class _Settings:
    """Settings that are accepted and have no effect."""

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({inner})"


class GPUOptions(_Settings):
    """Settings of the memory on a GPU; memory always grows as it is needed.

    To limit it, use `tapegrad.config.set_logical_device_configuration`.

    >>> GPUOptions(allow_growth=True).allow_growth
    True
    """


class ConfigProto(_Settings):
    """Settings of a session; they are accepted and have no effect.

    >>> config = ConfigProto(allow_soft_placement=True)
    >>> config.gpu_options.allow_growth = True
    """

    def __init__(self, gpu_options: Any = None, graph_options: Any = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.gpu_options = gpu_options or GPUOptions()
        self.graph_options = graph_options or _Settings(
            optimizer_options=_Settings(), rewrite_options=_Settings()
        )
        self.experimental = _Settings()


class Session:
    """A session that takes settings and runs nothing, because functions run at once.

    >>> with Session(config=ConfigProto()) as session:
    ...     pass
    """

    def __init__(self, target: str = "", graph: Any = None, config: Any = None) -> None:
        if graph is not None:
            raise ArgumentTypeError(f"Session takes no graph. {_AT_ONCE}")
        self.config = config

    def run(self, fetches: Any, feed_dict: Any = None, *others: Any) -> NoReturn:
        """Raise an error, which says what there is instead."""
        raise ArgumentTypeError(f"Session.run cannot run a graph. {_AT_ONCE}")

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Session]:
        """Return a context that changes nothing."""
        yield self

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class InteractiveSession(Session):
    """A session that takes settings and runs nothing, because functions run at once.

    >>> InteractiveSession(config=ConfigProto()).close()
    """


def enable_eager_execution(
    config: Any = None, device_policy: Any = None, execution_mode: Any = None
) -> None:
    """Do nothing: functions always run at once.

    >>> enable_eager_execution()
    """


def enable_v2_behavior() -> None:
    """Do nothing: functions always run at once.

    >>> enable_v2_behavior()
    """


def disable_eager_execution() -> None:
    """Warn that functions still run at once; Keras models need no change.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     disable_eager_execution()
    >>> str(caught[0].message)[:40]
    'disable_eager_execution changes nothing.'
    """
    warn_outside(f"disable_eager_execution changes nothing. {_AT_ONCE}")


def disable_v2_behavior() -> None:
    """Warn that functions still run at once.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     disable_v2_behavior()
    >>> len(caught)
    1
    """
    warn_outside(f"disable_v2_behavior changes nothing. {_AT_ONCE}")
