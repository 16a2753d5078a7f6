"""Requests of gRPC, read in place, and whose they are; of a SendMessageRequest only what is plain, as `grpc_sends` says."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from pyromq._kernel.http2.call_streams cimport CallHeaders
from pyromq._kernel.http2.plain_calls cimport PlainCall

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL

cdef enum:
    OWN_MAX = 32
    KEYS_MAX = 32
    #: Of MessageType and Encoding.
    TRANSACTION = 4
    GZIP = 2
    CLIENT_ID_CHARACTERS_MAX = 1024


cdef struct Text:
    const uint8_t *at
    Py_ssize_t length


cdef struct Sent:
    Text topic, body, tag, message_id, born_host, group, trace
    Text keys[KEYS_MAX]
    Text names[OWN_MAX]
    Text values[OWN_MAX]
    Py_ssize_t key_count, own_count
    int64_t born_ms, deliver_ms
    bint has_time


cdef struct Field:
    uint32_t number
    int kind
    uint64_t value
    Text text


cdef inline bint next_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) noexcept nogil:
    cdef int shift = 0
    cdef uint8_t byte
    value[0] = 0
    while at[0] < end and shift < 64:
        byte = at[0][0]
        value[0] |= <uint64_t> (byte & 0x7f) << shift
        at[0] += 1
        if byte < 0x80:
            return True
        shift += 7
    return False


cdef inline bint next_field(const uint8_t **at, const uint8_t *end, Field *field) noexcept nogil:
    """Read a field that is a number or has a length; return False for anything else."""
    cdef uint64_t head
    if not next_varint(at, end, &head) or head >> 3 == 0 or head >> 3 > 1000:
        return False
    field.number = <uint32_t> (head >> 3)
    field.kind = head & 7
    if not next_varint(at, end, &field.value):
        return False
    if field.kind == 0:
        return True
    if field.kind != 2 or field.value > <uint64_t> (end - at[0]):
        return False
    field.text.at = at[0]
    field.text.length = <Py_ssize_t> field.value
    at[0] += field.text.length
    return True


cdef inline bint is_plain(const Text *text) noexcept nogil:
    """Whether a text is printable ASCII, and does not begin with a blank: so it is not blank either."""
    cdef Py_ssize_t i
    if text.length and text.at[0] == c' ':
        return False
    for i in range(text.length):
        if text.at[i] < 0x20 or text.at[i] > 0x7e:
            return False
    return True


cdef inline bint has_client_id(call) except -1:
    """Whether a call says whose it is; Python finds the words for one that does not."""
    cdef Text text
    metadata = metadata_of(call)
    if isinstance(metadata, CallHeaders):
        text.at = (<CallHeaders> metadata).find(b"x-mq-client-id", 14, &text.length)
        return text.at != NULL and is_client_id(&text)
    client_id = metadata.get("x-mq-client-id")
    if client_id is None:
        return False
    text.at = <const uint8_t *> PyUnicode_AsUTF8AndSize(client_id, &text.length)
    return is_client_id(&text)


cdef inline object metadata_of(call):
    """Return the headers of a call."""
    return (<PlainCall> call).metadata if isinstance(call, PlainCall) else call.metadata


cdef inline bytes host_of(call):
    """Return the address of a call's client, as records have it."""
    return (<PlainCall> call).peer_host_bytes if isinstance(call, PlainCall) else call.peer_host_bytes


cdef inline bint is_client_id(const Text *text) noexcept nogil:
    return 0 < text.length <= CLIENT_ID_CHARACTERS_MAX and is_plain(text)


