"""The head of a request, read in place: where its fields begin and end, and nothing made of them.

Only what is plain is read. A header with a byte outside printable ASCII, a number that is not written the
usual way, a value of another type, a field twice: all that is UNUSUAL, and left to `pyromq.wire.command`,
which knows what it means or why it means nothing. So this file never refuses anything.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memset

from pyromq._kernel.codec.bigend cimport load16, load32

cdef enum:
    FRAME_BYTES_MAX = 16777216
    SERIALIZER_JSON = 0
    SERIALIZER_BINARY = 1
    BINARY_HEAD_BYTES = 17
    CODE_DIGITS_MAX = 7


cdef extern from "json_text.h" nogil:
    const uint8_t *pyromq_skip_plain(const uint8_t *at, const uint8_t *end)
    const uint8_t *pyromq_copy_plain(uint8_t *out, const uint8_t *at, const uint8_t *end)


cdef Reading read_frame(const uint8_t *at, const uint8_t *end, Frame *frame) noexcept nogil:
    cdef Py_ssize_t available = end - at
    cdef int64_t length, header_length
    cdef const uint8_t *header
    if available < 8:
        return PARTIAL
    length = load32(at)
    header_length = load32(at + 4) & 0xFFFFFF
    if length < 4 or length + 4 > FRAME_BYTES_MAX or header_length > length - 4:
        return UNUSUAL
    if available < length + 4:
        return PARTIAL
    header = at + 8
    frame.body = header + header_length
    frame.end = at + 4 + length
    frame.body_length = frame.end - frame.body
    frame.field_count = 0
    frame.code = frame.flag = frame.opaque = frame.version = 0
    memset(frame.letters, 0xFF, sizeof(frame.letters))
    if at[4] == SERIALIZER_JSON:
        frame.is_json = True
        return READ if _read_json(header, frame.body, frame) else UNUSUAL
    if at[4] == SERIALIZER_BINARY:
        frame.is_json = False
        return READ if _read_binary(header, frame.body, frame) else UNUSUAL
    return UNUSUAL


cdef int32_t first_code(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Return the code that a header begins with, as those of clients do; -1 when only `read_frame` can tell.

    Whoever takes requests of other codes need not read the frame.
    """
    cdef int32_t code = 0
    cdef const uint8_t *first
    if end - at < 10:
        return -1
    if at[4] == SERIALIZER_BINARY:
        return load16(at + 8)
    if at[4] != SERIALIZER_JSON or end - at < 24 or memcmp(at + 8, b'{"code":', 8) != 0:
        return -1
    at += 16
    first = at
    while at - first < CODE_DIGITS_MAX and c'0' <= at[0] <= c'9':
        code = 10 * code + (at[0] - c'0')
        at += 1
    return code if at > first and (at[0] == c',' or at[0] == c'}') else -1


cdef Span *find_field(Frame *frame, const char *name, Py_ssize_t length) noexcept nogil:
    """Return a field's value, NULL when it is not there."""
    cdef int i
    cdef Field *field
    if length == 1 and c'a' <= name[0] <= c'z':
        return letter_field(frame, name[0])
    for i in range(frame.field_count):
        field = &frame.fields[i]
        if field.name.length == length and (
            length == 0 or (field.name.at[0] == <uint8_t> name[0] and memcmp(field.name.at, name, length) == 0)
        ):
            return &field.value
    return NULL


cdef bint read_bool(Span *text, bint *value) noexcept nogil:
    if text.length == 4 and memcmp(text.at, b"true", 4) == 0:
        value[0] = True
        return True
    value[0] = False
    return text.length == 5 and memcmp(text.at, b"false", 5) == 0


cdef Py_ssize_t unescape(Span *text, uint8_t *out) noexcept nogil:
    """Write the characters that a JSON string stands for; return how many, -1 when one is not ASCII.

    There must be room for UNESCAPE_BEYOND bytes more than the text has.
    """
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef const uint8_t *plain_end
    cdef uint8_t *start = out
    cdef uint8_t letter
    cdef int high, low
    while True:
        plain_end = pyromq_copy_plain(out, at, end)
        out += plain_end - at
        at = plain_end
        if at >= end:
            return out - start
        if end - at < 2:
            return -1
        letter = at[1]
        at += 2
        if letter == c'u':
            if end - at < 4 or at[0] != c'0' or at[1] != c'0':
                return -1
            high = _hex(at[2])
            low = _hex(at[3])
            if high < 0 or low < 0 or high > 7:
                return -1
            out[0] = <uint8_t> (high * 16 + low)
            at += 4
        elif letter == c'"' or letter == c'\\' or letter == c'/':
            out[0] = letter
        elif letter == c'n':
            out[0] = 10
        elif letter == c't':
            out[0] = 9
        elif letter == c'r':
            out[0] = 13
        elif letter == c'b':
            out[0] = 8
        elif letter == c'f':
            out[0] = 12
        else:
            return -1
        out += 1


