"""Pulled bytes turned into the buffers of Arrow's columns, all columns of a message in one go.

What `records` and `columns` do together, without a message in between: the bytes of a record are walked once,
while they are near. `pyspark_rocketmq.source.gathering` makes arrays of the buffers. A record that is not plain (it is
compressed, has IPv6 hosts, a name twice, a text that is not UTF-8, a wrong checksum) ends a scan, and is left to
those two, which know what to do with it.

    times, numbers  one number after the other, as the machine writes them
    texts           validity bits (None when all are valid), int32 offsets, bytes
    properties      int32 offsets of rows among pairs, then offsets and bytes of names, and of values
    deliver_at      validity bits (None when none is valid), int64
"""

from cpython.bytearray cimport (
    PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE, PyByteArray_Resize,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from pyromq._kernel.codec.bigend cimport load32, load64
from pyromq._kernel.codec.crc32 cimport pyromq_crc32
from pyromq._kernel.codec.layout cimport (
    BODY_CRC_AT, BORN_AT_AT, BORN_HOST_AT, COMPRESSED, CRC_MASK, FLAG_AT, POSITION_AT, QUEUE_ID_AT,
    QUEUE_OFFSET_AT, RECONSUME_TIMES_AT, STORED_AT_AT, SYS_FLAG_AT, Plain, Text, read_plain,
)
from pyromq._kernel.spark.named cimport (
    ID_CHARACTERS, PAIRS_MAX, Named, begin_named, due_time, is_ascii, note_named, read_pairs, write_id,
)
from pyromq._kernel.client.records cimport host_text, text_of

cdef enum:
    #: Arrow counts the bytes of a column in 31 bits; no batch comes near.
    COLUMN_BYTES_MAX = 0x7FFFFFFF
    #: Rows that there is room for at first.
    ROWS = 4096
    NUMBERS = 8

#: Further from the epoch than that, in milliseconds, no int64 has the microseconds.
cdef int64_t FURTHEST_MS = 0x7FFFFFFFFFFFFFFFLL // 1000

#: Columns that are a number of the record's head: where, how many bytes in the column, and times what.
_NUMBERS = {
    "queue_id": (QUEUE_ID_AT, 4, 1),
    "queue_offset": (QUEUE_OFFSET_AT, 8, 1),
    "born_timestamp": (BORN_AT_AT, 8, 1000),
    "store_timestamp": (STORED_AT_AT, 8, 1000),
    "reconsume_times": (RECONSUME_TIMES_AT, 4, 1),
    "flag": (FLAG_AT, 4, 1),
    "sys_flag": (SYS_FLAG_AT, 4, 1),
}


# Columns


cdef class _Numbers:
    """A column of int32 or int64 that grows."""

    cdef bytearray held
    cdef uint8_t *out
    cdef Py_ssize_t rows, room
    cdef int at, width, factor

    def __cinit__(self, int at, int width, int factor):
        self.at, self.width, self.factor = at, width, factor
        self.room = ROWS
        self.begin()

    cdef int begin(self) except -1:
        self.held = PyByteArray_FromStringAndSize(NULL, self.room * self.width)
        self.out = <uint8_t *> PyByteArray_AS_STRING(self.held)
        self.rows = 0
        return 0

    cdef int grow(self) except -1:
        self.room *= 2
        PyByteArray_Resize(self.held, self.room * self.width)
        self.out = <uint8_t *> PyByteArray_AS_STRING(self.held)
        return 0

    cdef inline int add(self, const uint8_t *head) except -1:
        if self.rows == self.room:
            self.grow()
        if self.width == 4:
            (<int32_t *> self.out)[self.rows] = load32(head + self.at)
        else:
            (<int64_t *> self.out)[self.rows] = load64(head + self.at) * self.factor
        self.rows += 1
        return 0

    cdef bytearray take(self):
        cdef bytearray held = self.held
        PyByteArray_Resize(held, self.rows * self.width)
        self.begin()
        return held


cdef class _Bits:
    """The validity bits of a column: one for each row, set if the row has a value."""

    cdef bytearray held
    cdef uint8_t *out
    cdef Py_ssize_t rows, room, set_count

    def __cinit__(self):
        self.room = ROWS
        self.begin()

    cdef int begin(self) except -1:
        self.held = PyByteArray_FromStringAndSize(NULL, self.room >> 3)
        self.out = <uint8_t *> PyByteArray_AS_STRING(self.held)
        self.rows = self.set_count = 0
        return 0

    cdef inline int add(self, bint is_set) except -1:
        cdef Py_ssize_t place = self.rows >> 3
        if self.rows == self.room:
            self.room *= 2
            PyByteArray_Resize(self.held, self.room >> 3)
            self.out = <uint8_t *> PyByteArray_AS_STRING(self.held)
        if self.rows & 7 == 0:
            self.out[place] = 0
        self.out[place] |= is_set << (self.rows & 7)
        self.rows += 1
        self.set_count += is_set
        return 0

    cdef bytearray take(self):
        cdef bytearray held = self.held
        PyByteArray_Resize(held, (self.rows + 7) >> 3)
        self.begin()
        return held


cdef class _Texts:
    """A column of texts that grows."""

    cdef bytearray held, held_offsets
    cdef uint8_t *out
    cdef int32_t *offsets
    cdef Py_ssize_t rows, room, used, bytes_room
    cdef _Bits valid

    def __cinit__(self, bint is_nullable, Py_ssize_t bytes_room):
        self.room, self.bytes_room = ROWS, bytes_room
        self.valid = _Bits() if is_nullable else None
        self.begin()

    cdef int begin(self) except -1:
        self.held = PyByteArray_FromStringAndSize(NULL, self.bytes_room)
        self.held_offsets = PyByteArray_FromStringAndSize(NULL, 4 * (self.room + 1))
        self.rows = self.used = 0
        self.look()
        self.offsets[0] = 0
        return 0

    cdef void look(self) noexcept:
        self.out = <uint8_t *> PyByteArray_AS_STRING(self.held)
        self.offsets = <int32_t *> PyByteArray_AS_STRING(self.held_offsets)

    cdef int make_room(self, Py_ssize_t rows, Py_ssize_t length) except -1:
        """Make room for so many rows more, with so many bytes together."""
        if self.used + length > COLUMN_BYTES_MAX:
            raise OverflowError("a column has more than 2 GiB; gather fewer messages for each batch")
        if self.used + length > self.bytes_room:
            self.bytes_room = self.used + length + (self.used >> 1) + 4096
            PyByteArray_Resize(self.held, self.bytes_room)
        if self.rows + rows > self.room:
            self.room = 2 * self.room + rows
            PyByteArray_Resize(self.held_offsets, 4 * (self.room + 1))
        self.look()
        return 0

    cdef inline int add(self, const uint8_t *at, Py_ssize_t length) except -1:
        if self.used + length > self.bytes_room or self.rows == self.room:
            self.make_room(1, length)
        self.put(at, length)
        if self.valid is not None:
            self.valid.add(True)
        return 0

    cdef inline void put(self, const uint8_t *at, Py_ssize_t length) noexcept:
        """Add a row that room was made for, to a column without nulls."""
        memcpy(self.out + self.used, at, length)
        self.used += length
        self.rows += 1
        self.offsets[self.rows] = <int32_t> self.used

    cdef inline int add_found(self, Text found) except -1:
        """Add a row; a length of -1 is none."""
        if found.length >= 0:
            return self.add(found.at, found.length)
        if self.rows == self.room:
            self.make_room(1, 0)
        self.rows += 1
        self.offsets[self.rows] = <int32_t> self.used
        self.valid.add(False)
        return 0

    cdef tuple take(self):
        cdef bytearray held = self.held, offsets = self.held_offsets
        PyByteArray_Resize(held, self.used)
        PyByteArray_Resize(offsets, 4 * (self.rows + 1))
        valid = None
        if self.valid is not None:
            is_whole = self.valid.set_count == self.rows
            valid = self.valid.take()
            if is_whole:
                valid = None
        self.begin()
        return valid, offsets, held


# Scan


cdef class Scan:
    """The columns of a batch that grows with each answer to a pull."""

    cdef readonly Py_ssize_t rows
    #: Where the last message is that was added, in its queue and in the log.
    cdef readonly int64_t last_offset, last_position
    cdef tuple names
    cdef dict columns
    cdef list held_numbers
    cdef void *numbers[NUMBERS]
    cdef int number_count
    cdef bint is_named
    cdef _Texts topics, brokers, ids, tags, keys, groups, bodies, born_hosts
    cdef _Numbers due
    cdef _Bits due_valid
    cdef _Texts pair_names, pair_values
    cdef _Numbers pair_ends
    cdef uint8_t born[8]
    cdef bytes born_text

    def __init__(self, tuple names not None):
        self.names, self.columns, self.held_numbers = names, {}, []
        self.due_valid, self.born_text = None, None
        self.number_count = 0
        for name in names:
            if name in self.columns:
                raise ValueError(f"column {name} is asked for twice")
            self.columns[name] = self.made(name)
        named = (self.ids, self.tags, self.keys, self.groups, self.due)
        self.is_named = any([column is not None for column in named])

    cdef object made(self, str name):
        cdef object column
        if name in _NUMBERS:
            column = _Numbers(*_NUMBERS[name])
            self.numbers[self.number_count] = <void *> column
            self.number_count += 1
            self.held_numbers.append(column)
        elif name == "properties":
            self.pair_names, self.pair_values = _Texts(False, 1 << 18), _Texts(False, 1 << 18)
            self.pair_ends = _Numbers(0, 4, 1)
            column = self.pair_ends
        elif name == "deliver_at":
            self.due, self.due_valid = _Numbers(0, 8, 1), _Bits()
            column = self.due
        elif name == "topic":
            column = self.topics = _Texts(False, 1 << 16)
        elif name == "broker":
            column = self.brokers = _Texts(False, 1 << 16)
        elif name == "born_host":
            column = self.born_hosts = _Texts(False, 1 << 16)
        elif name == "body":
            column = self.bodies = _Texts(False, 1 << 20)
        elif name == "msg_id":
            column = self.ids = _Texts(False, 1 << 17)
        elif name == "tags":
            column = self.tags = _Texts(True, 1 << 16)
        elif name == "keys":
            column = self.keys = _Texts(True, 1 << 16)
        elif name == "message_group":
            column = self.groups = _Texts(True, 1 << 12)
        else:
            raise ValueError(f"there is no column {name}")
        return column

    def add(self, bytes buffer not None, str broker not None, frozenset tags not None, int64_t end):
        """Add the messages of an answer's body that have one of the tags, or all, up to an offset.

        Return where it stopped: at the end, or before a record that is not plain.
        """
        cdef const uint8_t *data = <const uint8_t *> PyBytes_AS_STRING(buffer)
        cdef Py_ssize_t at = 0, size = PyBytes_GET_SIZE(buffer)
        cdef bytes broker_text = broker.encode()
        cdef Text broker_name
        cdef Text pairs[2 * PAIRS_MAX]
        cdef Plain record
        cdef Named found
        cdef int64_t offset
        cdef int count = 0
        cdef bint are_read = len(tags) > 0 or self.is_named or self.pair_ends is not None
        broker_name.at, broker_name.length = <const uint8_t *> PyBytes_AS_STRING(broker_text), len(broker_text)
        while at < size:
            if not read_plain(data + at, size - at, &record) or not is_right(&record):
                break
            if not is_ascii(record.topic):
                break
            if are_read:
                count = read_pairs(record.properties, pairs, self.pair_ends is not None)
                if count < 0 or not (is_ascii(record.properties) or is_text(record.properties)):
                    break
            at += record.size
            offset = load64(record.head + QUEUE_OFFSET_AT)
            if offset >= end:
                continue
            if tags or self.is_named:
                choose(pairs, count, &found)
                if tags and (found.tags.length < 0 or text_of(found.tags) not in tags):
                    continue
            self.add_record(&record, broker_name)
            if self.is_named:
                self.add_named(&record, &found)
            if self.pair_ends is not None:
                self.add_pairs(pairs, count, record.properties.length)
            self.rows += 1
            self.last_offset, self.last_position = offset, load64(record.head + POSITION_AT)
        return at

    cdef int add_record(self, Plain *record, Text broker_name) except -1:
        cdef int number
        for number in range(self.number_count):
            (<_Numbers> self.numbers[number]).add(record.head)
        if self.bodies is not None:
            self.bodies.add(record.body.at, record.body.length)
        if self.topics is not None:
            self.topics.add(record.topic.at, record.topic.length)
        if self.brokers is not None:
            self.brokers.add(broker_name.at, broker_name.length)
        if self.born_hosts is not None:
            if self.born_text is None or memcmp(self.born, record.head + BORN_HOST_AT, 8) != 0:
                memcpy(self.born, record.head + BORN_HOST_AT, 8)
                self.born_text = host_text(self.born).encode()
            self.born_hosts.add(
                <const uint8_t *> PyBytes_AS_STRING(self.born_text), PyBytes_GET_SIZE(self.born_text)
            )
        return 0

    cdef int add_named(self, Plain *record, Named *found) except -1:
        cdef uint8_t made[ID_CHARACTERS]
        cdef int64_t time
        if self.ids is not None:
            if found.identity.length >= 0:
                self.ids.add(found.identity.at, found.identity.length)
            else:
                write_id(made, record.head)
                self.ids.add(made, ID_CHARACTERS)
        if self.tags is not None:
            self.tags.add_found(found.tags)
        if self.keys is not None:
            self.keys.add_found(found.keys)
        if self.groups is not None:
            self.groups.add_found(found.group)
        if self.due is not None:
            time = due_time(found)
            if self.due.rows == self.due.room:
                self.due.grow()
            (<int64_t *> self.due.out)[self.due.rows] = time * 1000 if time >= 0 else 0
            self.due.rows += 1
            self.due_valid.add(time >= 0)
        return 0

    cdef int add_pairs(self, Text *pairs, int count, Py_ssize_t length) except -1:
        cdef int number
        self.pair_names.make_room(count, length)
        self.pair_values.make_room(count, length)
        for number in range(count):
            self.pair_names.put(pairs[2 * number].at, pairs[2 * number].length)
            self.pair_values.put(pairs[2 * number + 1].at, pairs[2 * number + 1].length)
        if self.pair_ends.rows == self.pair_ends.room:
            self.pair_ends.grow()
        (<int32_t *> self.pair_ends.out)[self.pair_ends.rows] = <int32_t> self.pair_names.rows
        self.pair_ends.rows += 1
        return 0

    def take(self):
        """Return the buffers of each column, and begin anew."""
        cdef list taken = []
        for name in self.names:
            if name == "properties":
                pairs = self.pair_names.take()[1:], self.pair_values.take()[1:]
                taken.append((bytes(4) + self.pair_ends.take(), *pairs))
            elif name == "deliver_at":
                is_any = self.due_valid.set_count > 0
                valid = self.due_valid.take()
                taken.append((valid if is_any else None, self.due.take()))
            elif name in _NUMBERS:
                taken.append((None, (<_Numbers> self.columns[name]).take()))
            else:
                taken.append((<_Texts> self.columns[name]).take())
        self.rows = 0
        return taken


cdef inline bint is_right(Plain *record) noexcept nogil:
    """Return whether a record is one whose columns are what its bytes say."""
    cdef int64_t born = load64(record.head + BORN_AT_AT), stored = load64(record.head + STORED_AT_AT)
    return (
        not record.flags & COMPRESSED
        and -FURTHEST_MS <= born <= FURTHEST_MS
        and -FURTHEST_MS <= stored <= FURTHEST_MS
        and (pyromq_crc32(0, record.body.at, record.body.length) & CRC_MASK)
        == <uint32_t> load32(record.head + BODY_CRC_AT)
    )


cdef inline void choose(Text *pairs, int count, Named *found) noexcept nogil:
    """Find the properties that have a column."""
    cdef int number
    begin_named(found)
    for number in range(count):
        note_named(found, pairs[2 * number], pairs[2 * number + 1])


cdef bint is_text(Text text):
    """Return whether it is UTF-8; Arrow believes that it is."""
    try:
        PyUnicode_DecodeUTF8(<const char *> text.at, text.length, NULL)
    except UnicodeDecodeError:
        return False
    return True
