"""The JSON of a broker's table, kept in pieces: after a change, the piece that changed is written again.

A broker with ten thousand topics tells them all to the name servers every half minute, and saves them all
when one comes. Written anew each time, that is a quarter of a second in which nothing else is done.
"""

from bisect import insort_right
from collections.abc import Mapping

from pyromq.wire.java_hash import java_bucket, java_capacity
from pyromq.wire.java_json import Encoded, entry_text


class TableText:
    """The text of a map from names to values, in the order of a Java map that began with some buckets.

    Each change of the map is to be told by `changed` or `removed`. Its buckets stay when names leave it.
    """

    __slots__ = ("_capacity", "_names", "_order", "_pieces")

    def __init__(self, buckets: int) -> None:
        self._capacity = buckets
        self._names: set[str] = set()
        self._order: list[str] = []
        self._pieces: dict[bool, dict[str, str]] = {}

    def changed(self, name: str) -> None:
        """Note that a name has a new value, or is new; in the order in which they come into the map."""
        if name not in self._names:
            self._names.add(name)
            capacity = java_capacity(len(self._names), self._capacity)
            if capacity != self._capacity:
                self._capacity = capacity
                # It is the order of fewer buckets that is split: those of one bucket stay as they came.
                self._order.sort(key=self._bucket)
            insort_right(self._order, name, key=self._bucket)
        for pieces in self._pieces.values():
            pieces.pop(name, None)

    def removed(self, name: str) -> None:
        """Note that a name is in the map no more."""
        if name in self._names:
            self._names.remove(name)
            self._order.remove(name)
            for pieces in self._pieces.values():
                pieces.pop(name, None)

    def text(self, table: Mapping[str, object], *, depth: int, pretty: bool) -> Encoded:
        """Return the map's JSON, to stand at a depth of another value's; always the same for one table."""
        pieces = self._pieces.setdefault(pretty, {})
        if len(pieces) < len(self._order):
            for name in self._order:
                if name not in pieces:
                    pieces[name] = entry_text(name, table[name], depth + 1, pretty=pretty)
        if not pieces:
            return Encoded("{}")
        end = "\n" + "\t" * depth if pretty else ""
        return Encoded("{", ",".join([pieces[name] for name in self._order]), end, "}")

    def _bucket(self, name: str) -> int:
        return java_bucket(name, self._capacity)
