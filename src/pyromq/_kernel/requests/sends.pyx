"""Sends, from the received bytes to the bytes of the log and of the answers.

    plan      bytes that links received ──► records, one behind the other; answers; notes for queues and index

What is planned is written and applied as `plans` says.

Requests of other kinds that store something are planned with the sends (`take_in`), in the order of the frames.

Only plain sends are planned: to a queue that Python has made known with `learn`, or to a topic made known with
`learn_topic` of messages that wait elsewhere first, by a diversion that Python has taught. At a link's first
frame that is anything else, `plan` leaves that link, and Python goes on with it.
`pyromq.broker.requests.handlers.send_handlers` is the same in Python.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcpy

from pyromq._kernel.codec.answers cimport PART_FIRST, PART_OPAQUE, VALUES_MAX, AnswerHead, Value
from pyromq._kernel.codec.blocks cimport Block, copy, need
from pyromq._kernel.storage.drafts cimport Draft, note_pairs
from pyromq._kernel.codec.frames cimport READ, UNESCAPE_BEYOND, Frame, Span, first_code, read_frame, unescape
from pyromq._kernel.codec.inlets cimport Inlet, Withheld
from pyromq._kernel.requests.again_frames cimport AgainFrames
from pyromq._kernel.requests.send_fields cimport Asked, is_send, read_send
from pyromq._kernel.requests.signatures cimport Signatures
from pyromq._kernel.storage.diversions cimport MORE_BYTES_MAX, Diversion, Waiting
from pyromq._kernel.storage.known cimport KnownTopics, Topic
from pyromq._kernel.storage.notes cimport Entry
from pyromq._kernel.storage.pairs cimport Pair, count_of, join, put_in_order, put_pair, reads, split
from pyromq._kernel.storage.plans cimport Mark, Plan
from pyromq._kernel.storage.tails cimport QueueTail

cdef enum:
    FLAG_ONEWAY = 2
    SYS_TRANSACTION = 12
    SYS_HOSTS_V6 = 48

    #: A plan of so many bytes of records is long enough: a turn has to end.
    PLAN_BYTES_MAX = 1048576
    TOPIC_BYTES_MAX = 127
    HOST_BYTES = 8
    ID_CHARACTERS = 32
    #: Of the producer's own id of a message, where the answer has it.
    UNIQUE_ID_MAX = 255

    # What varies in an answer, behind its opaque.
    VALUE_MESSAGE_ID = PART_FIRST
    VALUE_QUEUE_ID = PART_FIRST + 1
    VALUE_QUEUE_OFFSET = PART_FIRST + 2
    #: The id of the message, and the handle that takes it back, if the answer has them.
    VALUE_MORE = PART_FIRST + 3
    HAS_ID = 1
    HAS_HANDLE = 2

cdef const char *HEX = b"0123456789ABCDEF"


cdef struct Planned:
    #: Of an inlet: its place among those of the plan, where its planned frames end, its answers, its sends.
    Py_ssize_t place, end, answers_from, answers_to, count


cdef class Sends(Plan):
    """Plans and applies sends. One for each broker."""

    cdef KnownTopics _topics
    #: With access control: what looks at each frame.
    cdef Signatures _signatures
    #: Of type AgainFrames: what plans the requests that are no sends.
    cdef list _others
    #: The inlets of the plan, and what was planned of them, until it is handed out.
    cdef list _inlets
    cdef Block _planned
    cdef Block _answers, _scratch
    cdef bytes _cluster, _host_hex
    #: By the bits of what the answer has: an id, for clients from `_transaction_id_from` on, and a handle.
    cdef list _heads
    cdef int _transaction_id_from
    #: The pairs of the message that is being planned, and the diversion that one of them asks for.
    cdef Block _pairs
    cdef Diversion _diversion
    cdef Py_ssize_t _asking
    #: The handle that takes the message back; empty when its answer does not have one.
    cdef Block _handle
    #: The id of the message that is being planned; its length is 0 when its answer does not have it.
    cdef uint8_t _unique_id[UNIQUE_ID_MAX]
    cdef Py_ssize_t _unique_id_length
    cdef tuple _diverting
    #: Those that were taught, by name.
    cdef dict _diversions
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
        list answers not None,
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
        self._heads = [
            AnswerHead(parts=json, binary_parts=binary, remark=b"", language=language, version=version)
            for json, binary in answers
        ]
        if len(self._heads) != HAS_ID + HAS_HANDLE + 1:
            raise ValueError("there are four answers")
        self._diversions = {}
        self._transaction_id_from = transaction_id_from
        self._topics = KnownTopics()
        self._others = []

    def __dealloc__(self):
        free(self._answers.bytes)
        free(self._scratch.bytes)
        free(self._planned.bytes)
        free(self._pairs.bytes)
        free(self._handle.bytes)

    def guard(self, Signatures signatures):
        """Plan only what signatures let pass from now on; None: everything."""
        self._signatures = signatures

    def take_in(self, AgainFrames others not None):
        """Plan requests of another kind too."""
        self._others.append(others)

    # Topics

    def learn(self, bytes topic not None, Py_ssize_t queue_id, QueueTail queue not None, int32_t sys_flag):
        """Plan messages to a queue from now on, with these bits of the sysFlag set."""
        self.clear()
        self._topics.learn(topic, queue_id, queue, sys_flag)

    def learn_topic(self, bytes topic not None, int32_t sys_flag, Py_ssize_t queue_count):
        """Plan messages of a topic that wait elsewhere first, from now on; it has so many queues."""
        self.clear()
        self._topics.know(topic, sys_flag).queue_limit = queue_count

    def divert(self, Diversion diversion not None):
        """Plan messages that ask for a diversion from now on."""
        self.clear()
        if diversion.name not in self._diverting:
            raise ValueError(f"{diversion.name!r} diverts nothing")
        self._diversions[diversion.name] = diversion

    def forget(self, bytes topic not None):
        """Leave a topic's messages to Python."""
        self.clear()
        self._topics.forget(topic)

    def forget_all(self):
        """Leave all messages to Python, until their queues are learnt again."""
        cdef AgainFrames other
        self.clear()
        self._topics.forget_all()
        self._diversions.clear()
        for other in self._others:
            other.forget_all()

    @property
    def topic_count(self):
        """The number of known topics."""
        return len(self._topics)

    # Planning

    def plan(
        self,
        list inlets not None,
        Py_ssize_t first,
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
        cdef Py_ssize_t i = first
        cdef Inlet inlet
        cdef AgainFrames other
        self.clear()
        self._planned.used = self._answers.used = 0
        if first < 0:
            raise ValueError("there is no such inlet")
        self._inlets = inlets
        self.begin(now_ms, b"", log_end, log_room, index_room)
        for other in self._others:
            other.begin_plan()
        while i < len(inlets) and self._records.used < PLAN_BYTES_MAX:
            inlet = inlets[i]
            if inlet.under_way_number() < under_way_max:
                self._plan_inlet(i, inlet)
            i += 1
        for other in self._others:
            other.end_plan()
        if self._signatures is not None:
            self._signatures.release()
        return i

    def may_plan(self, list inlets not None):
        """Return whether `plan` may find something in one of these inlets: not if all have other requests first."""
        cdef Inlet inlet
        cdef const uint8_t *at
        cdef const uint8_t *end
        for inlet in inlets:
            inlet.look(&at, &end)
            if at < end and self._may_plan(first_code(at, end)):
                return True
        return False

    cdef bint _may_plan(self, int32_t code) except -1:
        """Return whether a frame may be planned whose code is this; -1: it is not known yet."""
        return code < 0 or is_send(code) or self._other(code) is not None

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
            if not self._may_plan(first_code(at, end)) or read_frame(at, end, &frame) != READ:
                break
            if self._signatures is not None and not inlet.is_admitted:
                if not self._signatures.allows(&frame, inlet.peer_host_bytes):
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

    def withhold(self):
        """Go on behind the planned sends of all inlets; return their answers, which wait to be safe."""
        cdef Py_ssize_t i
        cdef Inlet inlet
        cdef Planned *planned = <Planned *> self._planned.bytes
        cdef Withheld withheld = Withheld()
        for i in range(self._planned.used // <Py_ssize_t> sizeof(Planned)):
            inlet = self._inlet_at(planned[i].place)
            inlet.skip_to(planned[i].end)
            withheld.keep(inlet, self._answers_of(&planned[i]), planned[i].count)
        self._forget_inlets()
        return withheld

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

    cdef AgainFrames _other(self, int code):
        """Return what plans the requests of a code that are no sends, None for all that is left."""
        cdef AgainFrames other
        for other in self._others:
            if other.code == code:
                return other
        return None

    cdef bint _plan_other(self, Frame *frame, AgainFrames other) except -1:
        """Plan one request that is no send; see `_plan_frame`."""
        cdef Value values[VALUES_MAX]
        cdef uint8_t *start
        if not other.plan_frame(self, frame):
            return False
        if not frame.flag & FLAG_ONEWAY:
            values[PART_OPAQUE].text = NULL
            values[PART_OPAQUE].number = frame.opaque
            need(&self._answers, other.head.bytes_max)
            start = self._answers.bytes + self._answers.used
            self._answers.used += other.head.write(start, frame, values, 0) - start
        return True

    cdef bint _plan_frame(self, Frame *frame) except -1:
        """Plan one frame, or leave everything as it was and return False."""
        cdef AgainFrames other = None if is_send(frame.code) else self._other(frame.code)
        return self._plan_send(frame) if other is None else self._plan_other(frame, other)

    cdef bint _plan_send(self, Frame *frame) except -1:
        cdef Asked asked
        cdef PyObject *found
        cdef Topic topic
        cdef Waiting going
        cdef Draft draft
        cdef Py_ssize_t length
        cdef Mark mark = self.mark()
        cdef int64_t first_offset
        if not read_send(frame, &asked) or asked.sys_flag & SYS_HOSTS_V6:
            return False
        found = self._topics.find(asked.topic)
        if found == NULL or frame.body_length > self._body_bytes_max:
            return False
        topic = <Topic> found
        length = self._split(asked.properties)
        if length < 0:
            return False
        draft.sys_flag = <int32_t> asked.sys_flag | topic.sys_flag
        if self._diversion is None:
            going.queue_id = <int32_t> asked.queue_id
            going.queue = topic.queue_of(asked.queue_id)
            going.due_ms = 0
        elif self._divert(&asked, topic, &going):
            draft.sys_flag &= ~self._diversion.cleared
            topic = self._diversion.topic
        else:
            return False
        if going.queue == NULL or draft.sys_flag & SYS_TRANSACTION or not put_in_order(&self._pairs):
            return False
        if not self._note_unique_id(frame, asked.topic, &going):
            return False
        draft.queue_id = going.queue_id
        draft.flag = <int32_t> asked.flag
        draft.reconsume_times = <int32_t> asked.reconsume_times
        draft.born_at_ms = asked.born_at_ms
        draft.prepared_position = 0
        first_offset = (<QueueTail> going.queue).end + (<QueueTail> going.queue).planned
        if not self._plan_messages(frame, asked.is_batch, length, &draft, topic, &going):
            self.undo(mark, going.queue, first_offset)
            return False
        if not frame.flag & FLAG_ONEWAY:
            self._answer(frame, asked.queue_id, first_offset, mark.entries)
        return True

    cdef bint _plan_messages(
        self, Frame *frame, bint is_batch, Py_ssize_t length, Draft *draft, Topic topic, Waiting *going
    ) except -1:
        """Plan what a frame has; its properties are read, and fill `length` bytes."""
        cdef uint8_t *stored = self._scratch.bytes + length
        draft.is_parted = draft.is_noted = False
        draft.more_properties.length = 0
        if not is_batch:
            note_pairs(draft, &self._pairs)
            draft.wanted.due_ms = going.due_ms
            draft.body = frame.body
            draft.body_length = frame.body_length
            draft.properties.at = stored
            draft.properties.length = join(&self._pairs, stored, self._diversion is not None)
            return self.add(draft, topic, going.queue)
        draft.more_properties.at = stored
        draft.more_properties.length = join(&self._pairs, stored, True)
        return self.add_units(frame.body, frame.body + frame.body_length, draft, topic, going.queue)

    cdef Py_ssize_t _split(self, Span *properties) except -2:
        """Find the pairs and add the cluster's; return the length of their text, -1 when they are not plain."""
        cdef Py_ssize_t length = 0, i
        cdef uint8_t *text
        self._pairs.used = 0
        self._diversion = None
        if properties != NULL:
            length = properties.length
        # One piece holds what the field says, without escapes, and behind it what is stored.
        need(&self._scratch, 2 * length + len(self._cluster) + TOPIC_BYTES_MAX + MORE_BYTES_MAX + UNESCAPE_BEYOND)
        text = self._scratch.bytes
        if properties != NULL:
            if properties.is_escaped:
                length = unescape(properties, text)
                if length < 0:
                    return -1
            else:
                memcpy(text, properties.at, length)
        if length and memchr(text, 0, length) != NULL:
            return -1
        split(text, text + length, &self._pairs)
        for i in range(count_of(&self._pairs)):
            if not self._is_plain(i):
                return -1
        put_pair(
            &self._pairs, <const uint8_t *> b"CLUSTER", 7,
            <const uint8_t *> PyBytes_AS_STRING(self._cluster), PyBytes_GET_SIZE(self._cluster),
        )
        return length

    cdef bint _is_plain(self, Py_ssize_t i) except -1:
        """Look at a pair: whether it asks for what only Python does; note when it asks for a diversion."""
        cdef Pair *pair = <Pair *> self._pairs.bytes + i
        cdef Py_ssize_t k
        cdef bytes name
        if self._wait_matters and reads(&pair.name, b"WAIT", 4) and not reads(&pair.value, b"true", 4):
            return False
        if self._diverting_lengths & _length_bit(pair.name.length) == 0:
            return True
        for k in range(PyTuple_GET_SIZE(self._diverting)):
            name = self._diverting[k]
            if reads(&pair.name, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
                # Who asks for two kinds of waiting asks Python.
                if self._diversion is not None:
                    return False
                self._diversion = self._diversions.get(name)
                self._asking = i
                return self._diversion is not None
        return True

    cdef bint _divert(self, Asked *asked, Topic topic, Waiting *going) except -1:
        """Send a message where it waits first; return False when that is not plain."""
        cdef Pair *pairs = <Pair *> self._pairs.bytes
        if asked.is_batch or not 0 <= asked.queue_id < topic.queue_limit:
            return False
        return self._diversion.read(&pairs[self._asking].value, self._now_ms, going) and self._diversion.note(
            &self._pairs, asked.topic, asked.queue_id, going
        )

    cdef bint _note_unique_id(self, Frame *frame, Span *topic, Waiting *going) except -1:
        """Keep the id for the answer, and the handle that is made of it; return False when it is not plain."""
        cdef Pair *pairs = <Pair *> self._pairs.bytes
        cdef Py_ssize_t i
        cdef Span *value
        cdef bint is_told = frame.version >= self._transaction_id_from
        cdef bint is_recallable = self._diversion is not None and self._diversion.recalled_by is not None
        self._unique_id_length = self._handle.used = 0
        if not is_told and not is_recallable:
            return True
        for i in range(count_of(&self._pairs)):
            if reads(&pairs[i].name, b"UNIQ_KEY", 8):
                value = &pairs[i].value
                if is_recallable:
                    self._handle.used = self._diversion.write_handle(&self._handle, topic, going, value)
                if not is_told:
                    continue
                if value.length > UNIQUE_ID_MAX or not _is_plain_text(value):
                    return False
                memcpy(self._unique_id, value.at, value.length)
                self._unique_id_length = value.length
        return True

    # Answering

    cdef int _answer(self, Frame *frame, int64_t queue_id, int64_t offset, Py_ssize_t entries_from) except -1:
        cdef Value values[VALUES_MAX]
        cdef Value *ids = &values[VALUE_MESSAGE_ID]
        cdef int more = VALUE_MORE, parts = 0
        cdef AnswerHead head
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
        if self._unique_id_length:
            values[more].text, values[more].length = self._unique_id, self._unique_id_length
            parts, more = HAS_ID, more + 1
        if self._handle.used:
            values[more].text, values[more].length = self._handle.bytes, self._handle.used
            parts |= HAS_HANDLE
        head = self._heads[parts]
        need(&self._answers, head.bytes_max + ids.length + self._unique_id_length + self._handle.used)
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
        cdef AgainFrames other
        self.clear()
        self._forget_inlets()
        for other in self._others:
            other.drop_plan()


cdef bint _is_plain_text(Span *text) noexcept nogil:
    """Whether JSON has the text as it is."""
    cdef Py_ssize_t i
    for i in range(text.length):
        if not 0x20 <= text.at[i] < 0x7F or text.at[i] == c'"' or text.at[i] == c'\\':
            return False
    return True


cdef inline uint64_t _length_bit(Py_ssize_t length) noexcept nogil:
    return <uint64_t> 1 << min(length, <Py_ssize_t> 63)
