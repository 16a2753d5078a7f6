"""A message that is about to be stored, and its properties as queues, index and Java's maps see them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp

from pyromq._kernel.codec.bigend cimport java_hash
from pyromq._kernel.codec.blocks cimport copy
from pyromq._kernel.codec.frames cimport Span
from pyromq._kernel.codec.layout cimport Text
from pyromq._kernel.storage.notes cimport Wanted

cdef enum:
    NAME_END = 1
    PAIR_END = 2
    BUCKETS = 16


cdef struct Pair:
    Span name
    Span value
    int bucket


cdef struct Draft:
    int32_t queue_id, flag, sys_flag, reconsume_times
    int64_t born_at_ms, prepared_position
    const uint8_t *body
    Py_ssize_t body_length
    #: The properties as they are stored: one or two pieces, and what stands between them.
    Span properties
    Span more_properties
    bint is_parted
    #: What queues and index want of the properties; `is_noted` when it is known before they are written.
    Wanted wanted
    bint is_noted


cdef inline bint reads(Span *text, const char *name, Py_ssize_t length) noexcept nogil:
    return text.length == length and memcmp(text.at, name, length) == 0


cdef inline bint is_text(const uint8_t *at, Py_ssize_t length) noexcept nogil:
    """Whether all bytes are ASCII, and none is 0."""
    cdef uint8_t strange = 0
    cdef Py_ssize_t i
    for i in range(length):
        strange |= (at[i] & 0x80) | <uint8_t> (at[i] == 0)
    return strange == 0


# What queues and index want


cdef inline void begin_wanted(Wanted *wanted, const uint8_t *anywhere) noexcept nogil:
    wanted.tags.length = wanted.identity.length = wanted.keys.length = 0
    wanted.tags.at = wanted.identity.at = wanted.keys.at = anywhere


cdef inline void note_pairs(Draft *draft, Pair *pairs, int count) noexcept nogil:
    """Note what queues and index want of pairs that are all different."""
    cdef int i
    begin_wanted(&draft.wanted, pairs[0].name.at)
    for i in range(count):
        if reads(&pairs[i].name, b"TAGS", 4):
            draft.wanted.tags.at, draft.wanted.tags.length = pairs[i].value.at, pairs[i].value.length
        elif reads(&pairs[i].name, b"KEYS", 4):
            draft.wanted.keys.at, draft.wanted.keys.length = pairs[i].value.at, pairs[i].value.length
        elif reads(&pairs[i].name, b"UNIQ_KEY", 8):
            draft.wanted.identity.at, draft.wanted.identity.length = pairs[i].value.at, pairs[i].value.length
    draft.is_noted = True


cdef inline void note_text(Draft *draft, const uint8_t *text, Py_ssize_t length) noexcept nogil:
    """Note what queues and index want of a property string; of two pairs with one name the later holds."""
    cdef const uint8_t *at = text
    cdef const uint8_t *end = text + length
    cdef const uint8_t *pair_end
    begin_wanted(&draft.wanted, text)
    while at < end:
        pair_end = <const uint8_t *> memchr(at, PAIR_END, end - at)
        if pair_end == NULL:
            pair_end = end
        if not value_of(at, pair_end, b"TAGS\x01", 5, &draft.wanted.tags):
            if not value_of(at, pair_end, b"KEYS\x01", 5, &draft.wanted.keys):
                value_of(at, pair_end, b"UNIQ_KEY\x01", 9, &draft.wanted.identity)
        at = pair_end + 1


cdef inline bint value_of(
    const uint8_t *at, const uint8_t *end, const char *head, Py_ssize_t head_length, Text *value
) noexcept nogil:
    """Take the value of a pair that begins with `head`, unless it is empty; return whether it does."""
    if end - at < head_length or memcmp(at, head, head_length) != 0:
        return False
    if end - at > head_length:
        value.at = at + head_length
        value.length = end - at - head_length
    return True


# Pairs in the order of Java's map


cdef inline void sort(Pair *pairs, int count) noexcept nogil:
    """Order pairs as a Java map of 16 buckets lists them; those of one bucket stay as they came."""
    cdef int i, k
    cdef uint32_t hashed
    cdef Pair pair
    for i in range(count):
        hashed = java_hash(0, pairs[i].name.at, pairs[i].name.length)
        pairs[i].bucket = (hashed ^ (hashed >> 16)) & (BUCKETS - 1)
    for i in range(1, count):
        pair = pairs[i]
        k = i
        while k > 0 and pairs[k - 1].bucket > pair.bucket:
            pairs[k] = pairs[k - 1]
            k -= 1
        pairs[k] = pair


cdef inline Py_ssize_t join(Pair *pairs, int count, uint8_t *out, bint with_wait) noexcept nogil:
    """Write the property string and return its length; WAIT is not stored, save with a batch."""
    cdef uint8_t *at = out
    cdef int i
    for i in range(count):
        if not with_wait and reads(&pairs[i].name, b"WAIT", 4):
            continue
        if at > out:
            at[0] = PAIR_END
            at += 1
        at = copy(at, pairs[i].name.at, pairs[i].name.length)
        at[0] = NAME_END
        at = copy(at + 1, pairs[i].value.at, pairs[i].value.length)
    return at - out
