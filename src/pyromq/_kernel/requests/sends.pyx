"""Sends, from the received bytes to the bytes of the log and of the answers.

    plan      bytes that links received ──► records, one behind the other; answers; notes for queues and index

What is planned is written and applied as `plans` says.

Only plain sends are planned: to a queue that Python has made known with `learn`, of messages that wait
nowhere and are looked at by nobody. At a link's first frame that is anything else, `plan` leaves that link, and
Python goes on with it. `pyromq.broker.requests.handlers.send_handlers` is the same in Python.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp, memcpy

from pyromq._kernel.codec.answers cimport PART_FIRST, PART_OPAQUE, VALUES_MAX, AnswerHead, Value
from pyromq._kernel.codec.blocks cimport Block, copy, need
from pyromq._kernel.storage.drafts cimport NAME_END, PAIR_END, Draft, Pair, join, note_pairs, reads, sort
from pyromq._kernel.codec.frames cimport (
    READ, UNESCAPE_BEYOND, Frame, Span, find_field, letter_field, read_bool, read_frame, read_number, unescape
)
from pyromq._kernel.codec.inlets cimport Inlet
from pyromq._kernel.requests.signatures cimport Signatures
from pyromq._kernel.storage.known cimport KnownTopics, Topic
from pyromq._kernel.storage.notes cimport Entry
from pyromq._kernel.storage.plans cimport Mark, Plan
from pyromq._kernel.storage.tails cimport QueueTail

cdef enum:
    SEND_MESSAGE = 10
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320

    FLAG_RESPONSE = 1
    FLAG_ONEWAY = 2
    SYS_TRANSACTION = 12
    SYS_HOSTS_V6 = 48

    #: A plan of so many bytes of records is long enough: a turn has to end.
    PLAN_BYTES_MAX = 1048576
    #: A map of more has another order than one of 16 buckets.
    PAIRS_MAX = 12
    HOST_BYTES = 8
    INT32_MAX = 2147483647
    INT32_MIN = -2147483648
    ID_CHARACTERS = 32
    #: Of the producer's own id of a message, where the answer has it.
    UNIQUE_ID_MAX = 255

    # What varies in an answer, behind its opaque.
    VALUE_MESSAGE_ID = PART_FIRST
    VALUE_QUEUE_ID = PART_FIRST + 1
    VALUE_QUEUE_OFFSET = PART_FIRST + 2
    VALUE_TRANSACTION_ID = PART_FIRST + 3

cdef const char *HEX = b"0123456789ABCDEF"


cdef struct Asked:
    #: What the fields of a send say.
    Span *topic
    Span *properties
    int64_t queue_id, sys_flag, born_at_ms, flag, reconsume_times
    bint is_batch


cdef struct Planned:
    #: Of an inlet: its place among those of the plan, where its planned frames end, its answers, its sends.
    Py_ssize_t place, end, answers_from, answers_to, count


cdef class Sends(Plan):
    """Plans and applies sends. One for each broker."""

    cdef KnownTopics _topics
    #: With access control: what looks at each frame.
    cdef Signatures _signatures
    #: The inlets of the plan, and what was planned of them, until it is handed out.
    cdef list _inlets
    cdef Block _planned
    cdef Block _answers, _scratch
    cdef bytes _cluster, _host_hex
    #: The second is for clients from `_transaction_id_from` on, where the message has an id.
    cdef AnswerHead _head, _head_with_id
    cdef int _transaction_id_from
    #: The id of the message that is being planned; its length is 0 when its answer does not have it.
    cdef uint8_t _unique_id[UNIQUE_ID_MAX]
    cdef Py_ssize_t _unique_id_length
    cdef tuple _diverting
    #: A bit for each length that one of those has; all longer ones share the last.
    cdef uint64_t _diverting_lengths
    cdef bint _wait_matters
    cdef Py_ssize_t _body_bytes_max
    cdef readonly Py_ssize_t count

    def __cinit__(
        self,
        *,
        bytes store_host,
        bytes cluster not None,
        list answer_parts,
        list binary_parts,
        list answer_parts_with_id,
        list binary_parts_with_id,
        int transaction_id_from,
        tuple diverting not None,
        bint wait_matters,
        Py_ssize_t body_bytes_max,
        int language,
        int version,
        **_others,
    ):
        self._host_hex = store_host.hex().upper().encode()
        self._cluster = cluster
        self._diverting = diverting
        for name in diverting:
            self._diverting_lengths |= _length_bit(len(name))
        self._wait_matters = wait_matters
        self._body_bytes_max = body_bytes_max
        self._head = AnswerHead(
            parts=answer_parts, binary_parts=binary_parts, remark=b"", language=language, version=version
        )
        self._head_with_id = AnswerHead(
            parts=answer_parts_with_id,
            binary_parts=binary_parts_with_id,
            remark=b"",
            language=language,
            version=version,
        )
        self._transaction_id_from = transaction_id_from
        self._topics = KnownTopics()

    def __dealloc__(self):
        free(self._answers.bytes)
        free(self._scratch.bytes)
        free(self._planned.bytes)

    def guard(self, Signatures signatures):
        """Plan only what signatures let pass from now on; None: everything."""
        self._signatures = signatures

    # Topics

    def learn(self, bytes topic not None, Py_ssize_t queue_id, QueueTail queue not None, int32_t sys_flag):
        """Plan messages to a queue from now on, with these bits of the sysFlag set."""
        self.clear()
        self._topics.learn(topic, queue_id, queue, sys_flag)

    def forget(self, bytes topic not None):
        """Leave a topic's messages to Python."""
        self.clear()
        self._topics.forget(topic)

    def forget_all(self):
        """Leave all messages to Python, until their queues are learnt again."""
        self.clear()
        self._topics.forget_all()

    @property
    def topic_count(self):
        """The number of known topics."""
        return len(self._topics)

    # Planning

    def plan(
        self,
        list inlets not None,
        Py_ssize_t first,
        *,
        Py_ssize_t under_way_max,
        int64_t now_ms,
        int64_t log_end,
        int64_t log_room,
        int64_t index_room,
    ):
        """Plan the sends at the front of inlets, from number `first` on; return the first that is left.

        A plan that is long enough ends before the last inlet. `log_room` are the bytes that still go into the
        log's file, `index_room` the keys into the index's. Inlets stay as they are until `hand_out` or `take`.
        """
        cdef Py_ssize_t i
        cdef Inlet inlet
        self.clear()
        self._planned.used = self._answers.used = 0
        if first < 0:
            raise ValueError("there is no such inlet")
        self._inlets = inlets
        self.begin(now_ms, b"", log_end, log_room, index_room)
        for i in range(first, len(inlets)):
            inlet = inlets[i]
            if inlet.under_way_number() < under_way_max:
                self._plan_inlet(i, inlet)
            if self._records.used >= PLAN_BYTES_MAX:
                return i + 1
        return len(inlets)

    cdef int _plan_inlet(self, Py_ssize_t place, Inlet inlet) except -1:
        """Plan the sends at the front of one inlet; see `plan`."""
        cdef const uint8_t *begin
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef Frame frame
        cdef Planned *planned
        cdef Py_ssize_t answers_from = self._answers.used, answers_max = inlet.room(), count = 0
        if answers_max <= 0 or inlet.peer_host_bytes is None or PyBytes_GET_SIZE(inlet.peer_host_bytes) != HOST_BYTES:
            return 0
        self._born_host = inlet.peer_host_bytes
        # Nobody lets go of it while it is read.
        received = inlet.received
        inlet.look(&begin, &end)
        at = begin
        while at < end and self._answers.used - answers_from < answers_max:
            if read_frame(at, end, &frame) != READ:
                break
            if self._signatures is not None and not self._signatures.allows(&frame, inlet.peer_host_bytes):
                break
            if not self._plan_frame(&frame):
                break
            at = frame.end
            count += 1
        if count:
            need(&self._planned, sizeof(Planned))
            planned = <Planned *> (self._planned.bytes + self._planned.used)
            self._planned.used += sizeof(Planned)
            planned.place, planned.end, planned.count = place, inlet.start + (at - begin), count
            planned.answers_from, planned.answers_to = answers_from, self._answers.used
            self.count += count
        return 0

    # Handing out, when the log has the records

    def hand_out(self):
        """Go on behind the planned sends of all inlets, and let their answers leave."""
        cdef Py_ssize_t i
        cdef Inlet inlet
        cdef Planned *planned = <Planned *> self._planned.bytes
        for i in range(self._planned.used // <Py_ssize_t> sizeof(Planned)):
            inlet = self._inlet_at(planned[i].place)
            inlet.skip_to(planned[i].end)
            if planned[i].answers_to > planned[i].answers_from:
                inlet.send_frames(self._answers_of(&planned[i]))
        self._forget_inlets()

    def take(self):
        """Go on behind the planned sends of all inlets; return each with its answers and the number of sends."""
        cdef Py_ssize_t i
        cdef Inlet inlet
        cdef Planned *planned = <Planned *> self._planned.bytes
        cdef list taken = []
        for i in range(self._planned.used // <Py_ssize_t> sizeof(Planned)):
            inlet = self._inlet_at(planned[i].place)
            inlet.skip_to(planned[i].end)
            taken.append((inlet, self._answers_of(&planned[i]), planned[i].count))
        self._forget_inlets()
        return taken

    cdef Inlet _inlet_at(self, Py_ssize_t place):
        if place >= len(self._inlets):
            raise ValueError("inlets went away between plan and answers")
        return <Inlet> self._inlets[place]

    cdef bytes _answers_of(self, Planned *planned):
        """Return the frames of answers to an inlet; a oneway send has none."""
        return PyBytes_FromStringAndSize(
            <char *> self._answers.bytes + planned.answers_from, planned.answers_to - planned.answers_from
        )

    cdef int _forget_inlets(self) except -1:
        self._inlets = None
        self._planned.used = self._answers.used = 0
        return 0

    cdef bint _plan_frame(self, Frame *frame) except -1:
        """Plan one frame, or leave everything as it was and return False."""
        cdef Asked asked
        cdef PyObject *found
        cdef Topic topic
        cdef PyObject *queue
        cdef Draft draft
        cdef Mark mark = self.mark()
        cdef int64_t first_offset
        if not _read_fields(frame, &asked) or asked.sys_flag & (SYS_TRANSACTION | SYS_HOSTS_V6):
            return False
        found = self._topics.find(asked.topic)
        if found == NULL:
            return False
        topic = <Topic> found
        if not 0 <= asked.queue_id < topic.queue_count:
            return False
        queue = topic.queues[asked.queue_id]
        if queue == NULL or (<QueueTail> queue).gone:
            return False
        if frame.body_length > self._body_bytes_max:
            return False
        draft.queue_id = <int32_t> asked.queue_id
        draft.sys_flag = <int32_t> asked.sys_flag | topic.sys_flag
        draft.flag = <int32_t> asked.flag
        draft.reconsume_times = <int32_t> asked.reconsume_times
        draft.born_at_ms = asked.born_at_ms
        draft.prepared_position = 0
        first_offset = (<QueueTail> queue).end + (<QueueTail> queue).planned
        if not self._plan_messages(frame, asked.properties, asked.is_batch, &draft, topic, queue):
            self.undo(mark, queue, first_offset)
            return False
        if not frame.flag & FLAG_ONEWAY:
            self._answer(frame, draft.queue_id, first_offset, mark.entries)
        return True

    cdef bint _plan_messages(
        self, Frame *frame, Span *properties, bint is_batch, Draft *draft, Topic topic, PyObject *queue
    ) except -1:
        cdef Pair pairs[PAIRS_MAX]
        cdef int count = 0
        cdef uint8_t *text
        cdef Py_ssize_t length = 0
        # One piece holds what the field says, without escapes, and behind it what is stored.
        if properties != NULL:
            length = properties.length
        need(&self._scratch, 2 * length + len(self._cluster) + 64 + UNESCAPE_BEYOND)
        text = self._scratch.bytes
        if properties != NULL:
            if properties.is_escaped:
                length = unescape(properties, text)
                if length < 0:
                    return False
            else:
                memcpy(text, properties.at, length)
        count = self._split(text, length, pairs)
        if count < 0 or not self._note_unique_id(frame, pairs, count):
            return False
        draft.is_parted = draft.is_noted = False
        draft.more_properties.length = 0
        if not is_batch:
            note_pairs(draft, pairs, count)
            draft.body = frame.body
            draft.body_length = frame.body_length
            draft.properties.at = text + length
            draft.properties.length = join(pairs, count, text + length, False)
            return self.add(draft, topic, queue)
        draft.more_properties.at = text + length
        draft.more_properties.length = join(pairs, count, text + length, True)
        return self.add_units(frame.body, frame.body + frame.body_length, draft, topic, queue)

    cdef bint _note_unique_id(self, Frame *frame, Pair *pairs, int count) noexcept:
        """Keep the id for the answer, if this client gets it; return False when it is not plain."""
        cdef int i
        cdef Span *value
        self._unique_id_length = 0
        if frame.version < self._transaction_id_from:
            return True
        for i in range(count):
            if reads(&pairs[i].name, b"UNIQ_KEY", 8):
                value = &pairs[i].value
                if value.length > UNIQUE_ID_MAX or not _is_plain_text(value):
                    return False
                memcpy(self._unique_id, value.at, value.length)
                self._unique_id_length = value.length
        return True

    cdef int _split(self, const uint8_t *text, Py_ssize_t length, Pair *pairs) except -2:
        """Find the pairs, add the cluster's, and order them as Java's map does; -1 when they are not plain."""
        cdef const uint8_t *at = text
        cdef const uint8_t *end = text + length
        cdef const uint8_t *pair_end
        cdef const uint8_t *name_end
        cdef int count = 0
        cdef Pair *pair
        if length and memchr(text, 0, length) != NULL:
            return -1
        while at < end:
            pair_end = <const uint8_t *> memchr(at, PAIR_END, end - at)
            if pair_end == NULL:
                pair_end = end
            name_end = <const uint8_t *> memchr(at, NAME_END, pair_end - at)
            if name_end != NULL and name_end > at and name_end + 1 < pair_end:
                # The last place is the cluster's.
                if count + 1 >= PAIRS_MAX:
                    return -1
                pair = &pairs[count]
                pair.name.at = at
                pair.name.length = name_end - at
                pair.value.at = name_end + 1
                pair.value.length = pair_end - name_end - 1
                if not self._is_plain(pair, pairs, count):
                    return -1
                count += 1
            at = pair_end + 1
        pair = &pairs[count]
        pair.name.at = <const uint8_t *> b"CLUSTER"
        pair.name.length = 7
        pair.value.at = <const uint8_t *> PyBytes_AS_STRING(self._cluster)
        pair.value.length = PyBytes_GET_SIZE(self._cluster)
        count += 1
        sort(pairs, count)
        return count

    cdef bint _is_plain(self, Pair *pair, Pair *pairs, int count) except -1:
        cdef int i
        cdef bytes name
        if reads(&pair.name, b"CLUSTER", 7):
            return False
        if self._wait_matters and reads(&pair.name, b"WAIT", 4) and not reads(&pair.value, b"true", 4):
            return False
        for i in range(count):
            if reads(&pairs[i].name, <const char *> pair.name.at, pair.name.length):
                return False
        if self._diverting_lengths & _length_bit(pair.name.length) == 0:
            return True
        for name in self._diverting:
            if reads(&pair.name, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
                return False
        return True

    # Answering

    cdef int _answer(self, Frame *frame, int32_t queue_id, int64_t offset, Py_ssize_t entries_from) except -1:
        cdef Value values[VALUES_MAX]
        cdef Value *ids = &values[VALUE_MESSAGE_ID]
        cdef AnswerHead head = self._head_with_id if self._unique_id_length else self._head
        cdef uint8_t *start
        ids.length = (self._entries.used - entries_from) // <Py_ssize_t> sizeof(Entry) * (ID_CHARACTERS + 1) - 1
        # What was in it is planned by now.
        need(&self._scratch, ids.length)
        self._write_ids(self._scratch.bytes, entries_from)
        ids.text = self._scratch.bytes
        values[PART_OPAQUE].text = values[VALUE_QUEUE_ID].text = values[VALUE_QUEUE_OFFSET].text = NULL
        values[PART_OPAQUE].number = frame.opaque
        values[VALUE_QUEUE_ID].number = queue_id
        values[VALUE_QUEUE_OFFSET].number = offset
        values[VALUE_TRANSACTION_ID].text = self._unique_id
        values[VALUE_TRANSACTION_ID].length = self._unique_id_length
        need(&self._answers, head.bytes_max + ids.length + self._unique_id_length)
        start = self._answers.bytes + self._answers.used
        self._answers.used += head.write(start, frame, values, 0) - start
        return 0

    cdef void _write_ids(self, uint8_t *at, Py_ssize_t entries_from) noexcept:
        """Write the ids of messages from an entry on, with commas between them."""
        cdef Py_ssize_t i = entries_from
        cdef int shift
        cdef int64_t position
        while i < self._entries.used:
            if i > entries_from:
                at[0] = c','
                at += 1
            at = copy(at, PyBytes_AS_STRING(self._host_hex), 2 * HOST_BYTES)
            position = (<Entry *> (self._entries.bytes + i)).position
            for shift in range(60, -1, -4):
                at[0] = HEX[(position >> shift) & 15]
                at += 1
            i += sizeof(Entry)

    cdef int clear(self) except -1:
        # The answers stay until they are handed out: what was planned is applied before.
        Plan.clear(self)
        self.count = 0
        return 0

    def drop(self):
        """Forget what was planned, and its answers."""
        self.clear()
        self._forget_inlets()


cdef bint _is_plain_text(Span *text) noexcept nogil:
    """Whether JSON has the text as it is."""
    cdef Py_ssize_t i
    for i in range(text.length):
        if not 0x20 <= text.at[i] < 0x7F or text.at[i] == c'"' or text.at[i] == c'\\':
            return False
    return True


cdef inline uint64_t _length_bit(Py_ssize_t length) noexcept nogil:
    return <uint64_t> 1 << min(length, <Py_ssize_t> 63)


cdef bint _read_fields(Frame *frame, Asked *asked) noexcept nogil:
    """Read what a send asks for; return False when the frame is none, or has a field that is not usual."""
    cdef bint is_long = frame.code == SEND_MESSAGE, is_unit = False
    cdef int64_t ignored
    cdef Span *field
    if frame.code != SEND_MESSAGE_V2 and frame.code != SEND_BATCH_MESSAGE and not is_long:
        return False
    if frame.flag & FLAG_RESPONSE:
        return False
    # producer group, default topic, number of its queues: must be there, and matter only to new topics.
    field = _field(frame, is_long, b"producerGroup", 13, b"a")
    if field == NULL or field.is_escaped:
        return False
    field = _field(frame, is_long, b"defaultTopic", 12, b"c")
    if field == NULL or field.is_escaped:
        return False
    if not _number(_field(frame, is_long, b"defaultTopicQueueNums", 21, b"d"), False, &ignored):
        return False
    if not _number(_field(frame, is_long, b"queueId", 7, b"e"), False, &asked.queue_id):
        return False
    if not _number(_field(frame, is_long, b"sysFlag", 7, b"f"), False, &asked.sys_flag):
        return False
    field = _field(frame, is_long, b"bornTimestamp", 13, b"g")
    if field == NULL or not read_number(field, -(1 << 62), 1 << 62, &asked.born_at_ms):
        return False
    if not _number(_field(frame, is_long, b"flag", 4, b"h"), False, &asked.flag):
        return False
    if not _number(_field(frame, is_long, b"reconsumeTimes", 14, b"j"), True, &asked.reconsume_times):
        return False
    if not _number(_field(frame, is_long, b"maxReconsumeTimes", 17, b"l"), True, &ignored):
        return False
    field = _field(frame, is_long, b"unitMode", 8, b"k")
    if field != NULL and not read_bool(field, &is_unit):
        return False
    asked.is_batch = False
    field = _field(frame, is_long, b"batch", 5, b"m")
    if field != NULL and not read_bool(field, &asked.is_batch):
        return False
    field = _field(frame, is_long, b"bname", 5, b"n")
    if field != NULL and field.is_escaped:
        return False
    asked.topic = _field(frame, is_long, b"topic", 5, b"b")
    asked.properties = _field(frame, is_long, b"properties", 10, b"i")
    return asked.topic != NULL and not asked.topic.is_escaped


cdef inline Span *_field(
    Frame *frame, bint is_long, const char *name, Py_ssize_t length, const char *letter
) noexcept nogil:
    return find_field(frame, name, length) if is_long else letter_field(frame, letter[0])


cdef inline bint _number(Span *text, bint is_optional, int64_t *number) noexcept nogil:
    if text == NULL:
        number[0] = 0
        return is_optional
    return read_number(text, INT32_MIN, INT32_MAX, number)
