"""Errors as Spark's users see them: the sentence, without the frames and causes that led to it.

Spark shows the trace of whatever a data source raises, and the message below it. An error of ours says by
itself what is wrong and what to do, so its trace ends at this border. The log has all of it, at level DEBUG.

Nothing of `pyromq` is imported here: Spark finds the source in a Python that may lack what that needs.
"""

import logging
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=type[Any])


def plain_errors(*methods: str) -> Callable[[K], K]:
    """Return a decorator for a class that Spark calls: what these methods raise has a trace of one frame."""

    def decorate(kind: K) -> K:
        for name in methods:
            setattr(kind, name, _plain(getattr(kind, name)))
        return kind

    return decorate


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = method(*args, **kwargs)
        except Exception as error:
            if _is_ours(error):
                raise error.with_traceback(None) from None
            raise
        return _plain_rows(result) if isinstance(result, Iterator) else result

    return call


def _plain_rows(rows: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from rows
    except Exception as error:
        if _is_ours(error):
            raise error.with_traceback(None) from None
        raise


def _is_ours(error: Exception) -> bool:
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(error).__mro__}
    is_ours = "pyromq.errors.PyroError" in names
    if is_ours:
        _log.debug("what led to it", exc_info=error)
    return is_ours