cdef inline int _hex(uint8_t letter) noexcept nogil:
    if c'0' <= letter <= c'9':
        return letter - c'0'
    if c'a' <= letter <= c'f':
        return letter - c'a' + 10
    if c'A' <= letter <= c'F':
        return letter - c'A' + 10
    return -1


# JSON


cdef bint _read_json(const uint8_t *at, const uint8_t *end, Frame *frame) noexcept nogil:
    """Read a header once, from its first byte to its last; what is not looked for is not plain."""
    cdef Span name, value
    cdef uint32_t seen = 0, bit
    if end - at < 2 or at[0] != c'{':
        return False
    at += 1
    while True:
        at = _name(at, end, &name)
        if at == NULL:
            return False
        if _is(&name, b"extFields", 9):
            bit = 1
            at = _read_fields(at, end, frame)
        elif _is(&name, b"code", 4):
            bit = 2
            at = _int32(at, end, &frame.code)
        elif _is(&name, b"flag", 4):
            bit = 4
            at = _int32(at, end, &frame.flag)
        elif _is(&name, b"opaque", 6):
            bit = 8
            at = _int32(at, end, &frame.opaque)
        elif _is(&name, b"version", 7):
            bit = 16
            at = _int32(at, end, &frame.version)
        elif _is(&name, b"language", 8):
            bit = 32
            at = _string(at, end, &value)
        elif _is(&name, b"serializeTypeCurrentRPC", 23):
            bit = 64
            at = _scalar(at, end, &value)
        else:
            return False
        if at == NULL or at >= end or seen & bit:
            return False
        seen |= bit
        if at[0] == c'}':
            # The code must be there, and nothing behind the brace.
            return at + 1 == end and seen & 2
        if at[0] != c',':
            return False
        at += 1


cdef const uint8_t *_read_fields(const uint8_t *at, const uint8_t *end, Frame *frame) noexcept nogil:
    """Read the map of fields and return the byte behind it, NULL when it is unusual."""
    cdef Field *field
    if at >= end or at[0] != c'{':
        return NULL
    at += 1
    if at < end and at[0] == c'}':
        return at + 1
    while True:
        if frame.field_count >= FIELDS_MAX:
            return NULL
        field = &frame.fields[frame.field_count]
        at = _name(at, end, &field.name)
        if at == NULL:
            return NULL
        at = _scalar(at, end, &field.value)
        if at == NULL or at >= end or _is_known(frame, &field.name):
            return NULL
        _add(frame)
        if at[0] == c'}':
            return at + 1
        if at[0] != c',':
            return NULL
        at += 1


cdef inline void _add(Frame *frame) noexcept nogil:
    """Take the field in that was just read."""
    cdef Span *name = &frame.fields[frame.field_count].name
    if name.length == 1 and c'a' <= name.at[0] <= c'z':
        frame.letters[name.at[0] - c'a'] = <int8_t> frame.field_count
    frame.field_count += 1


cdef inline bint _is_known(Frame *frame, Span *name) noexcept nogil:
    if name.length == 1 and c'a' <= name.at[0] <= c'z':
        return frame.letters[name.at[0] - c'a'] >= 0
    return find_field(frame, <const char *> name.at, name.length) != NULL


cdef inline const uint8_t *_name(const uint8_t *at, const uint8_t *end, Span *name) noexcept nogil:
    """Read a name and the colon behind it, and return the byte behind that; NULL when it is unusual."""
    if end - at >= 4 and at[0] == c'"' and c'a' <= at[1] <= c'z' and at[2] == c'"':
        # Nearly all names of a send are one letter.
        name.at = at + 1
        name.length = 1
        at += 3
    else:
        at = _string(at, end, name)
        if at == NULL or name.is_escaped or at >= end:
            return NULL
    return at + 1 if at[0] == c':' else NULL


