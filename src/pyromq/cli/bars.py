"""A progress bar where a person sees it, and only for work that takes a while.

It is drawn on standard error if that is a terminal, and not before half a second: what is done by then needs
no bar, and does not pay for rich. Then it comes by itself: the first broker that is asked may hang. Lines on
a terminal show by themselves how far it is: a command that prints them as it goes has a bar only when they go
elsewhere.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")

DELAY_S = 0.5
_hidden = ContextVar("hidden", default=False)


class Advance(Protocol):
    """Say that so much more is done."""

    def __call__(self, count: int = 1) -> None:
        """Say that so much more is done."""


def is_seen(*, prints_lines: bool = False) -> bool:
    """Whether a bar would be seen, and would not be in the way."""
    return sys.stderr.isatty() and not _hidden.get() and not (prints_lines and sys.stdout.isatty())


@contextmanager
def hidden() -> Iterator[None]:
    """Draw none while something else draws on the terminal."""
    token = _hidden.set(True)
    try:
        yield
    finally:
        _hidden.reset(token)


@contextmanager
def bar(verb: str, total: int | None, *, prints_lines: bool = False) -> Iterator[Advance]:
    """Give what is called with each count of things done; without a total the bar shows how many they are."""
    # What is drawn goes when nothing more can be drawn.
    with ExitStack() as drawing, ExitStack() as closing:
        if is_seen(prints_lines=prints_lines):
            yield closing.enter_context(_Late(lambda: drawing.enter_context(_drawn(verb, total))))
        else:
            yield _nothing


def tracked(items: Sequence[T], verb: str) -> Iterator[T]:
    """Yield things to do, with a bar over them."""
    with bar(verb, len(items)) as advance:
        for item in items:
            yield item
            advance()


class _Late:
    """Counts, and draws from when it has taken a while, also if nothing is done until then."""

    def __init__(self, draw: Callable[[], Advance]) -> None:
        self._draw = draw
        self._drawn: Advance | None = None
        self._due_at = time.monotonic() + DELAY_S
        self._done = 0
        self._has_ended = False
        self._turn = threading.Lock()
        self._timer = threading.Timer(DELAY_S, self, (0,))
        self._timer.daemon = True

    def __call__(self, count: int = 1) -> None:
        with self._turn:
            self._done += count
            if self._drawn is not None:
                self._drawn(count)
            elif time.monotonic() >= self._due_at and not self._has_ended:
                self._drawn = self._draw()
                self._drawn(self._done)

    def __enter__(self) -> "_Late":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._turn:
            self._has_ended = True


def _drawn(verb: str, total: int | None) -> AbstractContextManager[Advance]:
    from pyromq.cli.progress_bar import progress_bar

    return progress_bar(verb, total)


def _nothing(count: int = 1) -> None:
    """Nobody looks."""
