"""Timed messages while the broker runs: deliver them, list them, recall them."""

from pyromq.broker.timers.waiting import Recalled, Waiting


class Timers:
    """The messages that wait for a time of their own."""

    async def list_waiting(
        self, *, topic: str | None = None, after: tuple[int, int] | None = None, count: int
    ) -> list[Waiting]:
        """Return up to `count` messages that wait, in the order of their delivery; fewer are the last ones.

        `after` is (due_ms, position) of the last one that is known already, `topic` their own topic.
        """
        raise NotImplementedError

    async def count(self) -> int:
        """Return how many messages wait."""
        raise NotImplementedError

    async def recall(self, topic: str, unique_id: str, *, due_ms: int | None = None) -> Recalled:
        """Let a message that waits never be delivered; it is so once the log is synced up to `placed.end`.

        `topic` is its own topic and `unique_id` its UNIQ_KEY. A store without an index of keys needs
        `due_ms`, at or up to a second behind the time that the message is due. Raises Refused when nothing
        can be stored.
        """
        raise NotImplementedError
