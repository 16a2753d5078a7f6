"""The fields of a request to store a message."""

from libc.stdint cimport int32_t, int64_t

from pyromq._kernel.codec.frames cimport Frame, Span, find_field, letter_field, read_bool, read_number

cdef enum:
    SEND_MESSAGE = 10
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    FLAG_RESPONSE = 1
    INT32_MAX = 2147483647
    INT32_MIN = -2147483648


cdef struct Asked:
    #: What the fields of a send say.
    Span *topic
    Span *properties
    int64_t queue_id, sys_flag, born_at_ms, flag, reconsume_times
    bint is_batch


cdef inline bint is_send(int32_t code) noexcept nogil:
    """Return whether a code is that of a send, or of a batch."""
    return code == SEND_MESSAGE_V2 or code == SEND_MESSAGE or code == SEND_BATCH_MESSAGE


cdef inline bint read_send(Frame *frame, Asked *asked) noexcept nogil:
    """Read what a send asks for; return False when the frame is none, or has a field that is not usual."""
    cdef bint is_long = frame.code == SEND_MESSAGE, is_unit = False
    cdef int64_t ignored
    cdef Span *field
    if not is_send(frame.code):
        return False
    if frame.flag & FLAG_RESPONSE:
        return False
    # producer group, default topic, number of its queues: must be there, and matter only to new topics.
    field = field_of(frame, is_long, b"producerGroup", 13, b"a")
    if field == NULL or field.is_escaped:
        return False
    field = field_of(frame, is_long, b"defaultTopic", 12, b"c")
    if field == NULL or field.is_escaped:
        return False
    if not number_of(field_of(frame, is_long, b"defaultTopicQueueNums", 21, b"d"), False, &ignored):
        return False
    if not number_of(field_of(frame, is_long, b"queueId", 7, b"e"), False, &asked.queue_id):
        return False
    if not number_of(field_of(frame, is_long, b"sysFlag", 7, b"f"), False, &asked.sys_flag):
        return False
    field = field_of(frame, is_long, b"bornTimestamp", 13, b"g")
    if field == NULL or not read_number(field, -(1 << 62), 1 << 62, &asked.born_at_ms):
        return False
    if not number_of(field_of(frame, is_long, b"flag", 4, b"h"), False, &asked.flag):
        return False
    if not number_of(field_of(frame, is_long, b"reconsumeTimes", 14, b"j"), True, &asked.reconsume_times):
        return False
    if not number_of(field_of(frame, is_long, b"maxReconsumeTimes", 17, b"l"), True, &ignored):
        return False
    field = field_of(frame, is_long, b"unitMode", 8, b"k")
    if field != NULL and not read_bool(field, &is_unit):
        return False
    asked.is_batch = False
    field = field_of(frame, is_long, b"batch", 5, b"m")
    if field != NULL and not read_bool(field, &asked.is_batch):
        return False
    field = field_of(frame, is_long, b"bname", 5, b"n")
    if field != NULL and field.is_escaped:
        return False
    asked.topic = field_of(frame, is_long, b"topic", 5, b"b")
    asked.properties = field_of(frame, is_long, b"properties", 10, b"i")
    return asked.topic != NULL and not asked.topic.is_escaped


cdef inline Span *field_of(
    Frame *frame, bint is_long, const char *name, Py_ssize_t length, const char *letter
) noexcept nogil:
    return find_field(frame, name, length) if is_long else letter_field(frame, letter[0])


cdef inline bint number_of(Span *text, bint is_optional, int64_t *number) noexcept nogil:
    if text == NULL:
        number[0] = 0
        return is_optional
    return read_number(text, INT32_MIN, INT32_MAX, number)
