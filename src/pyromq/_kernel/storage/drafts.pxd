"""A message that is about to be stored, and its properties as queues and index see them."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcmp

from pyromq._kernel.codec.blocks cimport Block
from pyromq._kernel.codec.frames cimport Span
from pyromq._kernel.codec.layout cimport Text
from pyromq._kernel.storage.notes cimport Wanted
from pyromq._kernel.storage.pairs cimport PAIR_END, Pair, count_of, reads


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
    wanted.due_ms = 0


cdef inline void note_pairs(Draft *draft, Block *block) noexcept nogil:
    """Note what queues and index want of pairs that are all different."""
    cdef Pair *pairs = <Pair *> block.bytes
    cdef Py_ssize_t i
    begin_wanted(&draft.wanted, pairs[0].name.at)
    for i in range(count_of(block)):
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
