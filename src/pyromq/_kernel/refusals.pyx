"""Sends that are refused: from the received bytes to the bytes of the answers, which all say the same.

A broker that is busy must not be kept busy by saying so. Only the code of a request and its opaque are looked
at, as `pyromq.broker.busy` does it in Python; at the first frame that is no send, or unusual, Python goes on.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free

from pyromq._kernel.bigend cimport store32, write_decimal
from pyromq._kernel.blocks cimport Block, copy, need
from pyromq._kernel.frames cimport READ, Frame, read_frame

cdef enum:
    SEND_MESSAGE = 10
    CONSUMER_SEND_MSG_BACK = 36
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320

    FLAG_RESPONSE = 1
    FLAG_ONEWAY = 2
    #: The lengths of frame and header; code, language and version of a binary header.
    LENGTHS = 8
    OPAQUE_AT = LENGTHS + 5
    DIGITS_MAX = 20


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
    cdef Frame frame
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
            if read_frame(at, end, &frame) != READ or not _is_send(&frame):
                break
            if not frame.flag & FLAG_ONEWAY:
                if frame.is_json:
                    _answer_json(&answers, frame.opaque, json_before, json_after)
                else:
                    _answer_binary(&answers, frame.opaque, binary)
            at = frame.end
            count += 1
        return at - bytes_start, PyBytes_FromStringAndSize(<char *> answers.bytes, answers.used), count
    finally:
        free(answers.bytes)


cdef inline bint _is_send(Frame *frame) noexcept nogil:
    return not frame.flag & FLAG_RESPONSE and (
        frame.code == SEND_MESSAGE_V2
        or frame.code == SEND_BATCH_MESSAGE
        or frame.code == SEND_MESSAGE
        or frame.code == CONSUMER_SEND_MSG_BACK
    )


cdef int _answer_json(Block *answers, int32_t opaque, bytes before, bytes after) except -1:
    cdef uint8_t *start
    cdef uint8_t *at
    need(answers, LENGTHS + PyBytes_GET_SIZE(before) + DIGITS_MAX + PyBytes_GET_SIZE(after))
    start = answers.bytes + answers.used
    at = copy(start + LENGTHS, PyBytes_AS_STRING(before), PyBytes_GET_SIZE(before))
    at = write_decimal(at, opaque)
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
