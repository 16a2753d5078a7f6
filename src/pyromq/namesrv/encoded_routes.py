"""Answers to GET_ROUTEINFO_BY_TOPIC, encoded once: thousands of clients ask for the same routes all the time.

An answer follows from the topic's route, the dialect of the client that asks, and the topic's order
configuration. The route table tells what is not so any more (`RouteTable.on_changed`).
"""

from typing import Final, NamedTuple

#: What is kept in all; when it is more, everything is forgotten and encoded again when it is asked for.
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024
#: What an entry takes besides its topic and its body.
_ENTRY_BYTES: Final = 300


class RouteDialect(NamedTuple):
    """The facts by which two answers for one topic differ."""

    quoted_keys: bool
    is_5: bool
    order: str | None


class EncodedRoutes:
    """Encoded routes by topic and dialect."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._by_topic: dict[str, dict[RouteDialect, bytes]] = {}
        self._bytes = 0

    @property
    def kept_bytes(self) -> int:
        """The number of bytes that are kept, about."""
        return self._bytes

    def find(self, topic: str, dialect: RouteDialect) -> bytes | None:
        """Return a kept answer, None when there is none."""
        answers = self._by_topic.get(topic)
        return None if answers is None else answers.get(dialect)

    def keep(self, topic: str, dialect: RouteDialect, body: bytes) -> None:
        """Keep an answer until the topic's route changes."""
        size = len(topic) + len(dialect.order or "") + len(body) + _ENTRY_BYTES
        if self._bytes + size > self._bytes_max:
            self.forget(None)
        if size <= self._bytes_max:
            self._by_topic.setdefault(topic, {})[dialect] = body
            self._bytes += size

    def forget(self, topic: str | None) -> None:
        """Forget the answers for a topic; None: all."""
        if topic is None:
            self._by_topic.clear()
            self._bytes = 0
            return
        for dialect, body in self._by_topic.pop(topic, {}).items():
            self._bytes -= len(topic) + len(dialect.order or "") + len(body) + _ENTRY_BYTES
