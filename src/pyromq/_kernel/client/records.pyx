"""A pulled buffer, turned into messages that read their own bytes when they are asked.

`ReceivedMessage` is `pyromq.model.PureReceivedMessage` for whoever uses it: the same fields, order, text and
equality, `dataclasses.replace` and pickles included. Its numbers are the record's head, copied; body and
properties are read from the buffer when first asked for, and the buffer is let go when both have been.
"""

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

import cython
from dataclasses import make_dataclass

from pyromq._kernel.codec.bigend cimport load32, load64, store32, store64
from pyromq._kernel.codec.crc32 cimport pyromq_crc32
from pyromq._kernel.codec.layout cimport (
    BODY_CRC_AT, BORN_AT_AT, BORN_HOST_AT, COMPRESSED, CRC_MASK, FLAG_AT, HEAD_BYTES, POSITION_AT,
    PREPARED_POSITION_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT, RECONSUME_TIMES_AT, STORED_AT_AT, STORE_HOST_AT,
    SYS_FLAG_AT, Plain, Text, next_pair, read_plain,
)

_FIELDS = (
    ("topic", str), ("body", bytes), ("queue", "MessageQueue"), ("queue_offset", int), ("position", int),
    ("message_id", str), ("offset_message_id", str), ("properties", dict), ("flag", int), ("sys_flag", int),
    ("born_at_ms", int), ("born_host", str), ("stored_at_ms", int), ("store_host", str),
    ("reconsume_times", int), ("prepared_position", int), ("body_crc", int), ("size", int),
)
_NAMES = tuple([name for name, _ in _FIELDS])


cdef str text_of(Text text):
    return PyUnicode_DecodeUTF8(<const char *> text.at, text.length, "replace")


cdef str host_text(const uint8_t *host):
    return f"{host[0]}.{host[1]}.{host[2]}.{host[3]}:{load32(host + 4)}"


@cython.freelist(256)
cdef class ReceivedMessage:
    """A message as a consumer or an admin tool gets it; the body is decompressed."""

    __dataclass_fields__ = make_dataclass("ReceivedMessage", _FIELDS).__dataclass_fields__
    __match_args__ = _NAMES

    def __init__(
        self, topic, body, queue, queue_offset, position, message_id, offset_message_id, properties, flag,
        sys_flag, born_at_ms, born_host, stored_at_ms, store_host, reconsume_times, prepared_position,
        body_crc, size,
    ):
        memset(self._head, 0, HEAD_BYTES)
        self._buffer = None
        self.topic, self._body, self.queue = topic, body, queue
        self.queue_offset, self.position = queue_offset, position
        self._message_id, self._offset_message_id, self._properties = message_id, offset_message_id, properties
        self.flag, self.sys_flag = flag, sys_flag
        self.born_at_ms, self._born_host = born_at_ms, born_host
        self.stored_at_ms, self._store_host = stored_at_ms, store_host
        self.reconsume_times, self.prepared_position = reconsume_times, prepared_position
        self.body_crc, self.size = body_crc, size

    # What is read when it is asked for

    @property
    def body(self):
        if self._body is None and self._buffer is not None:
            self._body = self._body_text.at[: self._body_text.length]
            self._let_go()
        return self._body

    @body.setter
    def body(self, value):
        self._body = value
        self._let_go()

    @property
    def properties(self):
        if self._properties is None and self._buffer is not None:
            self._read_properties()
        return self._properties

    @properties.setter
    def properties(self, value):
        if self._message_id is None and self._buffer is not None:
            self._read_properties()
        self._properties = value

    @property
    def message_id(self):
        if self._message_id is None and self._buffer is not None:
            self._read_properties()
        return self._message_id

    @message_id.setter
    def message_id(self, value):
        if self._properties is None and self._buffer is not None:
            self._read_properties()
        self._message_id = value

    cdef int _read_properties(self) except -1:
        cdef dict properties = {}
        cdef Text left = self._properties_text, name, value
        while next_pair(&left, &name, &value):
            properties[text_of(name)] = text_of(value)
        identity = properties.get("UNIQ_KEY")
        self._message_id = self.offset_message_id if identity is None else identity
        if self._added is not None:
            properties.update(self._added)
        self._properties = properties
        self._let_go()
        return 0

    cdef void _let_go(self) noexcept:
        if self._body is not None and self._properties is not None:
            self._buffer = None

    @property
    def offset_message_id(self):
        if self._offset_message_id is None:
            self._offset_message_id = (
                self._head[STORE_HOST_AT : STORE_HOST_AT + 8] + self._head[POSITION_AT : POSITION_AT + 8]
            ).hex().upper()
        return self._offset_message_id

    @offset_message_id.setter
    def offset_message_id(self, value):
        self._offset_message_id = value

    @property
    def born_host(self):
        if self._born_host is None:
            self._born_host = host_text(self._head + BORN_HOST_AT)
        return self._born_host

    @born_host.setter
    def born_host(self, value):
        self._born_host = value

    @property
    def store_host(self):
        if self._store_host is None:
            self._store_host = host_text(self._head + STORE_HOST_AT)
        return self._store_host

    @store_host.setter
    def store_host(self, value):
        self._store_host = value

    # Numbers, in the record's head

    @property
    def size(self):
        return load32(self._head)

    @size.setter
    def size(self, int32_t value):
        store32(self._head, value)

    @property
    def body_crc(self):
        return load32(self._head + BODY_CRC_AT)

    @body_crc.setter
    def body_crc(self, int32_t value):
        store32(self._head + BODY_CRC_AT, value)

    @property
    def flag(self):
        return load32(self._head + FLAG_AT)

    @flag.setter
    def flag(self, int32_t value):
        store32(self._head + FLAG_AT, value)

    @property
    def queue_offset(self):
        return load64(self._head + QUEUE_OFFSET_AT)

    @queue_offset.setter
    def queue_offset(self, int64_t value):
        store64(self._head + QUEUE_OFFSET_AT, value)

    @property
    def position(self):
        return load64(self._head + POSITION_AT)

    @position.setter
    def position(self, int64_t value):
        # The id that follows from it stays what it was.
        self.offset_message_id
        store64(self._head + POSITION_AT, value)

    @property
    def sys_flag(self):
        return load32(self._head + SYS_FLAG_AT)

    @sys_flag.setter
    def sys_flag(self, int32_t value):
        store32(self._head + SYS_FLAG_AT, value)

    @property
    def born_at_ms(self):
        return load64(self._head + BORN_AT_AT)

    @born_at_ms.setter
    def born_at_ms(self, int64_t value):
        store64(self._head + BORN_AT_AT, value)

    @property
    def stored_at_ms(self):
        return load64(self._head + STORED_AT_AT)

    @stored_at_ms.setter
    def stored_at_ms(self, int64_t value):
        store64(self._head + STORED_AT_AT, value)

    @property
    def reconsume_times(self):
        return load32(self._head + RECONSUME_TIMES_AT)

    @reconsume_times.setter
    def reconsume_times(self, int32_t value):
        store32(self._head + RECONSUME_TIMES_AT, value)

    @property
    def prepared_position(self):
        return load64(self._head + PREPARED_POSITION_AT)

    @prepared_position.setter
    def prepared_position(self, int64_t value):
        store64(self._head + PREPARED_POSITION_AT, value)

    # What the dataclass has

    @property
    def tags(self):
        """The tag, if it has one; a message has at most one, whatever RocketMQ's name for it says."""
        return self.properties.get("TAGS")

    @property
    def keys(self):
        """The keys one by one."""
        return self.properties.get("KEYS", "").split()

    cdef tuple _values(self):
        return (
            self.topic, self.body, self.queue, self.queue_offset, self.position, self.message_id,
            self.offset_message_id, self.properties, self.flag, self.sys_flag, self.born_at_ms,
            self.born_host, self.stored_at_ms, self.store_host, self.reconsume_times,
            self.prepared_position, self.body_crc, self.size,
        )

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self._values() == (<ReceivedMessage> other)._values()

    def __repr__(self):
        pairs = ", ".join([f"{name}={value!r}" for name, value in zip(_NAMES, self._values())])
        return f"{type(self).__qualname__}({pairs})"

    def __reduce__(self):
        # Read where there is no kernel, too.
        from pyromq.model import restore_received

        return restore_received, self._values()


