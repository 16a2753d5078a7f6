"""The inner loops of `pyromq store verify`: expected queue entries and index keys, made from the log's records.

`scan` walks records as `pyromq.store.inspect.scan.scan` does; `count_before`, `count_used`, `play` and `are_slots`
are those of `chains`, and `are_keys` is that of `compare`. No Python object is made for a record: entries, keys and
times are appended as bytes.
"""

from cpython cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from pyromq._kernel.codec.bigend cimport load32, load64, store32, store64
from pyromq._kernel.codec.crc32 cimport pyromq_crc32
from pyromq._kernel.codec.layout cimport (
    BODY_CRC_AT, CRC_MASK, POSITION_AT, PREPARED, QUEUE_ID_AT, QUEUE_OFFSET_AT, STORED_AT_AT,
    Plain, Text, next_pair, next_part, read_plain,
)

from pyromq.store.index.index import key_hash
from pyromq.wire.java_hash import java_hash

cdef enum:
    ENTRY_BYTES = 20
    KEY_BYTES = 12
    INDEX_ENTRY_BYTES = 20
    SECONDS_MAX = 0x7FFFFFFF
    SLOTS_AT_FIRST = 64


cdef class Run:
    """Records of one queue, one behind the other, as the queue's entries should be."""

    cdef readonly str topic
    cdef readonly int64_t queue_id
    cdef readonly uint64_t first
    #: Unsigned, because a damaged record may name the last offset that there is, and this is behind it.
    cdef public uint64_t next_offset
    cdef public bytearray entries
    cdef bytes name
    #: The hash of `topic#`, which each key's goes on from.
    cdef uint32_t head_hash

    def __init__(self, str topic, int64_t queue_id, uint64_t first):
        self.topic = topic
        self.queue_id = queue_id
        self.first = first
        self.next_offset = first
        self.entries = bytearray()
        self.name = topic.encode("utf-8", "replace")
        self.head_hash = <uint32_t> (<int64_t> java_hash(topic + "#") & 0xFFFFFFFF)


cdef struct Slot:
    uint64_t hash
    #: Borrowed from the list beside the table.
    PyObject *run


cdef class RunTable:
    """The runs that grow, by topic and queue id: a hash table that is asked with a record's own bytes."""

    cdef Slot *_slots
    cdef Py_ssize_t _mask
    cdef list _kept

    def __cinit__(self):
        self._slots = <Slot *> PyMem_Calloc(SLOTS_AT_FIRST, sizeof(Slot))
        if self._slots == NULL:
            raise MemoryError
        self._mask = SLOTS_AT_FIRST - 1
        self._kept = []

    def __dealloc__(self):
        PyMem_Free(self._slots)

    def clear(self):
        """Forget all runs: one of them goes on somewhere else."""
        if self._kept:
            memset(self._slots, 0, (self._mask + 1) * sizeof(Slot))
            self._kept.clear()

    cdef Run find(self, uint64_t hashed, const uint8_t *topic, Py_ssize_t length, int32_t queue_id):
        cdef Py_ssize_t at = hashed & self._mask
        cdef Run run
        while self._slots[at].run != NULL:
            if self._slots[at].hash == hashed:
                run = <Run> self._slots[at].run
                if (
                    run.queue_id == queue_id
                    and PyBytes_GET_SIZE(run.name) == length
                    and memcmp(PyBytes_AS_STRING(run.name), topic, length) == 0
                ):
                    return run
            at = (at + 1) & self._mask
        return None

    cdef int add(self, uint64_t hashed, Run run) except -1:
        if 2 * len(self._kept) >= self._mask:
            self._grow()
        self._kept.append(run)
        self._place(hashed, <PyObject *> run)
        return 0

    cdef void _place(self, uint64_t hashed, PyObject *run) noexcept:
        cdef Py_ssize_t at = hashed & self._mask
        while self._slots[at].run != NULL:
            at = (at + 1) & self._mask
        self._slots[at].hash = hashed
        self._slots[at].run = run

    cdef int _grow(self) except -1:
        cdef Slot *old = self._slots
        cdef Py_ssize_t at, count = self._mask + 1
        cdef Slot *new = <Slot *> PyMem_Calloc(2 * count, sizeof(Slot))
        if new == NULL:
            raise MemoryError
        self._slots = new
        self._mask = 2 * count - 1
        for at in range(count):
            if old[at].run != NULL:
                self._place(old[at].hash, old[at].run)
        PyMem_Free(old)
        return 0


cdef inline uint64_t name_hash(const uint8_t *topic, Py_ssize_t length, int32_t queue_id) noexcept nogil:
    cdef uint64_t value = (<uint64_t> <uint32_t> queue_id + 1) * 0x9E3779B97F4A7C15U, word
    while length > 0:
        word = 0
        memcpy(&word, topic, 8 if length >= 8 else length)
        value = (value ^ word) * 0xFF51AFD7ED558CCDU
        value ^= value >> 32
        topic += 8
        length -= 8
    return value


