"""What was delivered of the delayed messages since their progress was last written: the log knows.

A delivered message is stored as RocketMQ 4.9 stores it, which says nowhere which record of the schedule topic
it came from. But it has all that record's properties, DELAY and REAL_TOPIC among them, and the messages of a
level are delivered in the order in which they wait. So the first one behind the progress is looked for in the
log, from where the log ended when the progress was so; when it is found, the next.

    level 3       A  B  C │ D  E  F                    progress 3, as the file says
    log           … A  b  B  C │ x  D  y  E  z         the copies of D and E are behind: the progress is 5
                  log position ┘

Only deliveries leave such a record: whatever else is sent with a DELAY goes to the schedule topic itself, and
what is sent back gets another DELAY, and another REAL_TOPIC, before it waits again.
"""

from collections.abc import Mapping

from pyromq import system_names
from pyromq.broker.stored_again import draft_of
from pyromq.store.store import Draft, MessageStore
from pyromq.wire import properties as names
from pyromq.wire.record import Record

_REAL_TOPIC_MARK = (names.REAL_TOPIC + names.NAME_VALUE_SEPARATOR).encode()


def due_draft(record: Record) -> Draft | None:
    """Return a delayed message as it is stored in its own topic, or None when it does not name it.

    Its properties stay, DELAY too: RocketMQ 4.9 and 5.x write them before they clear it.
    """
    topic = names.find_text(record.properties, names.REAL_TOPIC)
    queue_id = names.find_text(record.properties, names.REAL_QUEUE_ID)
    if topic is None or queue_id is None or not (queue_id.isascii() and queue_id.isdecimal()):
        return None
    if topic == system_names.TRANSACTION_HALF:
        return None
    draft = draft_of(record)
    draft.topic, draft.queue_id = topic, int(queue_id)
    return draft


def progress_in_log(store: MessageStore, position: int, progress: Mapping[int, int]) -> dict[int, int]:
    """Return the levels' progress by what the log has from a position on; levels without are at its start.

    `position` is where the log ended when the progress was as given. A log that ends before it has nothing to
    say.
    """
    # The diversion writes the level it chose into DELAY.
    levels = {str(number): _Level(store, number, progress.get(number, 0)) for number in store.delays_ms}
    for record in store.log.walk_marked(max(position, store.min_position), _REAL_TOPIC_MARK):
        level = levels.get(names.find_text(record.properties, names.DELAY) or "")
        if level is not None and record.topic != system_names.SCHEDULE:
            level.meet(record)
    found = {level.number: level.offset for level in levels.values()}
    return {**progress, **{number: offset for number, offset in found.items() if offset}}


class _Level:
    """The oldest message of a level that was not met in the log yet."""

    def __init__(self, store: MessageStore, number: int, offset: int) -> None:
        self._store = store
        self.number = number
        self.offset = max(offset, store.min_offset(system_names.SCHEDULE, number - 1))
        self._awaited: Draft | None = None

    def meet(self, record: Record) -> None:
        """Move on when a record is the awaited message."""
        if self._awaited is None:
            self._awaited = self._find_awaited()
        if self._awaited is not None and draft_of(record) == self._awaited:
            self.offset += 1
            self._awaited = None

    def _find_awaited(self) -> Draft | None:
        """Return the next that can be delivered at all; the others were passed over when they were due."""
        while entries := self._store.entries(system_names.SCHEDULE, self.number - 1, self.offset, 1):
            record = self._store.record_at(entries[0].position)
            draft = None if record is None else due_draft(record)
            if draft is not None:
                return draft
            self.offset += 1
        return None
