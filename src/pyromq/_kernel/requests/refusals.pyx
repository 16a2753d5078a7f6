"""Refusals of sends: from the received bytes to the bytes of the answers, which all say the same.

A busy broker must not be kept busy by refusing, so a request is not parsed. Code, flag and opaque are read, and
nothing else. A binary header has them at fixed places. A JSON header has them before its `extFields` or behind
them, so it is read from both ends, and the fields in the middle are passed over. Such a send is answered even
if its fields are not JSON.

At the first frame that is no send, or is written in another way, Python goes on. `QuickRefusals` in
`pyromq.broker.requests.busy` is the same in Python.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memset

from pyromq._kernel.codec.bigend cimport load16, load32, store32
from pyromq._kernel.codec.blocks cimport Block, copy, need
from pyromq._kernel.codec.frames cimport Span, read_number

cdef enum:
    SEND_MESSAGE = 10
    CONSUMER_SEND_MSG_BACK = 36
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320

    FLAG_RESPONSE = 1
    FLAG_ONEWAY = 2
    FRAME_BYTES_MAX = 16777216
    SERIALIZER_JSON = 0
    SERIALIZER_BINARY = 1
    #: The lengths of frame and header; code, language and version of a binary header.
    LENGTHS = 8
    OPAQUE_AT = LENGTHS + 5
    #: Code, language, version, opaque, flag, and the lengths of remark and fields.
    BINARY_HEAD_BYTES = 21

    #: The members of a JSON header that are looked for, and those that are passed over.
    CODE = 1
    FLAG = 2
    OPAQUE = 4
    WANTED = CODE | FLAG | OPAQUE
    NUMBER = 8
    TEXT = 16
    FIELDS = 32
    UNKNOWN = 0


cdef struct Head:
    int32_t code, flag
    #: Of a binary header; that of a JSON header stays text.
    int32_t opaque
    Span opaque_text
    #: Which of the wanted members were read.
    uint32_t seen
    bint is_json
    #: The byte behind the frame.
    const uint8_t *end


def refuse_sends(
    received,
    Py_ssize_t start,
    *,
    bytes json_before not None,
    bytes json_after not None,
    bytes binary not None,
    Py_ssize_t answer_bytes_max,
):
    """Answer the sends that begin at byte `start`; return the byte behind the last, the answers, their number.

    A JSON header is what stands before the opaque and behind it; `binary` is a whole frame.
    """
    cdef const uint8_t *bytes_start
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef Head head
    cdef Block answers
    cdef Py_ssize_t count = 0
    if isinstance(received, bytes):
        bytes_start = <const uint8_t *> PyBytes_AS_STRING(received)
        end = bytes_start + PyBytes_GET_SIZE(received)
    elif isinstance(received, bytearray):
        bytes_start = <const uint8_t *> PyByteArray_AS_STRING(received)
        end = bytes_start + PyByteArray_GET_SIZE(received)
    else:
        raise TypeError("received must be bytes or a bytearray")
    if PyBytes_GET_SIZE(binary) < OPAQUE_AT + 4:
        raise ValueError("the binary frame is too short")
    if start < 0:
        return start, b"", 0
    answers.bytes = NULL
    answers.used = answers.room = 0
    at = bytes_start + start
    try:
        while at < end and answers.used < answer_bytes_max:
            if not _read_head(at, end, &head) or not _is_send(&head):
                break
            if not head.flag & FLAG_ONEWAY:
                if head.is_json:
                    _answer_json(&answers, &head.opaque_text, json_before, json_after)
                else:
                    _answer_binary(&answers, head.opaque, binary)
            at = head.end
            count += 1
        return at - bytes_start, PyBytes_FromStringAndSize(<char *> answers.bytes, answers.used), count
    finally:
        free(answers.bytes)


cdef inline bint _is_send(Head *head) noexcept nogil:
    return not head.flag & FLAG_RESPONSE and (
        head.code == SEND_MESSAGE_V2
        or head.code == SEND_BATCH_MESSAGE
        or head.code == SEND_MESSAGE
        or head.code == CONSUMER_SEND_MSG_BACK
    )


cdef int _answer_json(Block *answers, Span *opaque, bytes before, bytes after) except -1:
    cdef uint8_t *start
    cdef uint8_t *at
    need(answers, LENGTHS + PyBytes_GET_SIZE(before) + opaque.length + PyBytes_GET_SIZE(after))
    start = answers.bytes + answers.used
    at = copy(start + LENGTHS, PyBytes_AS_STRING(before), PyBytes_GET_SIZE(before))
    at = copy(at, opaque.at, opaque.length)
    at = copy(at, PyBytes_AS_STRING(after), PyBytes_GET_SIZE(after))
    store32(start, <int32_t> (at - start - 4))
    store32(start + 4, <int32_t> (at - start - LENGTHS))
    answers.used += at - start
    return 0


cdef int _answer_binary(Block *answers, int32_t opaque, bytes binary) except -1:
    cdef uint8_t *start
    need(answers, PyBytes_GET_SIZE(binary))
    start = answers.bytes + answers.used
    copy(start, PyBytes_AS_STRING(binary), PyBytes_GET_SIZE(binary))
    store32(start + OPAQUE_AT, opaque)
    answers.used += PyBytes_GET_SIZE(binary)
    return 0


# Requests


cdef bint _read_head(const uint8_t *at, const uint8_t *end, Head *head) noexcept nogil:
    """Read code, flag and opaque of a whole frame; return False for one that is Python's to read."""
    cdef Py_ssize_t available = end - at
    cdef int64_t length, header_length
    cdef uint8_t serializer
    if available < LENGTHS:
        return False
    length = load32(at)
    header_length = load32(at + 4) & 0xFFFFFF
    if length < 4 or length + 4 > FRAME_BYTES_MAX or header_length > length - 4 or available < length + 4:
        return False
    memset(head, 0, sizeof(Head))
    head.end = at + 4 + length
    serializer = at[4]
    at += LENGTHS
    if serializer == SERIALIZER_JSON:
        head.is_json = True
        return _read_json(at, at + header_length, head)
    if serializer != SERIALIZER_BINARY or header_length < BINARY_HEAD_BYTES:
        return False
    head.code = load16(at)
    head.opaque = load32(at + 5)
    head.flag = load32(at + 9)
    return True


