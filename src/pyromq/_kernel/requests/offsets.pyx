"""Progress of groups: commits and queries of offsets, from the received bytes to the bytes of the answers.

Only places that Python took a commit or a query for before are known: `learn` gives the offsets of a group in a
topic, which are the table's own, so a commit is there for whoever looks next. A first commit, one that goes
back, a group without progress: all that is left to Python. `pyromq.broker.requests.handlers.progress_handlers`
and `pyromq.broker.groups.offsets` are the same in Python.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free

from pyromq._kernel.codec.answers cimport PART_FIRST, PART_OPAQUE, VALUES_MAX, AnswerHead, Value
from pyromq._kernel.codec.blocks cimport Block, need
from pyromq._kernel.codec.frames cimport READ, Frame, Span, find_field, read_bool, read_frame, read_number
from pyromq._kernel.codec.inlets cimport Inlet
from pyromq._kernel.requests.place_keys cimport place_key
from pyromq._kernel.requests.signatures cimport Signatures
from pyromq._kernel.storage.progress cimport read_progress

cdef enum:
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    FLAG_RESPONSE = 1
    FLAG_ONEWAY = 2

    # What varies in the answer to a query, behind its opaque.
    VALUE_OFFSET = PART_FIRST


cdef class OffsetPlan:
    """One queue of a topic that a group reads."""

    cdef dict offsets
    cdef object queue_id
    #: What the table calls the group in the topic.
    cdef object name
    #: Whether commits are answered here, or queries only.
    cdef bint takes_commits


cdef class Offsets:
    """Answers commits and queries. One for each broker."""

    cdef dict _plans
    #: With access control: what looks at each frame.
    cdef Signatures _signatures
    cdef Block _answers
    cdef AnswerHead _committed, _found

    def __init__(
        self, *, list commit_parts, list commit_binary_parts, list query_parts, list query_binary_parts,
        int language, int version,
    ):
        self._plans = {}
        self._committed = AnswerHead(
            parts=commit_parts, binary_parts=commit_binary_parts, remark=b"", language=language, version=version
        )
        self._found = AnswerHead(
            parts=query_parts, binary_parts=query_binary_parts, remark=b"", language=language, version=version
        )

    def __cinit__(self):
        self._answers.bytes = NULL
        self._answers.used = self._answers.room = 0

    def __dealloc__(self):
        free(self._answers.bytes)

    def guard(self, Signatures signatures):
        """Answer only what signatures let pass from now on; None: everything."""
        self._signatures = signatures

    def learn(self, bytes key not None, dict offsets not None, queue_id, name, *, bint takes_commits):
        """Answer for this place from now on; `offsets` are the group's in the topic, by queue id.

        Whoever takes the offsets out of the table has this forgotten before anything is answered again.
        """
        cdef OffsetPlan plan = OffsetPlan()
        plan.offsets = offsets
        plan.queue_id = queue_id
        plan.name = name
        plan.takes_commits = takes_commits
        self._plans[key] = plan

    def forget_all(self):
        """Leave everything to Python, until it is learnt again."""
        self._plans = {}

    @property
    def plan_count(self):
        """The number of known places."""
        return len(self._plans)

    def answer(self, list inlets not None):
        """Answer the commits and queries at the front of inlets; return how many, and what changed.

        What changed is told as the names that were learnt.
        """
        cdef set changed = set()
        cdef Py_ssize_t count = 0
        cdef Inlet inlet
        for inlet in inlets:
            count += self._answer_inlet(inlet, changed)
        return count, changed

    cdef Py_ssize_t _answer_inlet(self, Inlet inlet, set changed) except -1:
        """Answer what is at the front of one inlet; see `answer`."""
        cdef const uint8_t *begin
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef Frame frame
        cdef Py_ssize_t answers_max = inlet.room(), count = 0
        # Nobody lets go of it while it is read.
        received = inlet.received
        inlet.look(&begin, &end)
        at = begin
        self._answers.used = 0
        while at < end and self._answers.used < answers_max:
            if read_frame(at, end, &frame) != READ or frame.flag & FLAG_RESPONSE or frame.body_length:
                break
            if self._signatures is not None and not self._signatures.allows(&frame, inlet.peer_host_bytes):
                break
            if frame.code == UPDATE_CONSUMER_OFFSET:
                if not self._commit(&frame, changed):
                    break
            elif frame.code != QUERY_CONSUMER_OFFSET or not self._query(&frame):
                break
            at = frame.end
            count += 1
        if count:
            inlet.skip_to(inlet.start + (at - begin))
        # A oneway commit has no answer.
        if self._answers.used:
            inlet.send_frames(PyBytes_FromStringAndSize(<char *> self._answers.bytes, self._answers.used))
        return count

    cdef bint _commit(self, Frame *frame, set changed) except -1:
        """Set an offset and write the answer; return whether that was possible here."""
        cdef int64_t offset = 0, before = 0
        cdef Span *field = find_field(frame, b"commitOffset", 12)
        cdef OffsetPlan plan
        if field == NULL or not read_number(field, -(1 << 62), 1 << 62, &offset):
            return False
        plan = self._plan_of(frame)
        if plan is None or not plan.takes_commits or not read_progress(plan.offsets, plan.queue_id, &before) or offset < before:
            return False
        if offset != before:
            plan.offsets[plan.queue_id] = offset
            changed.add(plan.name)
        if not frame.flag & FLAG_ONEWAY:
            self._write(self._committed, frame, 0)
        return True

    cdef bint _query(self, Frame *frame) except -1:
        """Write an offset as the answer; return whether that was possible here."""
        cdef int64_t offset = 0
        cdef bint ignored = False
        cdef Span *field = find_field(frame, b"setZeroIfNotFound", 17)
        cdef OffsetPlan plan
        if frame.flag & FLAG_ONEWAY or (field != NULL and not read_bool(field, &ignored)):
            return False
        plan = self._plan_of(frame)
        if plan is None or not read_progress(plan.offsets, plan.queue_id, &offset) or offset < 0:
            return False
        self._write(self._found, frame, offset)
        return True

    cdef OffsetPlan _plan_of(self, Frame *frame):
        cdef bytes key = place_key(frame)
        return None if key is None else <OffsetPlan> self._plans.get(key)

    cdef int _write(self, AnswerHead head, Frame *frame, int64_t offset) except -1:
        cdef Value values[VALUES_MAX]
        cdef uint8_t *at
        cdef int i
        need(&self._answers, head.bytes_max)
        for i in range(VALUES_MAX):
            values[i].text = NULL
            values[i].length = values[i].number = 0
        values[PART_OPAQUE].number = frame.opaque
        values[VALUE_OFFSET].number = offset
        at = head.write(self._answers.bytes + self._answers.used, frame, values, 0)
        self._answers.used = at - self._answers.bytes
        return 0
