"""Callbacks: the application's code at the end of what it did not wait for."""

import logging
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_log = logging.getLogger("pyromq.client")


def call_back(
    callback: Callable[[T | None, BaseException | None], None], result: T | None, error: BaseException | None
) -> None:
    """Give a result or an error to a callback; what the callback raises is logged."""
    try:
        callback(result, error)
    except Exception:  # noqa: BLE001  the application's code, and nobody waits who could be told
        _log.exception("a callback failed")
