"""A stored message in its bytes: where its parts are, and the pairs of its properties.

`read_plain` is the only place where the lengths in a record are believed, and it checks each before it reads
on: `pyromq.wire.record.decode_record` says what they mean. It knows one shape, version 1 with IPv4 hosts; what
it refuses is for Python to read.
"""

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memchr

from pyromq._kernel.codec.bigend cimport load16, load32

cdef enum:
    MAGIC_V1 = -626843481
    #: The head of a record with IPv4 hosts, and the two lengths that are behind its body at least.
    HEAD_BYTES = 88
    RECORD_BYTES_MIN = 91
    CRC_MASK = 0x7FFFFFFF

    BODY_CRC_AT = 8
    QUEUE_ID_AT = 12
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    POSITION_AT = 28
    SYS_FLAG_AT = 36
    BORN_AT_AT = 40
    BORN_HOST_AT = 48
    STORED_AT_AT = 56
    STORE_HOST_AT = 64
    RECONSUME_TIMES_AT = 72
    PREPARED_POSITION_AT = 76
    BODY_BYTES_AT = 84

    #: Bits of a sysFlag.
    COMPRESSED = 0x1
    PREPARED = 0x4
    IPV6_HOSTS = 0x10 | 0x20


cdef struct Text:
    const uint8_t *at
    Py_ssize_t length


cdef struct Plain:
    const uint8_t *head
    int32_t size
    int32_t flags
    Text body
    Text topic
    Text properties


cdef inline bint read_plain(const uint8_t *data, Py_ssize_t left, Plain *record) noexcept nogil:
    """Find the parts of the record at the beginning of `left` bytes; return whether it is whole and plain."""
    cdef int32_t body_bytes
    cdef Py_ssize_t tail_bytes, properties_bytes
    if left < RECORD_BYTES_MIN or load32(data + 4) != MAGIC_V1:
        return False
    record.head = data
    record.size = load32(data)
    record.flags = load32(data + SYS_FLAG_AT)
    body_bytes = load32(data + BODY_BYTES_AT)
    if record.flags & IPV6_HOSTS or body_bytes < 0 or record.size > left:
        return False
    # Bytes behind the body: the topic and its length, one byte, the properties and theirs, two.
    tail_bytes = <Py_ssize_t> record.size - HEAD_BYTES - body_bytes
    if tail_bytes < 3:
        return False
    record.body.at, record.body.length = data + HEAD_BYTES, body_bytes
    record.topic.at = record.body.at + body_bytes + 1
    record.topic.length = (record.topic.at - 1)[0]
    properties_bytes = tail_bytes - 3 - record.topic.length
    if properties_bytes < 0 or load16(record.topic.at + record.topic.length) != properties_bytes:
        return False
    record.properties.at = record.topic.at + record.topic.length + 2
    record.properties.length = properties_bytes
    return True


cdef inline bint next_part(Text *left, uint8_t separator, Text *part) noexcept nogil:
    """Take the part before the next separator off a text; return whether there was one.

    Nothing behind a last separator is no part, which nobody misses: empty ones count for nothing.
    """
    cdef const uint8_t *mark
    if left.length <= 0:
        return False
    part.at = left.at
    mark = <const uint8_t *> memchr(left.at, separator, left.length)
    if mark == NULL:
        part.length, left.length = left.length, 0
        return True
    part.length = mark - left.at
    left.at = mark + 1
    left.length -= part.length + 1
    return True


cdef inline bint next_pair(Text *left, Text *name, Text *value) noexcept nogil:
    """Take the next pair off a string of properties; one with an empty name or value is none."""
    cdef Text part
    cdef const uint8_t *mark
    while next_part(left, 2, &part):
        if part.length == 0:
            continue
        mark = <const uint8_t *> memchr(part.at, 1, part.length)
        if mark == NULL or mark == part.at or mark + 1 == part.at + part.length:
            continue
        name.at, name.length = part.at, mark - part.at
        value.at, value.length = mark + 1, part.at + part.length - mark - 1
        return True
    return False