cdef bint is_wanted(Text left, frozenset tags):
    """Return whether a message has one of the tags; of two pairs with one name the later holds."""
    cdef Text name, value, found
    found.length = 0
    while next_pair(&left, &name, &value):
        if name.length == 4 and memcmp(name.at, b"TAGS", 4) == 0:
            found = value
    return found.length > 0 and text_of(found) in tags


def read_messages(bytes buffer not None, dict added not None, frozenset tags not None, make_queue, other):
    """Return the messages of an answer's body that have one of the tags, or all when none is named.

    `added` are pairs for each message's properties. `make_queue` makes a queue of a topic and an id. A record
    that is not plain, or not right, is left to `other`, which is called with the buffer and the place, and
    returns the message and the record's size, or raises.
    """
    cdef Py_ssize_t at = 0, end = len(buffer)
    cdef const uint8_t *data = buffer
    cdef Plain record
    cdef Text name
    cdef int32_t queue_id, last_queue_id = 0
    cdef object topic = None, queue = None
    cdef ReceivedMessage message
    cdef list messages = []
    name.at, name.length = NULL, -1
    while at < end:
        if (
            not read_plain(data + at, end - at, &record)
            or record.flags & COMPRESSED
            or (pyromq_crc32(0, record.body.at, record.body.length) & CRC_MASK)
            != <uint32_t> load32(record.head + BODY_CRC_AT)
        ):
            unusual, size = other(buffer, at)
            if size <= 0:
                raise ValueError("a record has bytes")
            if not tags or unusual.tags in tags:
                unusual.properties.update(added)
                messages.append(unusual)
            at += size
            continue
        at += record.size
        if tags and not is_wanted(record.properties, tags):
            continue
        queue_id = load32(record.head + QUEUE_ID_AT)
        if name.length != record.topic.length or memcmp(name.at, record.topic.at, name.length) != 0:
            name = record.topic
            topic, queue = text_of(name), None
        if queue is None or queue_id != last_queue_id:
            queue, last_queue_id = make_queue(topic, queue_id), queue_id
        message = ReceivedMessage.__new__(ReceivedMessage)
        memcpy(message._head, record.head, HEAD_BYTES)
        message.topic, message.queue = topic, queue
        message._buffer, message._added = buffer, added
        message._body_text, message._properties_text = record.body, record.properties
        messages.append(message)
    return messages
