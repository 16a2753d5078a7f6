"""The place that a request about a group's progress names: a group, a topic and a queue."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memchr, memcpy

from pyromq._kernel.codec.frames cimport Frame, Span, find_field, read_number

cdef enum:
    PLACE_FIELDS = 3
    PLACE_BYTES_MAX = 1024


cdef inline bytes place_key(Frame *frame):
    """Return group, topic and queue as Python puts them together, None when a field is missing or unusual."""
    cdef uint8_t key[PLACE_BYTES_MAX]
    cdef uint8_t *at = key
    cdef Span *field
    cdef int64_t number
    cdef int i
    for i in range(frame.field_count):
        # A field that nobody looks at may have escapes that mean nothing.
        if frame.fields[i].value.is_escaped:
            return None
    for i in range(PLACE_FIELDS):
        if i == 0:
            field = find_field(frame, b"consumerGroup", 13)
        elif i == 1:
            field = find_field(frame, b"topic", 5)
        else:
            field = find_field(frame, b"queueId", 7)
        if field == NULL or field.length + 1 > key + PLACE_BYTES_MAX - at:
            return None
        if field.length and memchr(field.at, 0, field.length) != NULL:
            return None
        if i == 2 and not read_number(field, -(1 << 62), 1 << 62, &number):
            return None
        if field.length:
            memcpy(at, field.at, field.length)
        at += field.length
        at[0] = 0
        at += 1
    return PyBytes_FromStringAndSize(<char *> key, at - key)