cdef inline void read_pairs(Text left, Text *tags, Text *identity, Text *keys) noexcept nogil:
    """Find three properties; of two with one name the later holds."""
    cdef Text name, value
    tags.length = identity.length = keys.length = 0
    while next_pair(&left, &name, &value):
        if name.length == 4:
            if memcmp(name.at, b"TAGS", 4) == 0:
                tags[0] = value
            elif memcmp(name.at, b"KEYS", 4) == 0:
                keys[0] = value
        elif name.length == 8 and memcmp(name.at, b"UNIQ_KEY", 8) == 0:
            identity[0] = value


cdef inline bint hash_on(uint32_t *value, Text text) noexcept nogil:
    """Go on with Java's hash over a text, four characters a step; return whether all were ASCII."""
    cdef uint32_t hashed = value[0]
    cdef uint8_t seen = 0
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    while end - at >= 4:
        hashed = hashed * 923521 + (at[0] * 29791 + at[1] * 961 + at[2] * 31 + at[3])
        seen |= at[0] | at[1] | at[2] | at[3]
        at += 4
    while at < end:
        hashed = hashed * 31 + at[0]
        seen |= at[0]
        at += 1
    value[0] = hashed
    return seen < 0x80


cdef object text_of(Text text):
    return PyBytes_FromStringAndSize(<const char *> text.at, text.length).decode("utf-8", "replace")


cdef int64_t tags_code(Text tags) except? -1:
    cdef uint32_t hashed = 0
    if hash_on(&hashed, tags):
        return <int32_t> hashed
    return java_hash(text_of(tags))


cdef int add_key(bytearray keys, array.array times, Run run, Text word, int64_t position,
                 int64_t time_ms) except -1:
    cdef uint32_t hashed = run.head_hash
    cdef Py_ssize_t length = PyByteArray_GET_SIZE(keys), count = len(times)
    if not hash_on(&hashed, word):
        hashed = key_hash(run.topic, text_of(word))
    elif hashed & 0x80000000:
        # Java's, made positive; of −2³¹ RocketMQ makes 0.
        hashed = (0 - hashed) & 0x7FFFFFFF
    PyByteArray_Resize(keys, length + KEY_BYTES)
    store64(store32(<uint8_t *> PyByteArray_AS_STRING(keys) + length, <int32_t> hashed), position)
    array.resize_smart(times, count + 1)
    (<int64_t *> times.data.as_longlongs)[count] = time_ms
    return 0


cdef int add_words(bytearray keys, array.array times, Run run, Text words, int64_t position,
                   int64_t time_ms) except -1:
    """Add each word of a message's keys; two spaces make an empty one, which is none."""
    cdef Text word
    while next_part(&words, b" ", &word):
        if word.length:
            add_key(keys, times, run, word, position, time_ms)
    return 0


cdef inline bint has_checksum(Plain *record) noexcept nogil:
    cdef uint32_t crc = pyromq_crc32(0, record.body.at, record.body.length) & CRC_MASK
    return crc == <uint32_t> load32(record.head + BODY_CRC_AT)


def scan(const uint8_t[::1] block not None, Py_ssize_t at, Py_ssize_t limit, int64_t base, facts):
    """Take in plain records from byte `at` of a block on, and return where the first begins that was not."""
    cdef RunTable runs = facts.runs
    cdef dict topics = facts.topics
    cdef bytearray keys = facts.keys
    cdef array.array times = facts.times
    cdef Py_ssize_t block_bytes = block.shape[0], count = 0, length
    cdef int64_t offset, position, code, time_ms, newest = facts.newest
    cdef int32_t queue_id
    cdef uint64_t hashed
    cdef const uint8_t *data = &block[0] if block_bytes else NULL
    cdef Plain record
    cdef Text tags, identity, words
    cdef Run run
    if at < 0:
        raise ValueError("a block begins at 0")
    # Bit 2 of the flags is set in prepared and in rolled-back messages, which have no place in a queue.
    while at < limit and read_plain(data + at, block_bytes - at, &record) and not record.flags & PREPARED:
        position, offset = load64(record.head + POSITION_AT), load64(record.head + QUEUE_OFFSET_AT)
        queue_id, time_ms = load32(record.head + QUEUE_ID_AT), load64(record.head + STORED_AT_AT)
        if <uint64_t> position != <uint64_t> base + <uint64_t> at or offset < 0:
            break
        if memchr(record.properties.at, 0, record.properties.length) != NULL:
            break
        hashed = name_hash(record.topic.at, record.topic.length, queue_id)
        run = runs.find(hashed, record.topic.at, record.topic.length, queue_id)
        if run is None:
            run = known_run(topics, record.topic.at, record.topic.length, queue_id)
            if run is None:
                break
            runs.add(hashed, run)
        if run.next_offset != <uint64_t> offset or not has_checksum(&record):
            break
        read_pairs(record.properties, &tags, &identity, &words)
        code = tags_code(tags) if tags.length else 0
        if identity.length:
            add_key(keys, times, run, identity, position, time_ms)
        if words.length:
            add_words(keys, times, run, words, position, time_ms)
        length = PyByteArray_GET_SIZE(run.entries)
        PyByteArray_Resize(run.entries, length + ENTRY_BYTES)
        store64(
            store32(
                store64(<uint8_t *> PyByteArray_AS_STRING(run.entries) + length, position), record.size
            ),
            code,
        )
        run.next_offset += 1
        newest = position
        count += 1
        at += record.size
    facts.records += count
    facts.newest = newest
    return at