cdef bint _read_json(const uint8_t *start, const uint8_t *end, Head *head) noexcept nogil:
    """Read the members before and behind the map of fields; return whether all that is wanted was there once.

    A quotation mark inside a JSON string has a backslash before it. So one that follows a colon or a comma is
    none of those, and reading backwards from the last brace cannot get into a string.
    """
    cdef const uint8_t *at = start
    if end - at < 2 or at[0] != c'{' or (end - 1)[0] != c'}':
        return False
    while at[0] != c'}':
        at = _next_member(at + 1, end, head)
        if at == NULL:
            return False
        if at[0] == c'{':
            if not _read_backwards(at, end - 1, head):
                return False
            return head.seen == WANTED
    return at + 1 == end and head.seen == WANTED


cdef inline const uint8_t *_next_member(const uint8_t *at, const uint8_t *end, Head *head) noexcept nogil:
    """Read a member and return the comma or brace behind it, the brace that opens the fields, or NULL."""
    cdef const uint8_t *value
    cdef Py_ssize_t length = 0
    cdef int kind
    if end - at < 2:
        return NULL
    # The letter by which names differ, to compare with one of them only.
    if at[1] == c'c':
        kind = _member(at, end, b'"code":', 7, CODE, &length)
    elif at[1] == c'e':
        kind = _member(at, end, b'"extFields":', 12, FIELDS, &length)
    elif at[1] == c'f':
        kind = _member(at, end, b'"flag":', 7, FLAG, &length)
    elif at[1] == c'o':
        kind = _member(at, end, b'"opaque":', 9, OPAQUE, &length)
    elif at[1] == c'v':
        kind = _member(at, end, b'"version":', 10, NUMBER, &length)
    elif at[1] == c'l':
        kind = _member(at, end, b'"language":', 11, TEXT, &length)
    else:
        kind = _member(at, end, b'"serializeTypeCurrentRPC":', 26, TEXT, &length)
    if kind == UNKNOWN:
        return NULL
    value = at = at + length
    if kind == FIELDS:
        return at if at[0] == c'{' else NULL
    if kind == TEXT:
        if at[0] != c'"':
            return NULL
        at += 1
        while at < end and at[0] != c'"':
            at += 1
        if at >= end:
            return NULL
        at += 1
    else:
        while at < end and (c'0' <= at[0] <= c'9' or at[0] == c'-'):
            at += 1
        if not _take_number(kind, value, at, head):
            return NULL
    return at if at < end and (at[0] == c',' or at[0] == c'}') else NULL


