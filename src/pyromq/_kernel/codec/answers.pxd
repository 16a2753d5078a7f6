"""The frames of answers: what all of a kind have in common, and what varies between its pieces."""

from libc.stdint cimport int64_t, uint8_t

from pyromq._kernel.codec.frames cimport Frame

cdef enum:
    PARTS_MAX = 16

    #: What follows a piece: nothing, the request's opaque, or one of the fields that vary.
    PART_NONE = 0
    PART_OPAQUE = 1
    PART_FIRST = 2
    VALUES_MAX = 7


cdef struct Part:
    int kind
    Py_ssize_t start
    Py_ssize_t length


cdef struct Value:
    #: NULL when the value is the number.
    const uint8_t *text
    Py_ssize_t length
    int64_t number


cdef class AnswerHead:
    cdef bytes _literals, _binary_literals, _remark
    cdef Part _parts[PARTS_MAX]
    cdef Part _binary_parts[PARTS_MAX]
    cdef int _part_count, _binary_part_count
    cdef int _code, _language, _version
    #: Bytes that a head has at most, the texts among its values left out.
    cdef Py_ssize_t bytes_max

    cdef uint8_t *write(self, uint8_t *start, Frame *frame, Value *values, Py_ssize_t body_length) noexcept