cdef inline bint read_time(const Text *text, int64_t *ms) noexcept nogil:
    """Read a `Timestamp` that is not before 1970."""
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef uint64_t seconds = 0, nanos = 0
    cdef Field field
    while at < end:
        if not next_field(&at, end, &field) or field.kind != 0:
            return False
        if field.number == 1:
            seconds = field.value
        elif field.number == 2:
            nanos = field.value
        else:
            return False
    if seconds > <uint64_t> 1 << 40 or nanos > 999999999:
        return False
    ms[0] = <int64_t> (seconds * 1000 + nanos // 1000000)
    return True


cdef inline bint take_once(Text *place, const Text *text) noexcept nogil:
    """Note a text that may be there once."""
    if place.at != NULL:
        return False
    place[0] = text[0]
    return True


cdef inline bint read_topic(const Text *text, Sent *sent) noexcept nogil:
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef Field field
    while at < end:
        if not next_field(&at, end, &field) or field.kind != 2:
            return False
        if field.number == 2:
            if not take_once(&sent.topic, &field.text):
                return False
        elif field.number != 1 or not is_plain(&field.text):
            return False
    return True


cdef inline bint read_own(const Text *text, Sent *sent) noexcept nogil:
    """Read one of the application's properties; return False when it was there before."""
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef Field field
    cdef Py_ssize_t i, place = sent.own_count
    if place >= OWN_MAX:
        return False
    sent.names[place].at = sent.values[place].at = NULL
    sent.names[place].length = sent.values[place].length = 0
    while at < end:
        if not next_field(&at, end, &field) or field.kind != 2 or not is_plain(&field.text):
            return False
        if field.number == 1:
            sent.names[place] = field.text
        elif field.number == 2:
            sent.values[place] = field.text
        else:
            return False
    if not sent.names[place].length:
        return False
    for i in range(place):
        if sent.names[i].length == sent.names[place].length and memcmp(
            sent.names[i].at, sent.names[place].at, sent.names[i].length
        ) == 0:
            return False
    sent.own_count += 1
    return True


cdef inline bint read_system(const Text *text, Sent *sent) noexcept nogil:
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef Field field
    cdef int number
    cdef bint is_read
    while at < end:
        if not next_field(&at, end, &field):
            return False
        number = field.number
        if field.kind == 0:
            # body_encoding, message_type; what a queue or a delivery has says nothing of a send.
            if number == 5 and field.value == GZIP:
                return False
            if number == 6 and field.value == TRANSACTION:
                return False
            if number not in (5, 6, 13, 14, 16):
                return False
            continue
        if number == 7:
            is_read = read_time(&field.text, &sent.born_ms)
        elif number == 11:
            sent.has_time = True
            is_read = read_time(&field.text, &sent.deliver_ms)
        elif number in (9, 10, 12, 15):
            # store_timestamp, store_host, receipt_handle, invisible_duration: of a delivery.
            is_read = True
        elif not is_plain(&field.text):
            return False
        elif number == 1:
            is_read = take_once(&sent.tag, &field.text)
        elif number == 2:
            is_read = sent.key_count < KEYS_MAX
            if is_read:
                sent.keys[sent.key_count] = field.text
                sent.key_count += 1
        elif number == 3:
            is_read = take_once(&sent.message_id, &field.text)
        elif number == 8:
            is_read = take_once(&sent.born_host, &field.text)
        elif number == 17:
            is_read = take_once(&sent.group, &field.text)
        elif number == 18:
            is_read = take_once(&sent.trace, &field.text)
        else:
            return False
        if not is_read:
            return False
    return True


cdef inline bint read_message(const Text *text, Sent *sent) noexcept nogil:
    cdef const uint8_t *at = text.at
    cdef const uint8_t *end = at + text.length
    cdef Field field
    cdef Text system
    system.at = NULL
    while at < end:
        if not next_field(&at, end, &field) or field.kind != 2:
            return False
        if field.number == 1:
            if sent.topic.at != NULL or not read_topic(&field.text, sent):
                return False
        elif field.number == 2:
            if not read_own(&field.text, sent):
                return False
        elif field.number == 3:
            if not take_once(&system, &field.text):
                return False
        elif field.number == 4:
            if not take_once(&sent.body, &field.text):
                return False
        else:
            return False
    return system.at != NULL and read_system(&system, sent)


cdef inline bint read_request(const uint8_t *at, const uint8_t *end, Sent *sent) noexcept nogil:
    """Read a request with one message; return False for any that is not plain."""
    cdef Field field
    cdef Text *texts = &sent.topic
    cdef int i
    for i in range(7):
        texts[i].at = NULL
        texts[i].length = 0
    sent.key_count = sent.own_count = 0
    sent.born_ms = sent.deliver_ms = 0
    sent.has_time = False
    if not next_field(&at, end, &field) or field.kind != 2 or field.number != 1 or at != end:
        return False
    return read_message(&field.text, sent)
