"""Messages turned into the buffers of Arrow's columns, straight from the bytes they were pulled in.

A column is filled for all messages in one call, and no Python object is made for a message of which nothing
was read yet. What was read or set before counts as it is now. `pyspark_rocketmq.source.columns` makes arrays of the
buffers, and its pure version says what each column means.

    due_times validity bits (None when none is valid), int64
    numbers   one number after the other, as the machine writes them
    texts     validity bits (None when all are valid), int32 offsets, bytes
    pairs     int32 offsets of rows among pairs, then offsets and bytes of names, and of values
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from pyromq._kernel.codec.bigend cimport load32, load64
from pyromq._kernel.codec.layout cimport (
    BORN_AT_AT, BORN_HOST_AT, FLAG_AT, QUEUE_OFFSET_AT, RECONSUME_TIMES_AT, STORED_AT_AT, SYS_FLAG_AT, Text,
    next_pair,
)
from pyromq._kernel.spark.named cimport (
    ID_CHARACTERS, PAIRS_MAX, TIME_DIGITS, Named, begin_named, due_time, is_ascii, note_named, read_pairs,
    write_id,
)
from pyromq._kernel.client.records cimport ReceivedMessage, host_text, text_of

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *length) except NULL

cdef enum:
    INT32_MAX = 0x7FFFFFFF

#: Columns that are a number of the record's head: where, how many bytes in the column, and times what.
_NUMBERS = {
    "queue_offset": (QUEUE_OFFSET_AT, 8, 1),
    "born_timestamp": (BORN_AT_AT, 8, 1000),
    "store_timestamp": (STORED_AT_AT, 8, 1000),
    "reconsume_times": (RECONSUME_TIMES_AT, 4, 1),
    "flag": (FLAG_AT, 4, 1),
    "sys_flag": (SYS_FLAG_AT, 4, 1),
}
#: Columns that are a property, and null without it.
_PROPERTIES = {"tags": "TAGS", "keys": "KEYS", "message_group": "__SHARDINGKEY"}


# Numbers


def numbers(list messages not None, str name not None):
    """Return a column of int32 or int64: queue_id, queue_offset, the two times in microseconds, flags."""
    cdef Py_ssize_t row, count = len(messages), at
    cdef int width
    cdef int64_t value, factor, furthest
    cdef ReceivedMessage message
    if name == "queue_id":
        return queue_ids(messages)
    at, width, factor = _NUMBERS[name]
    furthest = 0x7FFFFFFFFFFFFFFFLL // factor
    cdef bytearray column = bytearray(count * width)
    cdef uint8_t *out = <uint8_t *> PyByteArray_AS_STRING(column)
    for row in range(count):
        message = <ReceivedMessage?> messages[row]
        if width == 4:
            (<int32_t *> out)[row] = load32(message._head + at)
            continue
        value = load64(message._head + at)
        if factor != 1 and not -furthest <= value <= furthest:
            raise OverflowError(f"{name} {value} is too far away for a column of microseconds")
        (<int64_t *> out)[row] = value * factor
    return column


cdef bytearray queue_ids(list messages):
    cdef Py_ssize_t row, count = len(messages)
    cdef bytearray column = bytearray(count * 4)
    cdef int32_t *out = <int32_t *> PyByteArray_AS_STRING(column)
    cdef object last = None
    cdef int32_t queue_id = 0
    cdef ReceivedMessage message
    for row in range(count):
        message = <ReceivedMessage?> messages[row]
        if message.queue is not last:
            last = message.queue
            queue_id = last.queue_id
        out[row] = queue_id
    return column


def due_times(list messages not None):
    """Return validity bits (None when no message has the time) and the times that messages were due, in us."""
    cdef Py_ssize_t row, count = len(messages)
    cdef bytearray column = bytearray(count * 8), valid = bytearray((count + 7) // 8)
    cdef int64_t *out = <int64_t *> PyByteArray_AS_STRING(column)
    cdef uint8_t *bits = <uint8_t *> PyByteArray_AS_STRING(valid)
    cdef int64_t value
    cdef bint is_any = False
    cdef Named found
    cdef ReceivedMessage message
    for row in range(count):
        message = <ReceivedMessage?> messages[row]
        if message._properties is not None or message._buffer is None:
            text = message.properties.get("TIMER_OUT_MS", message.properties.get("TIMER_DELIVER_MS", ""))
            value = int(text) if text.isascii() and text.isdecimal() and len(text) <= TIME_DIGITS else -1
        else:
            walk(message._properties_text, &found)
            value = due_time(&found)
        if value >= 0:
            is_any = True
            bits[row >> 3] |= 1 << (row & 7)
            out[row] = value * 1000
    return valid if is_any else None, column


# _Texts


cdef class _Texts:
    """A column of texts that grows."""

    #: `data` has bytes to spare behind `used`.
    cdef bytearray offsets, data, valid
    cdef Py_ssize_t rows, nulls, room, used

    def __cinit__(self, Py_ssize_t rows, bint is_nullable):
        self.offsets = bytearray(4 * (rows + 1))
        self.valid = bytearray((rows + 7) // 8) if is_nullable else None
        self.data = bytearray()
        self.room = rows

    cdef int reserve(self, Py_ssize_t length) except -1:
        """Make room for so many bytes in all; offsets have 31 bits."""
        if length > INT32_MAX:
            raise OverflowError("a column has more than 2 GiB; gather fewer messages for each batch")
        PyByteArray_Resize(self.data, length)
        return 0

    cdef int add(self, const uint8_t *at, Py_ssize_t length) except -1:
        """Add a row of any bytes."""
        self.make_room(1, length)
        memcpy(PyByteArray_AS_STRING(self.data) + self.used, at, length)
        self.used += length
        if self.valid is not None:
            (<uint8_t *> PyByteArray_AS_STRING(self.valid))[self.rows >> 3] |= 1 << (self.rows & 7)
        self.end_row()
        return 0

    cdef int make_room(self, Py_ssize_t rows, Py_ssize_t length) except -1:
        """Make room for so many rows more, with so many bytes together."""
        if self.rows + rows > self.room:
            self.room = 2 * self.room + rows
            PyByteArray_Resize(self.offsets, 4 * (self.room + 1))
        if self.used + length > PyByteArray_GET_SIZE(self.data):
            # Twice as much, so that what is there is moved a few times only.
            self.reserve(max(self.used + length, min(2 * self.used + 4096, INT32_MAX)))
        return 0

    cdef inline void put(self, const uint8_t *at, Py_ssize_t length) noexcept:
        """Add a row that room was made for, to a column without nulls."""
        memcpy(PyByteArray_AS_STRING(self.data) + self.used, at, length)
        self.used += length
        self.end_row()

    cdef int add_text(self, Text text) except -1:
        """Add a row of what should be UTF-8; Arrow believes that it is."""
        if is_ascii(text):
            return self.add(text.at, text.length)
        return self.add_string(text_of(text))

    cdef int add_string(self, text) except -1:
        cdef Py_ssize_t length
        cdef const char *at
        if text is None:
            self.nulls += 1
            self.end_row()
            return 0
        at = PyUnicode_AsUTF8AndSize(text, &length)
        return self.add(<const uint8_t *> at, length)

    cdef inline void end_row(self) noexcept:
        self.rows += 1
        (<int32_t *> PyByteArray_AS_STRING(self.offsets))[self.rows] = <int32_t> self.used

    cdef tuple buffers(self):
        PyByteArray_Resize(self.offsets, 4 * (self.rows + 1))
        PyByteArray_Resize(self.data, self.used)
        return self.valid if self.nulls else None, self.offsets, self.data


def texts(list messages not None, str name not None):
    """Return a column of strings, or `body`."""
    cdef _Texts column = _Texts(len(messages), name in _PROPERTIES)
    if name == "topic":
        fill_topics(column, messages)
    elif name == "broker":
        fill_brokers(column, messages)
    elif name == "born_host":
        fill_born_hosts(column, messages)
    elif name == "body":
        fill_bodies(column, messages)
    elif name == "msg_id":
        fill_ids(column, messages)
    else:
        fill_property(column, messages, _PROPERTIES[name])
    return column.buffers()


cdef int fill_topics(_Texts column, list messages) except -1:
    cdef object one
    for one in messages:
        column.add_string((<ReceivedMessage?> one).topic)
    return 0


cdef int fill_brokers(_Texts column, list messages) except -1:
    cdef object one, last = None, name = None
    for one in messages:
        if (<ReceivedMessage?> one).queue is not last:
            last = (<ReceivedMessage> one).queue
            name = last.broker_name
        column.add_string(name)
    return 0


cdef int fill_born_hosts(_Texts column, list messages) except -1:
    """Most messages of a pull were born on the same host."""
    cdef uint8_t last[8]
    cdef object one, text = None
    cdef ReceivedMessage message
    for one in messages:
        message = <ReceivedMessage?> one
        if message._born_host is not None:
            column.add_string(message._born_host)
            continue
        if text is None or memcmp(last, message._head + BORN_HOST_AT, 8) != 0:
            memcpy(last, message._head + BORN_HOST_AT, 8)
            text = host_text(last)
        column.add_string(text)
    return 0


cdef int fill_bodies(_Texts column, list messages) except -1:
    cdef object one
    cdef ReceivedMessage message
    cdef Py_ssize_t total = 0
    for one in messages:
        total += (<ReceivedMessage?> one)._body_text.length
    column.reserve(total)
    for one in messages:
        message = <ReceivedMessage?> one
        if message._body is None and message._buffer is not None:
            column.add(message._body_text.at, message._body_text.length)
        else:
            body = <bytes?> message._body
            column.add(<const uint8_t *> PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))
    return 0


cdef int fill_ids(_Texts column, list messages) except -1:
    cdef object one
    cdef ReceivedMessage message
    cdef Text found
    cdef uint8_t made[ID_CHARACTERS]
    for one in messages:
        message = <ReceivedMessage?> one
        if message._message_id is not None or message._buffer is None:
            column.add_string(message.message_id)
        elif find_property(message._properties_text, b"UNIQ_KEY", 8, &found):
            column.add_text(found)
        elif message._offset_message_id is not None:
            column.add_string(message._offset_message_id)
        else:
            write_id(made, message._head)
            column.add(made, ID_CHARACTERS)
    return 0


cdef bint find_property(Text left, const char *wanted, Py_ssize_t length, Text *found) noexcept:
    """Find a property; of two with one name the later holds."""
    cdef Text name, value
    cdef bint is_found = False
    while next_pair(&left, &name, &value):
        if name.length == length and memcmp(name.at, wanted, length) == 0:
            found[0] = value
            is_found = True
    return is_found


cdef int fill_property(_Texts column, list messages, str name) except -1:
    cdef object one
    cdef ReceivedMessage message
    cdef Text found
    cdef bytes wanted = name.encode()
    for one in messages:
        message = <ReceivedMessage?> one
        if message._properties is not None or message._buffer is None or message._added and name in message._added:
            column.add_string(message.properties.get(name))
        elif find_property(message._properties_text, wanted, len(wanted), &found):
            column.add_text(found)
        else:
            column.add_string(None)
    return 0


def named(list messages not None, tuple wanted not None):
    """Return some of the columns msg_id, tags, keys and message_group, by one walk over the properties."""
    cdef Py_ssize_t count = len(messages)
    cdef _Texts ids = _Texts(count, False) if "msg_id" in wanted else None
    cdef _Texts tags = _Texts(count, True) if "tags" in wanted else None
    cdef _Texts keys = _Texts(count, True) if "keys" in wanted else None
    cdef _Texts groups = _Texts(count, True) if "message_group" in wanted else None
    cdef ReceivedMessage message
    cdef Named found
    cdef object one
    for one in messages:
        message = <ReceivedMessage?> one
        if (
            message._properties is not None
            or message._message_id is not None
            or message._offset_message_id is not None
            or message._buffer is None
            or message._added
        ):
            add_read(message, ids, tags, keys, groups)
            continue
        walk(message._properties_text, &found)
        if ids is not None:
            add_id(ids, message, found.identity)
        add_found(tags, found.tags)
        add_found(keys, found.keys)
        add_found(groups, found.group)
    made = {"msg_id": ids, "tags": tags, "keys": keys, "message_group": groups}
    return [(<_Texts?> made[name]).buffers() for name in wanted]


cdef inline void walk(Text left, Named *found) noexcept nogil:
    """Find the properties that have a column."""
    cdef Text name, value
    begin_named(found)
    while next_pair(&left, &name, &value):
        note_named(found, name, value)


cdef int add_found(_Texts column, Text found) except -1:
    if column is None:
        return 0
    return column.add_string(None) if found.length < 0 else column.add_text(found)


cdef int add_id(_Texts ids, ReceivedMessage message, Text identity) except -1:
    cdef uint8_t made[ID_CHARACTERS]
    if identity.length >= 0:
        return ids.add_text(identity)
    write_id(made, message._head)
    return ids.add(made, ID_CHARACTERS)


cdef int add_read(
    ReceivedMessage message, _Texts ids, _Texts tags, _Texts keys, _Texts groups
) except -1:
    """Add what was read or set before, as it is now."""
    if ids is not None:
        ids.add_string(message.message_id)
    if tags is not None:
        tags.add_string(message.properties.get("TAGS"))
    if keys is not None:
        keys.add_string(message.properties.get("KEYS"))
    if groups is not None:
        groups.add_string(message.properties.get("__SHARDINGKEY"))
    return 0


# Pairs


def pairs(list messages not None):
    """Return the column of the properties, a map."""
    cdef Py_ssize_t row, count = len(messages)
    cdef bytearray offsets = bytearray(4 * (count + 1))
    cdef _Texts names = _Texts(8 * count, False), values = _Texts(8 * count, False)
    cdef ReceivedMessage message
    for row in range(count):
        message = <ReceivedMessage?> messages[row]
        if (
            message._properties is not None
            or message._buffer is None
            or not add_pairs(names, values, message._properties_text, message._added)
        ):
            for name, value in message.properties.items():
                names.add_string(name)
                values.add_string(value)
        if names.rows > INT32_MAX:
            raise OverflowError("a column has too many pairs; gather fewer messages for each batch")
        (<int32_t *> PyByteArray_AS_STRING(offsets))[row + 1] = <int32_t> names.rows
    return offsets, names.buffers()[1:], values.buffers()[1:]


cdef bint add_pairs(_Texts names, _Texts values, Text left, dict added) except -1:
    """Add the pairs of a message; return False, with nothing added, when a name is there twice."""
    cdef Text found[2 * PAIRS_MAX]
    cdef Text all_of_it = left
    cdef int count = read_pairs(left, found, True), number
    if count < 0:
        return False
    if added:
        for number in range(count):
            if is_added(found[2 * number], added):
                return False
    if is_ascii(all_of_it):
        names.make_room(count, all_of_it.length)
        values.make_room(count, all_of_it.length)
        for number in range(count):
            names.put(found[2 * number].at, found[2 * number].length)
            values.put(found[2 * number + 1].at, found[2 * number + 1].length)
    else:
        for number in range(count):
            # Two names that are not UTF-8 may read the same.
            if not is_ascii(found[2 * number]):
                return False
        for number in range(count):
            names.add(found[2 * number].at, found[2 * number].length)
            values.add_text(found[2 * number + 1])
    for name, value in added.items():
        names.add_string(name)
        values.add_string(value)
    return True


cdef inline bint is_added(Text name, dict added) except -1:
    cdef Py_ssize_t length
    cdef const char *at
    for one in added:
        at = PyUnicode_AsUTF8AndSize(one, &length)
        if length == name.length and memcmp(at, name.at, length) == 0:
            return True
    return False
