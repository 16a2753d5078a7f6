"""The properties that have a column of their own, and the texts that Arrow is given; for `columns` and `scan`."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from pyromq._kernel.codec.layout cimport POSITION_AT, STORE_HOST_AT, Text, next_pair

cdef enum:
    #: A row with more pairs is left to Python, which does not compare each name with each.
    PAIRS_MAX = 32
    #: A time in milliseconds has no more, and in microseconds fits into 64 bits.
    TIME_DIGITS = 15
    ID_CHARACTERS = 32


cdef struct Named:
    #: A length of -1 is none.
    Text identity, tags, keys, group
    #: When a message was due, and when somebody asked for it to be.
    Text due, asked


cdef inline void begin_named(Named *found) noexcept nogil:
    found.identity.length = found.tags.length = found.keys.length = found.group.length = -1
    found.due.length = found.asked.length = -1


cdef inline void note_named(Named *found, Text name, Text value) noexcept nogil:
    """Keep the value of a property that has a column; of two with one name the later holds."""
    if name.length == 4:
        if memcmp(name.at, b"TAGS", 4) == 0:
            found.tags = value
        elif memcmp(name.at, b"KEYS", 4) == 0:
            found.keys = value
    elif name.length == 8:
        if memcmp(name.at, b"UNIQ_KEY", 8) == 0:
            found.identity = value
    elif name.length == 13:
        if memcmp(name.at, b"__SHARDINGKEY", 13) == 0:
            found.group = value
    elif name.length == 12:
        if memcmp(name.at, b"TIMER_OUT_MS", 12) == 0:
            found.due = value
    elif name.length == 16:
        if memcmp(name.at, b"TIMER_DELIVER_MS", 16) == 0:
            found.asked = value


cdef inline int64_t due_time(Named *found) noexcept nogil:
    """Return when a message was due, else when it was asked to be, in milliseconds; -1 when it is no time."""
    cdef Text text = found.due if found.due.length >= 0 else found.asked
    cdef int64_t time = 0
    cdef Py_ssize_t number
    if not 0 < text.length <= TIME_DIGITS:
        return -1
    for number in range(text.length):
        if not c'0' <= text.at[number] <= c'9':
            return -1
        time = time * 10 + (text.at[number] - c'0')
    return time


cdef inline int read_pairs(Text left, Text *pairs, bint are_kept) noexcept nogil:
    """Find all pairs; return how many, -1 when there are too many, or two with a name that are kept as a map."""
    cdef int count = 0, other
    cdef Text *name
    while next_pair(&left, &pairs[2 * count], &pairs[2 * count + 1]):
        if count == PAIRS_MAX - 1:
            return -1
        if are_kept:
            name = &pairs[2 * count]
            for other in range(count):
                if pairs[2 * other].length != name.length:
                    continue
                if memcmp(pairs[2 * other].at, name.at, name.length) == 0:
                    return -1
        count += 1
    return count


cdef inline void write_id(uint8_t *out, const uint8_t *head) noexcept nogil:
    """Write the id that a message has without one of its own: its broker's address, and its position."""
    write_hex(write_hex(out, head + STORE_HOST_AT), head + POSITION_AT)


cdef inline uint8_t *write_hex(uint8_t *out, const uint8_t *eight) noexcept nogil:
    cdef const char *digits = b"0123456789ABCDEF"
    cdef int number
    for number in range(8):
        out[2 * number] = digits[eight[number] >> 4]
        out[2 * number + 1] = digits[eight[number] & 15]
    return out + 16


cdef inline bint is_ascii(Text text) noexcept nogil:
    cdef uint64_t seen = 0, word
    cdef const uint8_t *at = text.at
    cdef Py_ssize_t left = text.length
    while left >= 8:
        memcpy(&word, at, 8)
        seen |= word
        at += 8
        left -= 8
    while left > 0:
        seen |= at[0]
        at += 1
        left -= 1
    return (seen & 0x8080808080808080U) == 0
