"""Findings about index entries that differ from the log, and about keys without an index entry."""

from collections import defaultdict
from collections.abc import Sequence

from pyromq.store.follower import entry_of
from pyromq.store.index.index import key_hash
from pyromq.store.index.indexfile import ENTRY, ENTRY_BYTES, HEADER_BYTES, SLOT_BYTES
from pyromq.store.inspect.chains import IndexChecked
from pyromq.store.inspect.compare import KeysCompared, seconds_since
from pyromq.store.inspect.findings import REMEDY_INDEX
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile
from pyromq.store.inspect.verdict import Verdicts
from pyromq.wire.properties import index_keys


class IndexJudge:
    """Looks at the index after the log was walked."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self._survey = verdicts.survey
        self._log = verdicts.log
        #: Slots whose chains are disturbed by an entry about which something was said, by file.
        self._excused: defaultdict[int, set[int]] = defaultdict(set)

    def judge(self, checked: Sequence[IndexChecked], compared: Sequence[KeysCompared]) -> None:
        """Look at entries that no record accounts for, at broken chains, and at keys that are missing."""
        for keys in compared:
            for file_number, number in keys.wrong:
                try:
                    self._judge_entry(file_number, number)
                except FileGone:
                    continue
        for file_number, one in enumerate(checked):
            self._judge_chains(file_number, one)
        is_read = all(one.is_read for one in checked)
        for keys in compared:
            if is_read and keys.missing_count > keys.wrong_count:
                self._judge_missing(keys)

    def _judge_entry(self, file_number: int, number: int) -> None:
        survey, log, head = self._survey, self._log, self._survey.index[file_number]
        at = HEADER_BYTES + SLOT_BYTES * survey.slots + ENTRY_BYTES * number
        with ReadOnlyFile(head.path) as file:
            hashed, position, seconds, _ = ENTRY.unpack(file.read(ENTRY_BYTES, at).ljust(ENTRY_BYTES, b"\0"))
        excused = self._excused[file_number]
        excused.add(hashed % survey.slots)
        if log.has_expired(position) or log.is_unreadable(position) or position in log.distrusted:
            return
        is_made_again = self._verdicts.is_made_again(position) or self._verdicts.is_dropped(file_number)
        record = log.record_at(position)
        if record is None:
            what = f"entry {number} points at {position}, where no record begins"
            self._verdicts.say((head.path, at + 4), what, REMEDY_INDEX, is_made_again=is_made_again)
            return
        entry = entry_of(record, record.size, survey.delays_ms)
        hashes = [key_hash(entry.topic, key) for key in index_keys(entry.unique_id, entry.keys)]
        excused.update(one % survey.slots for one in hashes)
        if hashed not in hashes:
            what = f"entry {number} has the key hash {hashed}, but the message at {position} has no such key"
            self._verdicts.say((head.path, at), what, REMEDY_INDEX, is_made_again=is_made_again)
        elif seconds != seconds_since(head.begin_at_ms, record.stored_at_ms) and number > 1:
            what = (
                f"entry {number} says that the message at {position} was stored {seconds} s after the first"
            )
            self._verdicts.say((head.path, at + 12), what, REMEDY_INDEX, is_made_again=is_made_again)

    def _judge_chains(self, file_number: int, checked: IndexChecked) -> None:
        path = self._survey.index[file_number].path
        is_dropped = self._verdicts.is_dropped(file_number)
        for one in checked.broken:
            if one.slot is None or one.slot not in self._excused[file_number]:
                self._verdicts.say((path, one.at), one.what, REMEDY_INDEX, is_made_again=is_dropped)
        more = checked.broken_count - len(checked.broken)
        if more > 0:
            self._verdicts.say(
                (path, 0), f"{more} more links are broken", REMEDY_INDEX, is_made_again=is_dropped
            )

    def _judge_missing(self, keys: KeysCompared) -> None:
        """Messages whose keys are not in the index.

        In the middle of a file that is a fault. Between files, before the first and behind the last it is
        not: RocketMQ drops its newest file after a crash, and messageIndexEnable may have been off.
        """
        for head in self._survey.index:
            inside = [one for one in keys.missing if head.begin_position < one < head.end_position]
            if inside and not self._verdicts.is_made_again(inside[0]):
                what = f"keys of {len(inside)} messages are not in the index; the first is at {inside[0]}"
                self._verdicts.say((head.path, 0), what, REMEDY_INDEX, is_made_again=False)
                return
        first = keys.missing[0]
        if not self._verdicts.is_unsettled(first):
            what = f"keys of {keys.missing_count} messages from here on are not in the index"
            remedy = "nothing, if messageIndexEnable was off or RocketMQ dropped an index file after a crash"
            self._verdicts.note(first, what, remedy)
