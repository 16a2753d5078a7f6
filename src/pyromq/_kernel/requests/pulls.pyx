"""Pulls, from the received bytes to the bytes of the answers.

    key of a pull (group, topic, queue, flags, subscription) ─► its plan, which Python made
    read from the plan's queue    found, or nothing wanted ──► the answer
                                  nothing yet              ──► held, where the client lets us wait, or the answer
    offset that is committed      ──► the table's own offsets, or told to Python

Only pulls of consumers that Python has let through before have a plan: `learn` keeps its decision under what does
not change from pull to pull. `requests.reading` reads, `requests.holds` holds; what is unusual there is left to
Python. `pyromq.broker.requests.handlers.pull_handlers` is the same in Python.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcpy

from pyromq._kernel.codec.frames cimport READ, Frame, Span, find_field, first_code, read_frame, read_number
from pyromq._kernel.codec.inlets cimport Inlet
from pyromq._kernel.requests.holds cimport HeldPull, Holds
from pyromq._kernel.requests.reading cimport (
    READ_EMPTY_QUEUE, READ_NOTHING_YET, READ_UNUSUAL, PullPlan, PullReader
)
from pyromq._kernel.requests.signatures cimport Signatures
from pyromq._kernel.storage.progress cimport read_progress

cdef enum:
    PULL_MESSAGE = 11
    LITE_PULL_MESSAGE = 361
    FLAG_RESPONSE = 1
    FLAG_ONEWAY = 2
    PULL_COMMITS = 1
    PULL_SUSPENDS = 2

    INT32_MAX = 2147483647
    INT32_MIN = -2147483648
    KEY_FIELDS = 7
    KEY_BYTES_MAX = 4096


cdef struct Asked:
    #: What differs between pulls of one kind.
    int64_t offset, commit, hold_ms, count_max, flags, bytes_max


cdef class Pulls:
    """Answers pulls. One for each broker."""

    #: With access control: what looks at each frame.
    cdef Signatures _signatures
    cdef dict _plans
    #: What plans answered that are forgotten, or were asked: (messages, bytes, pulls) by `who`.
    cdef dict _served
    cdef int64_t _missed
    cdef readonly PullReader reader
    cdef readonly Holds holds
    #: While pulls are answered: how many more may be held, now, how long all are held (-1: as they say), and the
    #: table's names of offsets that were changed.
    cdef int64_t _hold_room, _now_ms, _hold_ms
    cdef set _changed

    def __init__(self, PullReader reader not None):
        self.reader = reader
        self.holds = Holds()
        self._plans = {}
        self._served = {}

    def guard(self, Signatures signatures):
        """Answer only what signatures let pass from now on; None: everything."""
        self._signatures = signatures

    def learn(self, bytes key not None, PullPlan plan not None):
        """Answer pulls of this kind by a plan from now on."""
        self._forget(self._plans.get(key))
        self._plans[key] = plan

    def forget_all(self):
        """Leave all pulls to Python, until they are learnt again; those that are held too."""
        if self._plans:
            for plan in self._plans.values():
                self._forget(plan)
            self._plans = {}

    cdef _forget(self, PullPlan plan):
        if plan is not None:
            self._note(plan)
            plan.is_forgotten = True

    def take_served(self):
        """Return (messages, bytes, pulls) by what was learnt as `who`, since the last time this was asked."""
        for plan in self._plans.values():
            self._note(plan)
        served = self._served
        self._served = {}
        return served

    def take_missed(self):
        """Return how many pulls found nothing since the last `take_served`; ask it right behind that."""
        missed = self._missed
        self._missed = 0
        return missed

    cdef _note(self, PullPlan plan):
        self._missed += plan.missed
        plan.missed = 0
        if not plan.answers:
            return
        count, size, answers = self._served.get(plan.who, (0, 0, 0))
        self._served[plan.who] = (count + plan.count, size + plan.size, answers + plan.answers)
        plan.count = plan.size = plan.answers = 0

    @property
    def plan_count(self):
        """The number of known kinds of pulls."""
        return len(self._plans)

    def answer(
        self, list inlets not None, log, *, int64_t readable, int64_t disk_position, int64_t now_ms,
        int64_t hold_room, int64_t hold_ms, Py_ssize_t under_way_max,
    ):
        """Answer or hold the pulls at the front of inlets; return how many, changed offsets, and commits.

        Nothing behind `readable` is read; `hold_room` pulls may be held, for `hold_ms` each, or as long as they
        say when that is negative. Changed offsets are told by the table's names. A commit is a plan and an
        offset, for Python to commit: there was none before, or it goes back.
        """
        cdef list commits = []
        cdef set changed = set()
        cdef Py_ssize_t count = 0
        cdef Inlet inlet
        self.reader.look_at(log, readable, disk_position)
        self._now_ms, self._hold_room, self._hold_ms = now_ms, hold_room, hold_ms
        self._changed = changed
        for inlet in inlets:
            count += self._answer_inlet(inlet, under_way_max, commits)
        return count, changed, commits

    cdef Py_ssize_t _answer_inlet(self, Inlet inlet, Py_ssize_t under_way_max, list commits) except -1:
        """Answer the pulls at the front of one inlet; see `answer`."""
        cdef const uint8_t *begin
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef Frame frame
        cdef Py_ssize_t count = 0
        cdef int32_t code
        # Nobody lets go of it while it is read.
        received = inlet.received
        inlet.look(&begin, &end)
        at = begin
        while at < end and inlet.room() > 0 and inlet.under_way_number() < under_way_max:
            code = first_code(at, end)
            if (code >= 0 and code != PULL_MESSAGE and code != LITE_PULL_MESSAGE) or read_frame(at, end, &frame) != READ:
                break
            if frame.code != PULL_MESSAGE and frame.code != LITE_PULL_MESSAGE:
                break
            if frame.flag & (FLAG_RESPONSE | FLAG_ONEWAY):
                break
            if frame.body_length:
                # No client sends one; how long it may be stands on the route.
                break
            if self._signatures is not None and not self._signatures.allows(&frame, inlet.peer_host_bytes):
                break
            if not self._pull(&frame, inlet, commits):
                break
            at = frame.end
            count += 1
        if count:
            inlet.skip_to(inlet.start + (at - begin))
        return count

    cdef bint _pull(self, Frame *frame, Inlet inlet, list commits) except -1:
        """Answer or hold one pull; return False when it is Python's."""
        cdef Asked asked
        cdef PullPlan plan
        cdef bytes key, answer
        cdef int result
        if not _read_asked(frame, &asked):
            return False
        key = _key_of(frame)
        found = self._plans.get(key) if key is not None else None
        if found is None:
            return False
        plan = <PullPlan> found
        if not plan.holds():
            return False
        result = self.reader.read(plan, asked.offset, asked.count_max, asked.bytes_max)
        if result == READ_UNUSUAL:
            return False
        if (
            (result == READ_NOTHING_YET or result == READ_EMPTY_QUEUE)
            and asked.flags & PULL_SUSPENDS and self._hold_room > 0
        ):
            self.reader.note_missed(plan)
            self._hold(frame, inlet, plan, &asked)
        else:
            answer = self.reader.answer(plan, result, frame.is_json, frame.opaque)
            if answer is None:
                return False
            inlet.send_frames(answer)
        if asked.flags & PULL_COMMITS and plan.name is not None:
            self._commit(plan, asked.commit, commits)
        return True

    cdef int _hold(self, Frame *frame, Inlet inlet, PullPlan plan, Asked *asked) except -1:
        cdef HeldPull pull = HeldPull.__new__(HeldPull)
        pull.inlet = inlet
        pull.plan = plan
        pull.offset = asked.offset
        pull.count_max = asked.count_max
        pull.bytes_max = asked.bytes_max
        pull.held_at_ms = self._now_ms
        pull.until_ms = self._now_ms + (asked.hold_ms if self._hold_ms < 0 else self._hold_ms)
        pull.opaque = frame.opaque
        pull.is_json = frame.is_json
        self._hold_room -= 1
        self.holds.hold(pull)
        return 0

    cdef int _commit(self, PullPlan plan, int64_t offset, list commits) except -1:
        """Set the group's offset; a first one, or one that goes back, is Python's."""
        cdef int64_t before = 0
        if plan.offsets is None or not read_progress(plan.offsets, plan.queue_id, &before) or offset < before:
            commits.append((plan, offset))
        elif offset != before:
            plan.offsets[plan.queue_id] = offset
            self._changed.add(plan.name)
        return 0