cdef Run known_run(dict topics, const uint8_t *name, Py_ssize_t length, int32_t queue_id):
    topic = topics.get(PyBytes_FromStringAndSize(<const char *> name, length))
    return None if topic is None else topic.queues.get(queue_id)


# Index files


cdef inline Py_ssize_t slot_of(int32_t hashed, Py_ssize_t slot_count) noexcept nogil:
    """Return the slot of a hash; of a negative one, which is a fault, the one that Python's % names."""
    cdef Py_ssize_t slot = hashed % slot_count
    return slot if slot >= 0 else slot + slot_count


def play(array.array slots not None, Py_ssize_t first, const uint8_t[::1] chunk not None, Py_ssize_t at):
    """Put entries into their slots, from the one at `at` on, up to one that names a wrong one before it."""
    cdef Py_ssize_t slot, slot_count = len(slots), count = chunk.shape[0] // INDEX_ENTRY_BYTES
    cdef int32_t *newest = <int32_t *> slots.data.as_ints
    cdef const uint8_t *entry
    if slots.ob_descr.itemsize != 4 or slot_count == 0 or at < 0:
        raise ValueError("slots have four bytes each")
    while at < count:
        entry = &chunk[at * INDEX_ENTRY_BYTES]
        slot = slot_of(load32(entry), slot_count)
        if newest[slot] != load32(entry + 16):
            break
        newest[slot] = <int32_t> (first + at)
        at += 1
    return at


def are_slots(array.array slots not None, const uint8_t[::1] actual not None):
    """Return whether the slots of a file are these."""
    cdef Py_ssize_t slot, slot_count = len(slots)
    cdef int32_t *wanted = <int32_t *> slots.data.as_ints
    cdef int32_t differing = 0
    cdef const uint8_t *data
    if slots.ob_descr.itemsize != 4 or actual.shape[0] != slot_count * 4:
        return False
    data = &actual[0] if slot_count else NULL
    for slot in range(slot_count):
        differing |= load32(data + 4 * slot) ^ wanted[slot]
    return differing == 0


def count_used(array.array slots not None):
    """Return how many slots are not empty."""
    cdef Py_ssize_t slot, used = 0
    cdef int32_t *newest = <int32_t *> slots.data.as_ints
    if slots.ob_descr.itemsize != 4:
        raise ValueError("slots have four bytes each")
    for slot in range(len(slots)):
        used += newest[slot] != 0
    return used


def count_before(const uint8_t[::1] chunk not None, boundaries):
    """Return for each boundary how many entries point before it; None when they do not rise."""
    cdef Py_ssize_t number, low, high, middle, count = chunk.shape[0] // INDEX_ENTRY_BYTES
    cdef const uint8_t *data
    cdef int64_t boundary
    if count == 0:
        return [0] * len(boundaries)
    data = &chunk[4]
    for number in range(1, count):
        if load64(data + number * INDEX_ENTRY_BYTES) < load64(data + (number - 1) * INDEX_ENTRY_BYTES):
            return None
    counts = []
    for boundary in boundaries:
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if load64(data + middle * INDEX_ENTRY_BYTES) < boundary:
                low = middle + 1
            else:
                high = middle
        counts.append(low)
    return counts


def are_keys(const uint8_t[::1] entries not None, facts, Py_ssize_t first, int64_t begin_ms):
    """Return whether index entries are of the facts' keys from number `first` on."""
    cdef array.array times = facts.times
    cdef bytearray keys = facts.keys
    cdef Py_ssize_t number, count = entries.shape[0] // INDEX_ENTRY_BYTES
    cdef const uint8_t *entry
    cdef const uint8_t *key = <const uint8_t *> PyByteArray_AS_STRING(keys)
    cdef int64_t time_ms, seconds
    if first < 0 or first + count > len(times) or len(keys) != len(times) * KEY_BYTES:
        return False
    for number in range(count):
        entry = &entries[number * INDEX_ENTRY_BYTES]
        if memcmp(entry, key + (first + number) * KEY_BYTES, KEY_BYTES) != 0:
            return False
        time_ms = (<int64_t *> times.data.as_longlongs)[first + number]
        seconds = (time_ms - begin_ms) // 1000 if 0 < begin_ms < time_ms else 0
        if load32(entry + 12) != (seconds if seconds < SECONDS_MAX else SECONDS_MAX):
            return False
    return True
