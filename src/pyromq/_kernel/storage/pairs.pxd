"""The pairs of a property string, in the order in which Java's map lists them."""

from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from pyromq._kernel.codec.bigend cimport java_hash
from pyromq._kernel.codec.blocks cimport Block, copy, need
from pyromq._kernel.codec.frames cimport Span

cdef enum:
    NAME_END = 1
    PAIR_END = 2
    #: Buckets of a Java map before it grows.
    BUCKETS = 16
    #: So few are ordered where they are.
    FEW = 12
    #: A bucket with more is Python's: to find two of one name in it takes the square of its pairs.
    CHAIN_MAX = 16
    UNITED_MAX = 32


cdef struct Pair:
    Span name
    Span value
    uint32_t hashed
    int32_t bucket


cdef inline bint reads(Span *text, const char *name, Py_ssize_t length) noexcept nogil:
    return text.length == length and memcmp(text.at, name, length) == 0


cdef inline Py_ssize_t count_of(Block *pairs) noexcept nogil:
    return pairs.used // <Py_ssize_t> sizeof(Pair)


cdef inline int put_pair(
    Block *pairs, const uint8_t *name, Py_ssize_t name_length, const uint8_t *value, Py_ssize_t value_length
) except -1:
    """Add a pair behind the others."""
    cdef Pair *pair
    need(pairs, sizeof(Pair))
    pair = <Pair *> (pairs.bytes + pairs.used)
    pairs.used += sizeof(Pair)
    pair.name.at, pair.name.length = name, name_length
    pair.value.at, pair.value.length = value, value_length
    return 0


cdef inline int split(const uint8_t *at, const uint8_t *end, Block *pairs) except -1:
    """Add the pairs of a property string; one with an empty name or value is none."""
    cdef const uint8_t *pair_end
    cdef const uint8_t *name_end
    while at < end:
        pair_end = <const uint8_t *> memchr(at, PAIR_END, end - at)
        if pair_end == NULL:
            pair_end = end
        name_end = <const uint8_t *> memchr(at, NAME_END, pair_end - at)
        if name_end != NULL and name_end > at and name_end + 1 < pair_end:
            put_pair(pairs, at, name_end - at, name_end + 1, pair_end - name_end - 1)
        at = pair_end + 1
    return 0


cdef inline int unite(Block *block) noexcept nogil:
    """Make one pair of those with one name: where the first stands, with the value of the last.

    So a map does that gets one after the other. Of more than UNITED_MAX nothing is looked at: `put_in_order`
    finds out.
    """
    cdef Pair *pairs = <Pair *> block.bytes
    cdef Py_ssize_t i, k, kept = 0, count = count_of(block)
    if count > UNITED_MAX:
        return 0
    for i in range(count):
        for k in range(kept):
            if reads(&pairs[k].name, <const char *> pairs[i].name.at, pairs[i].name.length):
                pairs[k].value = pairs[i].value
                break
        else:
            pairs[kept] = pairs[i]
            kept += 1
    block.used = kept * <Py_ssize_t> sizeof(Pair)
    return 0


cdef inline bint put_in_order(Block *block) except -1:
    """Order pairs as a Java map that got one after the other lists them; those of one bucket stay as they came.

    Return False when two have one name, or when more than CHAIN_MAX share a bucket.
    """
    cdef Py_ssize_t i, count = count_of(block)
    cdef Py_ssize_t capacity = BUCKETS
    cdef Pair *pairs
    while count > capacity // 4 * 3:
        capacity *= 2
    # As many again, to order them.
    need(block, block.used)
    pairs = <Pair *> block.bytes
    for i in range(count):
        pairs[i].hashed = java_hash(0, pairs[i].name.at, pairs[i].name.length)
        pairs[i].bucket = <int32_t> ((pairs[i].hashed ^ (pairs[i].hashed >> 16)) & <uint32_t> (capacity - 1))
    if count <= FEW:
        order_few(pairs, count)
    else:
        order_many(pairs, pairs + count, count)
    return are_unlike(pairs, count)


cdef inline void order_few(Pair *pairs, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef Pair pair
    for i in range(1, count):
        if pairs[i - 1].bucket <= pairs[i].bucket:
            continue
        pair = pairs[i]
        k = i
        while k > 0 and pairs[k - 1].bucket > pair.bucket:
            pairs[k] = pairs[k - 1]
            k -= 1
        pairs[k] = pair


cdef inline void order_many(Pair *pairs, Pair *spare, Py_ssize_t count) noexcept nogil:
    """Merge runs that are in order to runs of twice the length, from one piece of memory to the other."""
    cdef Pair *source = pairs
    cdef Pair *target = spare
    cdef Py_ssize_t width = 1, start, middle, end, left, right, i
    while width < count:
        start = 0
        while start < count:
            middle = min(start + width, count)
            end = min(start + 2 * width, count)
            left, right = start, middle
            for i in range(start, end):
                if left < middle and (right >= end or source[left].bucket <= source[right].bucket):
                    target[i] = source[left]
                    left += 1
                else:
                    target[i] = source[right]
                    right += 1
            start = end
        source, target = target, source
        width *= 2
    if source != pairs:
        memcpy(pairs, source, count * sizeof(Pair))


cdef inline bint are_unlike(Pair *pairs, Py_ssize_t count) noexcept nogil:
    """Whether ordered pairs have different names, and no bucket too many of them."""
    cdef Py_ssize_t i, k, first = 0
    for i in range(1, count):
        if pairs[i].bucket != pairs[first].bucket:
            first = i
        elif i - first >= CHAIN_MAX:
            return False
        for k in range(first, i):
            if pairs[k].hashed == pairs[i].hashed and reads(
                &pairs[k].name, <const char *> pairs[i].name.at, pairs[i].name.length
            ):
                return False
    return True


cdef inline Py_ssize_t join(Block *block, uint8_t *out, bint with_wait) noexcept nogil:
    """Write the property string and return its length; a plain message is stored without WAIT."""
    cdef Pair *pairs = <Pair *> block.bytes
    cdef uint8_t *at = out
    cdef Py_ssize_t i
    for i in range(count_of(block)):
        if not with_wait and reads(&pairs[i].name, b"WAIT", 4):
            continue
        if at > out:
            at[0] = PAIR_END
            at += 1
        at = copy(at, pairs[i].name.at, pairs[i].name.length)
        at[0] = NAME_END
        at = copy(at + 1, pairs[i].value.at, pairs[i].value.length)
    return at - out
