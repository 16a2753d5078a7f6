"""Episodes: times in which a server refuses clients, logged once when they begin and once when they end.

Whatever makes a server refuse more than one client has an `Episode`: a full disk, a lost lease, too few
replicas, too many connections, overload. Its owner calls `note` as often as it likes; only a change is
logged.

    WARNING  broker-a refuses messages: the disk of /data is 93% full …
    WARNING  broker-a takes messages again, after 312.0 s; the cause was: the disk of /data is 93% full …

Both lines are warnings, so that a log which has the beginning has the end too. `Episodes` is a list of
conditions that are looked at, for causes that nobody reports when they begin.
"""

import logging
from collections.abc import Callable

from pyromq.clock import Clock

log = logging.getLogger(__name__)


class Episode:
    """One cause for which `server` refuses `what`: "messages", "all requests", "connections".

    `level` is the log level of the beginning.
    """

    def __init__(self, clock: Clock, server: str, what: str, *, level: int = logging.WARNING) -> None:
        self._clock = clock
        self._server = server
        self._what = what
        self._level = level
        self._began_at = 0.0
        #: Why clients are refused now, None while they are not.
        self.cause: str | None = None

    def note(self, cause: str | None) -> None:
        """Tell why clients are refused now, None if they are not; only a beginning and an end are logged."""
        if cause is None:
            self.end()
        else:
            self.begin(cause)

    def begin(self, cause: str) -> None:
        """Log that clients are refused from now on, unless that was logged already."""
        if self.cause is None:
            self.cause = cause
            self._began_at = self._clock.monotonic()
            log.log(self._level, "%s refuses %s: %s", self._server, self._what, cause)

    def end(self) -> None:
        """Log that clients are not refused any more, with the cause that is gone."""
        if self.cause is not None:
            lasted_s = self._clock.monotonic() - self._began_at
            log.warning(
                "%s takes %s again, after %.1f s; the cause was: %s",
                self._server,
                self._what,
                lasted_s,
                self.cause,
            )
            self.cause = None


class Episodes:
    """The conditions for which one server refuses clients."""

    def __init__(self, clock: Clock, server: str) -> None:
        self._clock = clock
        self._server = server
        self._watched: list[tuple[Episode, Callable[[], str | None]]] = []

    def watch(self, what: str, why: Callable[[], str | None], *, level: int = logging.WARNING) -> None:
        """Log when `what` is refused; `why` returns the cause of it, None while there is none.

        Two causes with the same `what` are two episodes: each has its own beginning and end.
        """
        self._watched.append((Episode(self._clock, self._server, what, level=level), why))

    def look(self) -> None:
        """Look at each condition, and log those that began or ended."""
        for episode, why in self._watched:
            episode.note(why())

    @property
    def causes(self) -> list[str]:
        """The causes for which clients are refused now, as the last look found them."""
        return [episode.cause for episode, _ in self._watched if episode.cause is not None]
