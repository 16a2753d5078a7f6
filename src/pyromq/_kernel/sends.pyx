"""Sends, from the received bytes to the bytes of the log and of the answers.

    plan      received bytes ──► records, one behind the other; answers; what the followers are to know
    (Python writes the records to the log, with one write)
    apply     what the followers are to know ──► queues, key index

Nothing is changed before the log has the records: until `apply`, a plan can be dropped and taken again.

Only plain sends are planned: to a queue that Python has made known with `learn`, of messages that wait
nowhere and are looked at by nobody. At the first frame that is anything else, `plan` stops and Python goes on
with it. `pyromq.broker.handlers.send` and `pyromq.store.store` are the same in Python and say why each byte is
where it is.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcmp, memcpy

from pyromq._kernel.bigend cimport java_hash, load16, load32, store16, store32, store64, write_decimal
from pyromq._kernel.crc32 cimport pyromq_crc32
from pyromq._kernel.frames cimport (
    READ, Frame, Span, find_field, letter_field, read_bool, read_frame, read_number, unescape
)
from pyromq._kernel.tails cimport IndexTail, QueueTail

cdef enum:
    SEND_MESSAGE = 10
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320

    FLAG_RESPONSE = 1
    FLAG_ONEWAY = 2
    SYS_TRANSACTION = 12
    SYS_HOSTS_V6 = 48

    NAME_END = 1
    PAIR_END = 2

    #: A map of more has another order than one of 16 buckets.
    PAIRS_MAX = 12
    BUCKETS = 16
    MAGIC_V1 = -626843481
    HEAD_BYTES = 88
    HOST_BYTES = 8
    UNIT_BYTES_MIN = 22
    TOPIC_BYTES_MAX = 127
    TOPIC_BATCH_MAX = 127
    PROPERTIES_BYTES_MAX = 32767
    INT32_MAX = 2147483647
    INT32_MIN = -2147483648
    #: Room for a header with the longest numbers, a message id left out.
    ANSWER_ROOM = 128
    ID_CHARACTERS = 32
    QUEUE_COUNT_MAX = 65536

    # The varying parts of an answer.
    PART_NONE = 0
    PART_OPAQUE = 1
    PART_MESSAGE_ID = 2
    PART_QUEUE_ID = 3
    PART_QUEUE_OFFSET = 4

cdef const char *HEX = b"0123456789ABCDEF"


cdef struct Block:
    uint8_t *bytes
    Py_ssize_t used
    Py_ssize_t room


cdef struct Pair:
    Span name
    Span value
    int bucket


cdef struct Entry:
    PyObject *queue
    int64_t position
    int64_t tags_code
    int32_t size
    int32_t hash_count


cdef struct Draft:
    int32_t queue_id, flag, sys_flag, reconsume_times
    int64_t born_at_ms, prepared_position
    const uint8_t *body
    Py_ssize_t body_length
    #: The properties as they are stored: one or two pieces, and what stands between them.
    Span properties
    Span more_properties
    bint is_parted
    #: What the followers want of the properties, as far as it is known before they are written.
    Span tags
    Span identity
    Span keys
    bint is_noted


cdef struct Part:
    int kind
    Py_ssize_t start
    Py_ssize_t length


cdef class Topic:
    """A topic whose queues plain messages go to."""

    cdef bytes name
    cdef uint32_t key_head
    cdef int32_t sys_flag
    cdef dict kept
    cdef PyObject **queues
    cdef Py_ssize_t queue_count

    def __cinit__(self, bytes name, int32_t sys_flag):
        self.name = name
        self.sys_flag = sys_flag
        self.key_head = java_hash(0, <const uint8_t *> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        self.key_head = java_hash(self.key_head, <const uint8_t *> b"#", 1)
        self.kept = {}

    def __dealloc__(self):
        free(self.queues)

    cdef int learn(self, Py_ssize_t queue_id, QueueTail queue) except -1:
        cdef PyObject **queues
        cdef Py_ssize_t i
        if queue_id >= self.queue_count:
            queues = <PyObject **> realloc(self.queues, (queue_id + 1) * sizeof(PyObject *))
            if queues == NULL:
                raise MemoryError
            self.queues = queues
            for i in range(self.queue_count, queue_id + 1):
                queues[i] = NULL
            self.queue_count = queue_id + 1
        self.kept[queue_id] = queue
        self.queues[queue_id] = <PyObject *> queue
        return 0


cdef class Sends:
    """Plans and applies sends. One for each broker; nothing of a plan outlives the next."""

    #: Where the topics are: an open-addressing table by Java's hash of the name.
    cdef PyObject **_topics
    cdef Py_ssize_t _topics_size
    cdef dict _kept
    #: The queue of planned units: their entries only borrow it.
    cdef QueueTail _kept_queue
    cdef Block _records, _answers, _scratch, _entries, _hashes
    cdef bytes _store_host, _cluster, _host_hex, _template, _binary_fields
    cdef Part _parts[16]
    cdef Part _binary_parts[16]
    cdef int _part_count, _binary_part_count
    cdef tuple _diverting
    cdef bint _wait_matters, _has_index
    cdef Py_ssize_t _body_bytes_max
    cdef int64_t _end, _now_ms
    cdef readonly Py_ssize_t count
    cdef int _language, _version

    def __cinit__(
        self,
        *,
        bytes store_host,
        bytes cluster,
        list answer_parts,
        list binary_parts,
        tuple diverting,
        bint wait_matters,
        bint has_index,
        Py_ssize_t body_bytes_max,
        int language,
        int version,
    ):
        if len(store_host) != HOST_BYTES:
            raise ValueError("the store's host is not an IPv4 one")
        self._store_host = store_host
        self._host_hex = store_host.hex().upper().encode()
        self._cluster = cluster
        self._diverting = diverting
        self._wait_matters = wait_matters
        self._has_index = has_index
        self._body_bytes_max = body_bytes_max
        self._language = language
        self._version = version
        self._template = b"".join([literal for literal, _ in answer_parts])
        self._binary_fields = b"".join([literal for literal, _ in binary_parts])
        self._part_count = _set_parts(self._parts, answer_parts)
        self._binary_part_count = _set_parts(self._binary_parts, binary_parts)
        self._kept = {}
        self._topics_size = 64
        self._topics = <PyObject **> calloc(self._topics_size, sizeof(PyObject *))
        if self._topics == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._topics)
        free(self._records.bytes)
        free(self._answers.bytes)
        free(self._scratch.bytes)
        free(self._entries.bytes)
        free(self._hashes.bytes)

    # Topics

    def learn(self, bytes topic, Py_ssize_t queue_id, QueueTail queue, int32_t sys_flag):
        """Plan messages to a queue from now on, with these bits of the sysFlag set."""
        cdef Topic known
        self.drop()
        if not 0 < len(topic) <= TOPIC_BYTES_MAX or not topic.isascii() or not 0 <= queue_id < QUEUE_COUNT_MAX:
            raise ValueError(f"queue {queue_id} of {topic!r}")
        known = self._kept.get(topic)
        if known is None or known.sys_flag != sys_flag:
            self.forget(topic)
            known = Topic(topic, sys_flag)
            self._kept[topic] = known
            if 2 * len(self._kept) > self._topics_size:
                self._topics_size *= 4
                self._rebuild()
            else:
                self._enter(known)
        known.learn(queue_id, queue)

    def forget(self, bytes topic):
        """Leave a topic's messages to Python."""
        self.drop()
        if self._kept.pop(topic, None) is not None:
            self._rebuild()

    def forget_all(self):
        """Leave all messages to Python, until their queues are learnt again."""
        self.drop()
        if self._kept:
            self._kept = {}
            self._rebuild()

    @property
    def topic_count(self):
        """How many topics are known."""
        return len(self._kept)

    cdef int _rebuild(self) except -1:
        cdef PyObject **table = <PyObject **> calloc(self._topics_size, sizeof(PyObject *))
        if table == NULL:
            raise MemoryError
        free(self._topics)
        self._topics = table
        for topic in self._kept.values():
            self._enter(<Topic> topic)
        return 0

    cdef void _enter(self, Topic topic) noexcept:
        cdef Py_ssize_t i = topic.key_head & <uint32_t> (self._topics_size - 1)
        while self._topics[i] != NULL:
            i = (i + 1) & (self._topics_size - 1)
        self._topics[i] = <PyObject *> topic

    cdef PyObject *_find(self, Span *name) noexcept:
        cdef uint32_t hashed = java_hash(java_hash(0, name.at, name.length), <const uint8_t *> b"#", 1)
        cdef Py_ssize_t i = hashed & <uint32_t> (self._topics_size - 1)
        cdef PyObject *topic
        while True:
            topic = self._topics[i]
            if topic == NULL:
                return NULL
            if (
                (<Topic> topic).key_head == hashed
                and PyBytes_GET_SIZE((<Topic> topic).name) == name.length
                and memcmp(PyBytes_AS_STRING((<Topic> topic).name), name.at, name.length) == 0
            ):
                return topic
            i = (i + 1) & (self._topics_size - 1)

    # Planning

    def plan(
        self,
        received,
        Py_ssize_t start,
        *,
        int64_t now_ms,
        bytes born_host,
        int64_t log_end,
        int64_t log_room,
        int64_t index_room,
        Py_ssize_t answer_bytes_max,
    ):
        """Plan the sends that begin at byte `start` and return the byte behind the last one planned.

        `log_room` are the bytes that still go into the log's file, `index_room` the keys into the index's.
        """
        cdef const uint8_t *bytes_start
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef Frame frame
        self.drop()
        if isinstance(received, bytes):
            bytes_start = <const uint8_t *> PyBytes_AS_STRING(received)
            end = bytes_start + PyBytes_GET_SIZE(received)
        elif isinstance(received, bytearray):
            bytes_start = <const uint8_t *> PyByteArray_AS_STRING(received)
            end = bytes_start + PyByteArray_GET_SIZE(received)
        else:
            raise TypeError("received must be bytes or a bytearray")
        if start < 0 or PyBytes_GET_SIZE(born_host) != HOST_BYTES:
            return start
        at = bytes_start + start
        self._end = log_end
        self._now_ms = now_ms
        while at < end and self._answers.used < answer_bytes_max:
            if read_frame(at, end, &frame) != READ:
                break
            if not self._plan_frame(&frame, born_host, log_end + log_room, index_room):
                break
            at = frame.end
            self.count += 1
        return at - bytes_start

    def plan_units(
        self,
        bytes units,
        Py_ssize_t start,
        *,
        bytes topic,
        Py_ssize_t queue_id,
        QueueTail queue,
        int32_t sys_flag,
        int64_t born_at_ms,
        bytes born_host,
        int64_t prepared_position,
        bytes more_properties,
        int64_t now_ms,
        int64_t log_end,
        int64_t log_room,
        int64_t index_room,
    ):
        """Plan the messages of a batch's body from byte `start` on, all or none; return how many.

        They go to a queue that need not be learnt, with `more_properties` behind their own. 0 leaves them to
        Python.
        """
        cdef Draft draft
        cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(units)
        cdef bint is_hosted = PyBytes_GET_SIZE(born_host) == HOST_BYTES
        self.drop()
        if not 0 < len(topic) <= TOPIC_BYTES_MAX or not 0 <= queue_id <= INT32_MAX or queue.gone or not is_hosted:
            return 0
        if not 0 <= start < PyBytes_GET_SIZE(units) or sys_flag & (SYS_TRANSACTION | SYS_HOSTS_V6):
            return 0
        self._end = log_end
        self._now_ms = now_ms
        draft.queue_id = <int32_t> queue_id
        draft.sys_flag = sys_flag
        draft.reconsume_times = 0
        draft.born_at_ms = born_at_ms
        draft.prepared_position = prepared_position
        draft.is_noted = False
        draft.more_properties.at = <const uint8_t *> PyBytes_AS_STRING(more_properties)
        draft.more_properties.length = PyBytes_GET_SIZE(more_properties)
        if not self._plan_units(
            at + start, at + PyBytes_GET_SIZE(units), &draft, Topic(topic, sys_flag), <PyObject *> queue, born_host,
            log_end + log_room, index_room,
        ):
            self.drop()
            return 0
        self._kept_queue = queue
        return self.message_count

    cdef bint _plan_frame(self, Frame *frame, bytes born_host, int64_t log_limit, int64_t index_room) except -1:
        """Plan one frame, or leave everything as it was and return False."""
        cdef int64_t numbers[5]
        cdef bint is_batch = False, is_unit = False
        cdef PyObject *found
        cdef Topic topic
        cdef PyObject *queue
        cdef Draft draft
        cdef Span *field
        cdef Py_ssize_t records_used = self._records.used, entries_used = self._entries.used
        cdef Py_ssize_t hashes_used = self._hashes.used
        cdef int64_t first_offset
        cdef bint is_long = frame.code == SEND_MESSAGE
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
        if not _number(_field(frame, is_long, b"defaultTopicQueueNums", 21, b"d"), False, &numbers[0]):
            return False
        if not _number(_field(frame, is_long, b"queueId", 7, b"e"), False, &numbers[0]):
            return False
        if not _number(_field(frame, is_long, b"sysFlag", 7, b"f"), False, &numbers[1]):
            return False
        field = _field(frame, is_long, b"bornTimestamp", 13, b"g")
        if field == NULL or not read_number(field, -(1 << 62), 1 << 62, &draft.born_at_ms):
            return False
        if not _number(_field(frame, is_long, b"flag", 4, b"h"), False, &numbers[2]):
            return False
        if not _number(_field(frame, is_long, b"reconsumeTimes", 14, b"j"), True, &numbers[3]):
            return False
        if not _number(_field(frame, is_long, b"maxReconsumeTimes", 17, b"l"), True, &numbers[4]):
            return False
        field = _field(frame, is_long, b"unitMode", 8, b"k")
        if field != NULL and not read_bool(field, &is_unit):
            return False
        field = _field(frame, is_long, b"batch", 5, b"m")
        if field != NULL and not read_bool(field, &is_batch):
            return False
        field = _field(frame, is_long, b"bname", 5, b"n")
        if field != NULL and field.is_escaped:
            return False
        field = _field(frame, is_long, b"topic", 5, b"b")
        if field == NULL or field.is_escaped:
            return False
        if numbers[1] & (SYS_TRANSACTION | SYS_HOSTS_V6):
            return False
        found = self._find(field)
        if found == NULL:
            return False
        topic = <Topic> found
        if not 0 <= numbers[0] < topic.queue_count:
            return False
        queue = topic.queues[numbers[0]]
        if queue == NULL or (<QueueTail> queue).gone:
            return False
        if frame.body_length > self._body_bytes_max:
            return False
        draft.queue_id = <int32_t> numbers[0]
        draft.sys_flag = <int32_t> numbers[1] | topic.sys_flag
        draft.flag = <int32_t> numbers[2]
        draft.reconsume_times = <int32_t> numbers[3]
        draft.prepared_position = 0
        first_offset = (<QueueTail> queue).end + (<QueueTail> queue).planned
        if not self._plan_messages(
            frame, _field(frame, is_long, b"properties", 10, b"i"), is_batch, &draft, topic, queue, born_host,
            log_limit, index_room,
        ):
            self._undo(queue, first_offset, records_used, entries_used, hashes_used)
            return False
        if not frame.flag & FLAG_ONEWAY:
            self._answer(frame, draft.queue_id, first_offset, entries_used)
        return True

    cdef int _undo(
        self, PyObject *queue, int64_t first_offset,
        Py_ssize_t records_used, Py_ssize_t entries_used, Py_ssize_t hashes_used,
    ) except -1:
        self._end -= self._records.used - records_used
        self._records.used = records_used
        self._entries.used = entries_used
        self._hashes.used = hashes_used
        (<QueueTail> queue).planned = first_offset - (<QueueTail> queue).end
        return 0

    cdef bint _plan_messages(
        self, Frame *frame, Span *properties, bint is_batch, Draft *draft, Topic topic, PyObject *queue,
        bytes born_host, int64_t log_limit, int64_t index_room,
    ) except -1:
        cdef Pair pairs[PAIRS_MAX]
        cdef int count = 0
        cdef uint8_t *text
        cdef Py_ssize_t length = 0
        # One piece holds what the field says, without escapes, and behind it what is stored.
        _need(&self._scratch, 2 * (0 if properties == NULL else properties.length) + len(self._cluster) + 64)
        text = self._scratch.bytes
        if properties != NULL:
            if properties.is_escaped:
                length = unescape(properties, text)
                if length < 0:
                    return False
            else:
                length = properties.length
                memcpy(text, properties.at, length)
        count = self._split(text, length, pairs)
        if count < 0:
            return False
        draft.is_parted = draft.is_noted = False
        draft.more_properties.length = 0
        if not is_batch:
            _note_pairs(draft, pairs, count)
            draft.body = frame.body
            draft.body_length = frame.body_length
            draft.properties.at = text + length
            draft.properties.length = _join(pairs, count, text + length, False)
            return self._plan_one(draft, topic, queue, born_host, log_limit, index_room)
        draft.more_properties.at = text + length
        draft.more_properties.length = _join(pairs, count, text + length, True)
        return self._plan_units(
            frame.body, frame.body + frame.body_length, draft, topic, queue, born_host, log_limit, index_room
        )

    cdef int _split(self, const uint8_t *text, Py_ssize_t length, Pair *pairs) except -2:
        """Find the pairs, add the cluster's, and order them as Java's map does; -1 when they are not plain."""
        cdef const uint8_t *at = text
        cdef const uint8_t *end = text + length
        cdef const uint8_t *pair_end
        cdef const uint8_t *name_end
        cdef int count = 0
        cdef Pair *pair
        cdef bint is_true
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
        _sort(pairs, count)
        return count

    cdef bint _is_plain(self, Pair *pair, Pair *pairs, int count) except -1:
        cdef int i
        cdef bytes name
        if _is(&pair.name, b"CLUSTER", 7):
            return False
        for i in range(count):
            if pairs[i].name.length == pair.name.length and _same(&pairs[i].name, &pair.name):
                return False
        for name in self._diverting:
            if _is(&pair.name, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
                return False
        return not (self._wait_matters and _is(&pair.name, b"WAIT", 4) and not _is(&pair.value, b"true", 4))

    cdef bint _plan_units(
        self, const uint8_t *at, const uint8_t *end, Draft *draft, Topic topic, PyObject *queue,
        bytes born_host, int64_t log_limit, int64_t index_room,
    ) except -1:
        """Plan the messages of a batch, all or none."""
        cdef int64_t size, body_length, properties_length
        if at == end or PyBytes_GET_SIZE(topic.name) > TOPIC_BATCH_MAX:
            return False
        while at < end:
            if end - at < UNIT_BYTES_MIN:
                return False
            size = load32(at)
            body_length = load32(at + 16)
            if size > end - at or body_length < 0 or UNIT_BYTES_MIN + body_length > size:
                return False
            draft.flag = load32(at + 12)
            draft.body = at + 20
            draft.body_length = body_length
            properties_length = load16(at + 20 + body_length)
            if properties_length != size - UNIT_BYTES_MIN - body_length:
                return False
            draft.properties.at = at + UNIT_BYTES_MIN + body_length
            draft.properties.length = properties_length
            if not _is_text(draft.properties.at, properties_length):
                return False
            draft.is_parted = properties_length > 0 and (at + size - 1)[0] != PAIR_END
            if not self._plan_one(draft, topic, queue, born_host, log_limit, index_room):
                return False
            at += size
        return True

    cdef bint _plan_one(
        self, Draft *draft, Topic topic, PyObject *queue, bytes born_host, int64_t log_limit, int64_t index_room
    ) except -1:
        """Encode one record, and note what the followers are to know of it."""
        cdef Py_ssize_t topic_length = PyBytes_GET_SIZE(topic.name)
        cdef Py_ssize_t text_length = (
            draft.properties.length + draft.is_parted + draft.more_properties.length
        )
        cdef Py_ssize_t size = HEAD_BYTES + draft.body_length + 1 + topic_length + 2 + text_length
        cdef uint8_t *at
        cdef uint8_t *text
        cdef Entry *entry
        if text_length > PROPERTIES_BYTES_MAX or self._end + size > log_limit:
            return False
        _need(&self._records, size)
        at = self._records.bytes + self._records.used
        at = store32(at, <int32_t> size)
        at = store32(at, MAGIC_V1)
        at = store32(at, <int32_t> (pyromq_crc32(0, draft.body, draft.body_length) & 0x7FFFFFFF))
        at = store32(at, draft.queue_id)
        at = store32(at, draft.flag)
        at = store64(at, (<QueueTail> queue).end + (<QueueTail> queue).planned)
        at = store64(at, self._end)
        at = store32(at, draft.sys_flag)
        at = store64(at, draft.born_at_ms)
        at = _copy(at, PyBytes_AS_STRING(born_host), HOST_BYTES)
        at = store64(at, self._now_ms)
        at = _copy(at, PyBytes_AS_STRING(self._store_host), HOST_BYTES)
        at = store32(at, draft.reconsume_times)
        at = store64(at, draft.prepared_position)
        at = store32(at, <int32_t> draft.body_length)
        at = _copy(at, draft.body, draft.body_length)
        at[0] = <uint8_t> topic_length
        at = _copy(at + 1, PyBytes_AS_STRING(topic.name), topic_length)
        at = store16(at, <int16_t> text_length)
        text = at
        at = _copy(at, draft.properties.at, draft.properties.length)
        if draft.is_parted:
            at[0] = PAIR_END
            at += 1
        _copy(at, draft.more_properties.at, draft.more_properties.length)

        _need(&self._entries, sizeof(Entry))
        entry = <Entry *> (self._entries.bytes + self._entries.used)
        entry.queue = queue
        entry.position = self._end
        entry.size = <int32_t> size
        if not draft.is_noted:
            _note_text(draft, text, text_length)
        self._hash(entry, draft, topic.key_head)
        if self._hashes.used // <Py_ssize_t> sizeof(int32_t) > index_room:
            return False
        self._entries.used += sizeof(Entry)
        self._records.used += size
        self._end += size
        (<QueueTail> queue).planned += 1
        return True

    cdef int _hash(self, Entry *entry, Draft *draft, uint32_t key_head) except -1:
        """Enter the code of the tags, and the hashes of the unique id and of each key."""
        cdef const uint8_t *at = draft.keys.at
        cdef const uint8_t *end = at + draft.keys.length
        cdef const uint8_t *word_end
        entry.tags_code = <int32_t> java_hash(0, draft.tags.at, draft.tags.length)
        entry.hash_count = 0
        if not self._has_index:
            return 0
        if draft.identity.length:
            self._add_hash(entry, java_hash(key_head, draft.identity.at, draft.identity.length))
        while at < end:
            word_end = <const uint8_t *> memchr(at, c' ', end - at)
            if word_end == NULL:
                word_end = end
            if word_end > at:
                self._add_hash(entry, java_hash(key_head, at, word_end - at))
            at = word_end + 1
        return 0

    cdef int _add_hash(self, Entry *entry, uint32_t value) except -1:
        if value & <uint32_t> 0x80000000:
            # Java's, made positive; of the one that has no positive RocketMQ makes 0.
            value = (0 - value) & 0x7FFFFFFF
        _need(&self._hashes, sizeof(int32_t))
        (<int32_t *> (self._hashes.bytes + self._hashes.used))[0] = <int32_t> value
        self._hashes.used += sizeof(int32_t)
        entry.hash_count += 1
        return 0

    # Answering

    cdef int _answer(self, Frame *frame, int32_t queue_id, int64_t offset, Py_ssize_t entries_from) except -1:
        cdef Py_ssize_t ids = (self._entries.used - entries_from) // <Py_ssize_t> sizeof(Entry)
        cdef Py_ssize_t id_length = ids * (ID_CHARACTERS + 1) - 1
        cdef uint8_t *start
        cdef uint8_t *at
        _need(
            &self._answers,
            ANSWER_ROOM + id_length + PyBytes_GET_SIZE(self._template) + PyBytes_GET_SIZE(self._binary_fields),
        )
        start = self._answers.bytes + self._answers.used
        at = start + 8
        if frame.is_json:
            at = self._fill(at, self._template, self._parts, self._part_count,
                            frame, queue_id, offset, entries_from, False)
        else:
            at = store16(at, 0)
            at[0] = <uint8_t> self._language
            at = store16(at + 1, <int16_t> self._version)
            at = store32(at, frame.opaque)
            at = store32(at, FLAG_RESPONSE)
            at = store32(store32(at, 0), 0)
            at = self._fill(at, self._binary_fields, self._binary_parts, self._binary_part_count,
                            frame, queue_id, offset, entries_from, True)
            store32(start + 8 + 17, <int32_t> (at - start - 8 - 21))
        store32(start, <int32_t> (at - start - 4))
        store32(start + 4, <int32_t> (at - start - 8) | (0 if frame.is_json else 1 << 24))
        self._answers.used += at - start
        return 0

    cdef uint8_t *_fill(
        self, uint8_t *at, bytes literals, Part *parts, int count,
        Frame *frame, int32_t queue_id, int64_t offset, Py_ssize_t entries_from, bint has_lengths,
    ) noexcept:
        """Write literals and, between them, what varies; with its length before it in the binary header."""
        cdef int i
        cdef uint8_t *value
        for i in range(count):
            at = _copy(at, PyBytes_AS_STRING(literals) + parts[i].start, parts[i].length)
            value = at
            if parts[i].kind == PART_NONE:
                continue
            if has_lengths:
                at += 4
            if parts[i].kind == PART_OPAQUE:
                at = write_decimal(at, frame.opaque)
            elif parts[i].kind == PART_QUEUE_ID:
                at = write_decimal(at, queue_id)
            elif parts[i].kind == PART_QUEUE_OFFSET:
                at = write_decimal(at, offset)
            elif parts[i].kind == PART_MESSAGE_ID:
                at = self._message_ids(at, entries_from)
            if has_lengths:
                store32(value, <int32_t> (at - value - 4))
        return at

    cdef uint8_t *_message_ids(self, uint8_t *at, Py_ssize_t entries_from) noexcept:
        cdef Py_ssize_t i = entries_from
        cdef int shift
        cdef int64_t position
        while i < self._entries.used:
            if i > entries_from:
                at[0] = c','
                at += 1
            at = _copy(at, PyBytes_AS_STRING(self._host_hex), 2 * HOST_BYTES)
            position = (<Entry *> (self._entries.bytes + i)).position
            for shift in range(60, -1, -4):
                at[0] = HEX[(position >> shift) & 15]
                at += 1
            i += sizeof(Entry)
        return at

    # What was planned

    @property
    def records(self):
        """The planned records, one behind the other; to be looked at before the next plan."""
        if self._records.used == 0:
            return memoryview(b"")
        return PyMemoryView_FromMemory(<char *> self._records.bytes, self._records.used, PyBUF_READ)

    @property
    def answers(self):
        """The frames of the answers; a oneway send has none."""
        return PyBytes_FromStringAndSize(<char *> self._answers.bytes, self._answers.used)

    @property
    def end(self):
        """The log position behind the planned records."""
        return self._end

    @property
    def message_count(self):
        """How many messages are planned; a batch is one send and many messages."""
        return self._entries.used // <Py_ssize_t> sizeof(Entry)

    def drop(self):
        """Forget what was planned."""
        cdef Py_ssize_t i = 0
        while i < self._entries.used:
            (<QueueTail> (<Entry *> (self._entries.bytes + i)).queue).planned = 0
            i += sizeof(Entry)
        self._records.used = self._answers.used = self._entries.used = self._hashes.used = 0
        self.count = 0

    def apply(self, IndexTail index, Py_ssize_t held_bytes_max):
        """Let the queues and the index have what the log has now, and forget the plan.

        Return the queues that hold `held_bytes_max` or more, and those that are watched, each with the offset
        from which on its messages are new.
        """
        cdef Py_ssize_t i = 0, key = 0
        cdef int k
        cdef Entry *entry
        cdef QueueTail queue
        cdef list full = [], grown = []
        while i < self._entries.used:
            entry = <Entry *> (self._entries.bytes + i)
            queue = <QueueTail> entry.queue
            if queue.watched and queue.grown_from < 0:
                queue.grown_from = queue.end
                grown.append(queue)
            queue.enter(entry.position, entry.size, entry.tags_code)
            if (
                PyByteArray_GET_SIZE(queue.held) >= held_bytes_max
                and PyByteArray_GET_SIZE(queue.held) < held_bytes_max + 20
            ):
                full.append(queue)
            for k in range(entry.hash_count):
                index.enter((<int32_t *> self._hashes.bytes)[key], entry.position, self._now_ms)
                key += 1
            i += sizeof(Entry)
        self.drop()
        if grown:
            grown = [_take_grown(queue) for queue in grown]
        return full, grown


def measure_units(bytes units, tuple kinds, Py_ssize_t more_bytes):
    """Return how many messages a batch's body has, and how many bytes of body and properties; None: ask Python.

    `kinds` are names of properties that plain messages do not have. `more_bytes` of properties come to each.
    """
    cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(units)
    cdef const uint8_t *end = at + PyBytes_GET_SIZE(units)
    cdef int64_t size, body_length, length
    cdef Py_ssize_t count = 0, content = 0
    while at < end:
        if end - at < UNIT_BYTES_MIN:
            return None
        size = load32(at)
        body_length = load32(at + 16)
        if size > end - at or body_length < 0 or UNIT_BYTES_MIN + body_length > size:
            return None
        length = load16(at + 20 + body_length)
        if length != size - UNIT_BYTES_MIN - body_length or length + more_bytes > PROPERTIES_BYTES_MAX:
            return None
        at += UNIT_BYTES_MIN + body_length
        if not _is_text(at, length) or _has_name(at, at + length, kinds):
            return None
        at += length
        content += body_length + length
        count += 1
    return count, content


cdef bint _has_name(const uint8_t *at, const uint8_t *end, tuple kinds) except -1:
    """Whether a property string has a pair with one of these names."""
    cdef const uint8_t *name_end
    cdef const uint8_t *pair_end
    cdef bytes name
    while at < end:
        pair_end = <const uint8_t *> memchr(at, PAIR_END, end - at)
        if pair_end == NULL:
            pair_end = end
        name_end = <const uint8_t *> memchr(at, NAME_END, pair_end - at)
        if name_end != NULL:
            for name in kinds:
                if PyBytes_GET_SIZE(name) == name_end - at and memcmp(PyBytes_AS_STRING(name), at, name_end - at) == 0:
                    return True
        at = pair_end + 1
    return False


cdef tuple _take_grown(QueueTail queue):
    cdef int64_t grown_from = queue.grown_from
    queue.grown_from = -1
    return queue, grown_from


cdef int _set_parts(Part *parts, list literals) except -1:
    cdef int count = 0
    cdef Py_ssize_t start = 0
    if len(literals) > 16:
        raise ValueError("too many parts")
    for literal, kind in literals:
        parts[count].kind = kind
        parts[count].start = start
        parts[count].length = len(literal)
        start += len(literal)
        count += 1
    return count


cdef int _need(Block *block, Py_ssize_t size) except -1:
    """See to it that there is room for `size` more bytes."""
    cdef Py_ssize_t room = block.room
    cdef uint8_t *bytes_
    if block.used + size <= room:
        return 0
    room = max(2 * room, block.used + size, <Py_ssize_t> 4096)
    bytes_ = <uint8_t *> realloc(block.bytes, room)
    if bytes_ == NULL:
        raise MemoryError
    block.bytes = bytes_
    block.room = room
    return 0


cdef inline Span *_field(
    Frame *frame, bint is_long, const char *name, Py_ssize_t length, const char *letter
) noexcept nogil:
    return find_field(frame, name, length) if is_long else letter_field(frame, letter[0])


cdef inline bint _number(Span *text, bint is_optional, int64_t *number) noexcept nogil:
    if text == NULL:
        number[0] = 0
        return is_optional
    return read_number(text, INT32_MIN, INT32_MAX, number)


cdef inline uint8_t *_copy(uint8_t *at, const void *source, Py_ssize_t length) noexcept nogil:
    if length:
        memcpy(at, source, length)
    return at + length


cdef inline bint _is(Span *text, const char *name, Py_ssize_t length) noexcept nogil:
    return text.length == length and memcmp(text.at, name, length) == 0


cdef inline bint _same(Span *one, Span *other) noexcept nogil:
    return memcmp(one.at, other.at, one.length) == 0


cdef inline bint _is_text(const uint8_t *at, Py_ssize_t length) noexcept nogil:
    """Whether all bytes are ASCII, and none is 0."""
    cdef uint8_t strange = 0
    cdef Py_ssize_t i
    for i in range(length):
        strange |= (at[i] & 0x80) | <uint8_t> (at[i] == 0)
    return strange == 0


cdef void _note_pairs(Draft *draft, Pair *pairs, int count) noexcept nogil:
    """Note what the followers want of pairs that are all different."""
    cdef int i
    draft.tags.length = draft.identity.length = draft.keys.length = 0
    draft.tags.at = draft.identity.at = draft.keys.at = pairs[0].name.at
    for i in range(count):
        if _is(&pairs[i].name, b"TAGS", 4):
            draft.tags = pairs[i].value
        elif _is(&pairs[i].name, b"KEYS", 4):
            draft.keys = pairs[i].value
        elif _is(&pairs[i].name, b"UNIQ_KEY", 8):
            draft.identity = pairs[i].value
    draft.is_noted = True


cdef void _note_text(Draft *draft, const uint8_t *text, Py_ssize_t length) noexcept nogil:
    """Note what the followers want of a property string; of two pairs with one name the later holds."""
    cdef const uint8_t *at = text
    cdef const uint8_t *end = text + length
    cdef const uint8_t *pair_end
    draft.tags.length = draft.identity.length = draft.keys.length = 0
    draft.tags.at = draft.identity.at = draft.keys.at = text
    while at < end:
        pair_end = <const uint8_t *> memchr(at, PAIR_END, end - at)
        if pair_end == NULL:
            pair_end = end
        if not _value_of(at, pair_end, b"TAGS\x01", 5, &draft.tags):
            if not _value_of(at, pair_end, b"KEYS\x01", 5, &draft.keys):
                _value_of(at, pair_end, b"UNIQ_KEY\x01", 9, &draft.identity)
        at = pair_end + 1


cdef bint _value_of(
    const uint8_t *at, const uint8_t *end, const char *head, Py_ssize_t head_length, Span *value
) noexcept nogil:
    """Take the value of a pair that begins with `head`, unless it is empty; return whether it does."""
    if end - at < head_length or memcmp(at, head, head_length) != 0:
        return False
    if end - at > head_length:
        value.at = at + head_length
        value.length = end - at - head_length
    return True


cdef void _sort(Pair *pairs, int count) noexcept nogil:
    """Order pairs as a Java map of 16 buckets lists them; those of one bucket stay as they came."""
    cdef int i, k
    cdef uint32_t hashed
    cdef Pair pair
    for i in range(count):
        hashed = java_hash(0, pairs[i].name.at, pairs[i].name.length)
        pairs[i].bucket = (hashed ^ (hashed >> 16)) & (BUCKETS - 1)
    for i in range(1, count):
        pair = pairs[i]
        k = i
        while k > 0 and pairs[k - 1].bucket > pair.bucket:
            pairs[k] = pairs[k - 1]
            k -= 1
        pairs[k] = pair


cdef Py_ssize_t _join(Pair *pairs, int count, uint8_t *out, bint with_wait) noexcept nogil:
    """Write the property string and return its length; WAIT is not stored, save with a batch."""
    cdef uint8_t *at = out
    cdef int i
    for i in range(count):
        if not with_wait and _is(&pairs[i].name, b"WAIT", 4):
            continue
        if at > out:
            at[0] = PAIR_END
            at += 1
        at = _copy(at, pairs[i].name.at, pairs[i].name.length)
        at[0] = NAME_END
        at = _copy(at + 1, pairs[i].value.at, pairs[i].value.length)
    return at - out