cdef bint _read_asked(Frame *frame, Asked *asked) noexcept:
    """Read the numbers of a pull; return whether all are as clients write them."""
    cdef int64_t ignored
    cdef Span *field = find_field(frame, b"bname", 5)
    return (
        _number(frame, b"queueOffset", 11, False, &asked.offset)
        and _number(frame, b"commitOffset", 12, False, &asked.commit)
        and _number(frame, b"suspendTimeoutMillis", 20, False, &asked.hold_ms)
        and _number(frame, b"maxMsgNums", 10, False, &asked.count_max) and _is_int32(asked.count_max)
        and _number(frame, b"sysFlag", 7, False, &asked.flags) and _is_int32(asked.flags)
        and _number(frame, b"maxMsgBytes", 11, True, &asked.bytes_max) and _is_int32(asked.bytes_max)
        and _number(frame, b"requestSource", 13, True, &ignored) and _is_int32(ignored)
        and (field == NULL or not field.is_escaped)
    )


cdef bytes _key_of(Frame *frame):
    """Return what pulls of one kind have in common, None when a part of it is missing or unusual."""
    cdef uint8_t key[KEY_BYTES_MAX]
    cdef uint8_t *at = key
    cdef Span *field
    cdef int64_t number
    cdef int i
    for i in range(KEY_FIELDS):
        if i == 0:
            field = find_field(frame, b"consumerGroup", 13)
        elif i == 1:
            field = find_field(frame, b"topic", 5)
        elif i == 2:
            field = find_field(frame, b"queueId", 7)
        elif i == 3:
            field = find_field(frame, b"sysFlag", 7)
        elif i == 4:
            field = find_field(frame, b"subVersion", 10)
        elif i == 5:
            field = find_field(frame, b"subscription", 12)
        else:
            field = find_field(frame, b"expressionType", 14)
        if field == NULL and i < 5:
            return None
        if 2 <= i <= 4 and not read_number(field, -(1 << 62), 1 << 62, &number):
            return None
        if field != NULL:
            if field.is_escaped or field.length + 1 > key + KEY_BYTES_MAX - at:
                return None
            if field.length and memchr(field.at, 0, field.length) != NULL:
                return None
            memcpy(at, field.at, field.length)
            at += field.length
        elif at == key + KEY_BYTES_MAX:
            return None
        at[0] = 0
        at += 1
    return PyBytes_FromStringAndSize(<char *> key, at - key)


cdef bint _number(Frame *frame, const char *name, Py_ssize_t length, bint is_optional, int64_t *number) noexcept:
    cdef Span *field = find_field(frame, name, length)
    if field == NULL:
        number[0] = 0
        return is_optional
    return read_number(field, -(1 << 62), 1 << 62, number)


cdef inline bint _is_int32(int64_t number) noexcept:
    return INT32_MIN <= number <= INT32_MAX
