"""The head of a request, read in place."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t


cdef enum:
    FIELDS_MAX = 32
    #: Of a number.
    DIGITS_MAX = 18
    #: How many bytes `unescape` may write behind the text.
    UNESCAPE_BEYOND = 15


cdef struct Span:
    const uint8_t *at
    Py_ssize_t length
    #: Whether the bytes are JSON's, with escapes that still stand for other characters.
    bint is_escaped


cdef struct Field:
    Span name
    Span value


cdef struct Frame:
    int32_t code, flag, opaque, version
    bint is_json
    int field_count
    Field fields[FIELDS_MAX]
    #: Where the field is that has a small letter for its name, -1 when there is none.
    int8_t letters[26]
    const uint8_t *body
    Py_ssize_t body_length
    #: The byte behind the frame.
    const uint8_t *end


cdef enum Reading:
    #: The frame is read.
    READ
    #: More bytes are needed.
    PARTIAL
    #: Something is unusual: Python's to read.
    UNUSUAL


cdef Reading read_frame(const uint8_t *at, const uint8_t *end, Frame *frame) noexcept nogil
cdef int32_t first_code(const uint8_t *at, const uint8_t *end) noexcept nogil
cdef Span *find_field(Frame *frame, const char *name, Py_ssize_t length) noexcept nogil
cdef bint read_bool(Span *text, bint *value) noexcept nogil
cdef Py_ssize_t unescape(Span *text, uint8_t *out) noexcept nogil


cdef inline Span *letter_field(Frame *frame, char letter) noexcept nogil:
    """Return the value of the field that has a small letter for its name, NULL when it is not there."""
    cdef int i = frame.letters[letter - c'a']
    return NULL if i < 0 else &frame.fields[i].value


cdef inline bint read_number(Span *text, int64_t low, int64_t high, int64_t *number) noexcept nogil:
    """Read a whole number as every client writes it: no plus, no leading zeros."""
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef bint is_negative = at < end and at[0] == c'-'
    cdef int64_t value = 0
    if is_negative:
        at += 1
    if at >= end or end - at > DIGITS_MAX or (at[0] == c'0' and (is_negative or end - at > 1)):
        return False
    while at < end:
        if at[0] < c'0' or at[0] > c'9':
            return False
        value = value * 10 + (at[0] - c'0')
        at += 1
    if is_negative:
        value = -value
    number[0] = value
    return low <= value <= high