cdef inline bint _read_backwards(const uint8_t *start, const uint8_t *behind, Head *head) noexcept nogil:
    """Read the members behind the fields, whose map begins at `start`, the last one first.

    `behind` is the comma or the brace behind a member.
    """
    cdef const uint8_t *at
    cdef Py_ssize_t length = 0
    cdef uint8_t letter
    cdef bint is_text
    cdef int kind
    while (behind - 1)[0] != c'}':
        at = behind - 1
        is_text = at[0] == c'"'
        if is_text:
            at -= 1
            while at > start and at[0] != c'"':
                at -= 1
        else:
            while at > start and (c'0' <= at[0] <= c'9' or at[0] == c'-'):
                at -= 1
            at += 1
        if at - start < 4:
            return False
        # The last letter but one of a name: of all six another.
        letter = (at - 4)[0]
        if letter == c'd':
            kind = _member_before(at, start, b',"code":', 8, CODE, &length)
        elif letter == c'a':
            kind = _member_before(at, start, b',"flag":', 8, FLAG, &length)
        elif letter == c'u':
            kind = _member_before(at, start, b',"opaque":', 10, OPAQUE, &length)
        elif letter == c'o':
            kind = _member_before(at, start, b',"version":', 11, NUMBER, &length)
        elif letter == c'g':
            kind = _member_before(at, start, b',"language":', 12, TEXT, &length)
        else:
            kind = _member_before(at, start, b',"serializeTypeCurrentRPC":', 27, TEXT, &length)
        if kind == UNKNOWN or is_text != (kind == TEXT):
            return False
        if not is_text and not _take_number(kind, at, behind, head):
            return False
        behind = at - length
    return behind - 1 > start


cdef inline int _member(
    const uint8_t *at, const uint8_t *end, const char *name, Py_ssize_t name_length, int kind, Py_ssize_t *length
) noexcept nogil:
    """Return a member's kind if its name stands at `at` and a byte is behind it, else UNKNOWN."""
    length[0] = name_length
    return kind if end - at > name_length and memcmp(at, name, name_length) == 0 else UNKNOWN


cdef inline int _member_before(
    const uint8_t *at, const uint8_t *start, const char *name, Py_ssize_t name_length, int kind, Py_ssize_t *length
) noexcept nogil:
    """Return a member's kind if its name stands before `at`, else UNKNOWN."""
    length[0] = name_length
    return kind if at - start > name_length and memcmp(at - name_length, name, name_length) == 0 else UNKNOWN


cdef inline bint _take_number(int kind, const uint8_t *at, const uint8_t *end, Head *head) noexcept nogil:
    """Keep a number that is wanted; return False for what is no number, or is there twice."""
    cdef Span text
    cdef int64_t number
    text.at = at
    text.length = end - at
    text.is_escaped = False
    if not read_number(&text, -2147483648, 2147483647, &number):
        return False
    if kind == NUMBER:
        return True
    if head.seen & <uint32_t> kind:
        return False
    head.seen |= <uint32_t> kind
    if kind == CODE:
        head.code = <int32_t> number
    elif kind == FLAG:
        head.flag = <int32_t> number
    else:
        head.opaque_text = text
    return True