cdef inline const uint8_t *_string(const uint8_t *at, const uint8_t *end, Span *text) noexcept nogil:
    """Read a JSON string and return the byte behind it, NULL when there is none."""
    if at >= end or at[0] != c'"':
        return NULL
    text.at = at + 1
    text.is_escaped = False
    at = pyromq_skip_plain(at + 1, end)
    while end - at >= 2 and at[0] == c'\\':
        # It means something even where nobody asks for the text.
        at = _behind_escape(at, end)
        if at == NULL:
            return NULL
        text.is_escaped = True
        at = pyromq_skip_plain(at, end)
    if at >= end or at[0] != c'"':
        return NULL
    text.length = at - text.at
    return at + 1


cdef inline const uint8_t *_behind_escape(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Return the byte behind a backslash and what it escapes, NULL unless that is an ASCII character."""
    cdef uint8_t letter = at[1]
    if letter == c'u':
        if end - at < 6 or at[2] != c'0' or at[3] != c'0' or not c'0' <= at[4] <= c'7' or _hex(at[5]) < 0:
            return NULL
        return at + 6
    if letter == c'"' or letter == c'\\' or letter == c'/' or letter == c'n' or letter == c't' or letter == c'r':
        return at + 2
    return at + 2 if letter == c'b' or letter == c'f' else NULL


cdef const uint8_t *_scalar(const uint8_t *at, const uint8_t *end, Span *text) noexcept nogil:
    """Read a string, a whole number or a boolean and return the byte behind it, NULL for anything else."""
    cdef int64_t number
    cdef bint value
    if at < end and at[0] == c'"':
        return _string(at, end, text)
    text.at = at
    text.is_escaped = False
    while at < end and at[0] != c',' and at[0] != c'}':
        at += 1
    text.length = at - text.at
    if not read_number(text, -(1 << 62), 1 << 62, &number) and not read_bool(text, &value):
        return NULL
    return at


cdef inline bint _is(Span *text, const char *name, Py_ssize_t length) noexcept nogil:
    return text.length == length and memcmp(text.at, name, length) == 0


cdef inline const uint8_t *_int32(const uint8_t *at, const uint8_t *end, int32_t *number) noexcept nogil:
    """Read a number without quotes and return the byte behind it, NULL when there is none."""
    cdef Span text
    cdef int64_t value
    text.at = at
    while at < end and (c'0' <= at[0] <= c'9' or at[0] == c'-'):
        at += 1
    text.length = at - text.at
    if not read_number(&text, -2147483648, 2147483647, &value):
        return NULL
    number[0] = <int32_t> value
    return at


# RocketMQ's binary


cdef bint _read_binary(const uint8_t *at, const uint8_t *end, Frame *frame) noexcept nogil:
    cdef int64_t length
    cdef Field *field
    if end - at < BINARY_HEAD_BYTES + 4:
        return False
    frame.code = load16(at)
    frame.version = load16(at + 3)
    frame.opaque = load32(at + 5)
    frame.flag = load32(at + 9)
    if load32(at + 13) != 0:
        return False
    length = load32(at + 17)
    at += BINARY_HEAD_BYTES + 4
    if length != end - at:
        return False
    while at < end:
        if frame.field_count >= FIELDS_MAX:
            return False
        field = &frame.fields[frame.field_count]
        if end - at < 2:
            return False
        length = load16(at)
        if length < 0 or end - at < 2 + length + 4:
            return False
        _set(&field.name, at + 2, length)
        at += 2 + length
        length = load32(at)
        if length < 0 or end - at < 4 + length:
            return False
        _set(&field.value, at + 4, length)
        at += 4 + length
        if not _is_ascii(&field.name) or not _is_ascii(&field.value) or _is_known(frame, &field.name):
            return False
        _add(frame)
    return True


cdef inline void _set(Span *text, const uint8_t *at, Py_ssize_t length) noexcept nogil:
    text.at = at
    text.length = length
    text.is_escaped = False


cdef inline bint _is_ascii(Span *text) noexcept nogil:
    cdef uint8_t strange = 0
    cdef Py_ssize_t i
    for i in range(text.length):
        strange |= text.at[i]
    return strange < 0x80
