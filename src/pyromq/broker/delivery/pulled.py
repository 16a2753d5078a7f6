"""The pull offset of each group in each queue; messages between it and the committed offset are in flight.

Only metrics read these offsets, so they are kept in memory alone. Each offset has a memory cell of its own.
The kernel writes to the cell when it answers a pull: that costs one store, and nothing has to collect it.
"""

from array import array
from typing import Final

#: A place that nothing was noted in.
_NEVER: Final = -1


class PulledOffsets:
    """The offset behind what was pulled last, by group, topic and queue."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], dict[int, array[int]]] = {}

    def place(self, group: str, topic: str, queue_id: int) -> "array[int]":
        """Return the one number, an int64, that whoever answers pulls keeps up to date."""
        places = self._places.setdefault((group, topic), {})
        found = places.get(queue_id)
        if found is None:
            found = places[queue_id] = array("q", (_NEVER,))
        return found

    def note(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Say where a pull ended; a group that goes back is there then."""
        self.place(group, topic, queue_id)[0] = offset

    def reached(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset that would be pulled next, or None when nothing was pulled since the start."""
        found = self._places.get((group, topic), {}).get(queue_id)
        return None if found is None or found[0] == _NEVER else found[0]

    def remove_topic(self, topic: str) -> None:
        """Forget what was pulled of a topic."""
        self._places = {key: places for key, places in self._places.items() if key[1] != topic}

    def remove_group(self, group: str) -> None:
        """Forget what a group pulled."""
        self._places = {key: places for key, places in self._places.items() if key[0] != group}
