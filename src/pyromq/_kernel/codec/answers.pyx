"""The frames of answers: what all of a kind have in common, and what varies between its pieces.

`pyromq.broker.requests.answer_parts` cuts an answer that Python encoded into the pieces.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, uint8_t

from pyromq._kernel.codec.bigend cimport store16, store32, write_decimal
from pyromq._kernel.codec.blocks cimport copy
from pyromq._kernel.codec.frames cimport Frame

cdef enum:
    FLAG_RESPONSE = 1
    #: The lengths of frame and header, and a binary header up to its fields.
    LENGTHS = 8
    BINARY_HEAD_BYTES = 21
    #: A number as text, and its length before it.
    NUMBER_BYTES_MAX = 24
    BINARY_MARK = 1 << 24


cdef class AnswerHead:
    """Everything of an answer but its body."""

    def __cinit__(
        self, *, list parts not None, list binary_parts not None, bytes remark not None, int language, int version,
        int code=0,
    ):
        self._literals = b"".join([literal for literal, _ in parts])
        self._binary_literals = b"".join([literal for literal, _ in binary_parts])
        self._part_count = _set_parts(self._parts, parts)
        self._binary_part_count = _set_parts(self._binary_parts, binary_parts)
        self._remark = remark
        self._code = code
        self._language = language
        self._version = version
        self.bytes_max = (
            LENGTHS
            + BINARY_HEAD_BYTES
            + len(remark)
            + max(len(self._literals), len(self._binary_literals))
            + PARTS_MAX * NUMBER_BYTES_MAX
        )

    cdef uint8_t *write(self, uint8_t *start, Frame *frame, Value *values, Py_ssize_t body_length) noexcept:
        """Write the head of an answer to a request and return the byte behind it; there must be room."""
        cdef uint8_t *at = start + LENGTHS
        cdef uint8_t *fields
        if frame.is_json:
            at = _fill(at, PyBytes_AS_STRING(self._literals), self._parts, self._part_count, values, False)
        else:
            at = store16(at, <int16_t> self._code)
            at[0] = <uint8_t> self._language
            at = store16(at + 1, <int16_t> self._version)
            at = store32(at, frame.opaque)
            at = store32(at, FLAG_RESPONSE)
            at = store32(at, <int32_t> PyBytes_GET_SIZE(self._remark))
            fields = copy(at, PyBytes_AS_STRING(self._remark), PyBytes_GET_SIZE(self._remark))
            at = _fill(
                fields + 4, PyBytes_AS_STRING(self._binary_literals), self._binary_parts, self._binary_part_count,
                values, True,
            )
            store32(fields, <int32_t> (at - fields - 4))
        store32(start, <int32_t> (at - start - 4 + body_length))
        store32(start + 4, <int32_t> (at - start - LENGTHS) | (0 if frame.is_json else BINARY_MARK))
        return at


cdef uint8_t *_fill(
    uint8_t *at, const char *literals, Part *parts, int count, Value *values, bint has_lengths
) noexcept nogil:
    """Write literals and, between them, what varies; with its length before it in the binary header."""
    cdef int i
    cdef uint8_t *length_at
    cdef Value *value
    for i in range(count):
        at = copy(at, literals + parts[i].start, parts[i].length)
        if parts[i].kind == PART_NONE:
            continue
        length_at = at
        if has_lengths:
            at += 4
        value = &values[parts[i].kind]
        if value.text == NULL:
            at = write_decimal(at, value.number)
        else:
            at = copy(at, value.text, value.length)
        if has_lengths:
            store32(length_at, <int32_t> (at - length_at - 4))
    return at


cdef int _set_parts(Part *parts, list literals) except -1:
    cdef int count = 0, number
    cdef Py_ssize_t start = 0
    if len(literals) > PARTS_MAX:
        raise ValueError("too many parts")
    for literal, kind in literals:
        number = kind
        if not 0 <= number < VALUES_MAX:
            raise ValueError(f"there is no value {number}")
        parts[count].kind = number
        parts[count].start = start
        parts[count].length = len(literal)
        start += len(literal)
        count += 1
    return count
