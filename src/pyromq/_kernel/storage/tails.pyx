"""The growing ends of queues and of the index, compiled.

`pyromq.store.queue_tail` and `pyromq.store.index.index_tail` are the same in Python, and say what each field means.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from pyromq._kernel.codec.bigend cimport load32, store32, store64

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define pyromq_prefetch(at) __builtin_prefetch(at)
    #else
    #define pyromq_prefetch(at) ((void) (at))
    #endif
    """
    void pyromq_prefetch(const void *at) noexcept nogil

cdef enum:
    QUEUE_ENTRY_BYTES = 20
    INDEX_ENTRY_BYTES = 20
    HEADER_BYTES = 40
    SLOT_BYTES = 4
    PAGE_BYTES = 4096
    PART_BYTES_MAX = 65536
    SECONDS_MAX = 0x7FFFFFFF
    TABLE_SIZE_MIN = 256


cdef class QueueTail:

    def __cinit__(self, *args, **kwargs):
        self.held = bytearray()
        self.dirty = []
        self.grown_from = -1

    def __init__(self):
        pass

    def add(self, int64_t position, int32_t size, int64_t tags_code):
        """Hold the next message's entry."""
        self.enter(position, size, tags_code)

    cdef int enter(self, int64_t position, int32_t size, int64_t tags_code) except -1:
        cdef Py_ssize_t length = PyByteArray_GET_SIZE(self.held)
        if length == 0:
            self.dirty.append(self)
        PyByteArray_Resize(self.held, length + QUEUE_ENTRY_BYTES)
        cdef uint8_t *at = <uint8_t *> PyByteArray_AS_STRING(self.held) + length
        store64(store32(store64(at, position), size), tags_code)
        self.end += 1
        self.reach = position + size
        return 0

    cdef bytes entries(self, int64_t offset, int64_t count):
        """Return up to `count` entries from `offset` on, as `read` of the queue does: here, if they are held."""
        cdef int64_t held_from = self.end - PyByteArray_GET_SIZE(self.held) // QUEUE_ENTRY_BYTES
        if offset < 0 or offset < held_from or offset >= self.end or count <= 0:
            return self.read(offset, count)
        return PyBytes_FromStringAndSize(
            PyByteArray_AS_STRING(self.held) + (offset - held_from) * QUEUE_ENTRY_BYTES,
            min(count, self.end - offset) * QUEUE_ENTRY_BYTES,
        )


cdef class IndexTail:

    def __cinit__(self, *args, **kwargs):
        self.held = bytearray()
        self.count = 1
        self._table_size = TABLE_SIZE_MIN
        self._table = <int32_t *> malloc(2 * TABLE_SIZE_MIN * sizeof(int32_t))
        if self._table == NULL:
            raise MemoryError
        _clear(self._table, TABLE_SIZE_MIN)

    def __init__(self, int64_t slots, int64_t entries_max):
        self.slots = slots
        self.entries_max = entries_max

    def __dealloc__(self):
        free(self._table)
        free(self._noted)
        if self._look is not None:
            PyBuffer_Release(&self._view)

    @property
    def look(self):
        return self._look

    @look.setter
    def look(self, view):
        if self._look is not None:
            self._look = None
            PyBuffer_Release(&self._view)
        if view is not None:
            PyObject_GetBuffer(view, &self._view, PyBUF_SIMPLE)
            self._look = view

    def put(self, int64_t key_hash, int64_t position, int64_t stored_at_ms):
        """Hold a key of the message at a position; there must be room for one more entry."""
        self.enter(key_hash, position, stored_at_ms)

    def newest(self, int64_t slot):
        """Return the number of the newest entry in a slot, 0 when there is none."""
        return self.find(slot)

    cdef int enter(self, int64_t key_hash, int64_t position, int64_t stored_at_ms) except -1:
        cdef int64_t slot = _slot_of(key_hash, self.slots)
        cdef int64_t number = self.count
        cdef int64_t before = self.find(slot)
        cdef int64_t seconds = 0
        cdef Py_ssize_t length = PyByteArray_GET_SIZE(self.held)
        cdef uint8_t *at
        if 0 < self.begin_at_ms < stored_at_ms:
            seconds = min((stored_at_ms - self.begin_at_ms) // 1000, <int64_t> SECONDS_MAX)
        PyByteArray_Resize(self.held, length + INDEX_ENTRY_BYTES)
        at = <uint8_t *> PyByteArray_AS_STRING(self.held) + length
        at = store64(store32(at, <int32_t> key_hash), position)
        store32(store32(at, <int32_t> seconds), <int32_t> before)
        self._hold(<int32_t> slot, <int32_t> number)
        if number == 1:
            self.begin_position = position
            self.begin_at_ms = stored_at_ms
        if before == 0:
            self.slots_used += 1
        self.count = number + 1
        self.end_position = position
        self.end_at_ms = stored_at_ms
        return 0

    cdef void expect(self, int64_t key_hash) noexcept:
        """Have the processor bring what `enter` will look at: it is anywhere in twenty megabytes."""
        cdef int64_t slot = _slot_of(key_hash, self.slots)
        cdef int64_t at = HEADER_BYTES + slot * SLOT_BYTES
        pyromq_prefetch(self._table + 2 * _home_of(<int32_t> slot, self._table_size))
        if self._look is not None and 0 <= slot and at + SLOT_BYTES <= self._view.len:
            pyromq_prefetch(<const uint8_t *> self._view.buf + at)

    cdef int64_t find(self, int64_t slot) noexcept:
        cdef int32_t *pair = _find(self._table, self._table_size, <int32_t> slot)
        cdef int64_t number, at = HEADER_BYTES + slot * SLOT_BYTES
        if pair[0] == slot:
            number = pair[1]
        elif self._look is None or slot < 0 or at + SLOT_BYTES > self._view.len:
            return 0
        else:
            number = load32(<const uint8_t *> self._view.buf + at)
        return number if 0 < number < self.count else 0

    @property
    def room(self):
        """The number of keys that still go into the file."""
        return self.entries_max - self.count

    def holds_much(self, Py_ssize_t entries_bytes, Py_ssize_t slots):
        """Return whether so many bytes of entries or so many slots are held, or some are being written."""
        return self._noted != NULL or PyByteArray_GET_SIZE(self.held) >= entries_bytes or self._table_used >= slots

    @property
    def is_noted(self):
        """Whether slots are noted that are to be written."""
        return self._noted != NULL

    def note_slots(self):
        """Note which slots are held now, so that they can be written part by part."""
        cdef Py_ssize_t i, count = 0, room = self._table_used + 1
        cdef HeldSlot *space = <HeldSlot *> malloc(2 * room * sizeof(HeldSlot))
        cdef HeldSlot *held
        if space == NULL:
            raise MemoryError
        for i in range(self._table_size):
            if self._table[2 * i] >= 0:
                space[count].slot = self._table[2 * i]
                space[count].number = self._table[2 * i + 1]
                count += 1
        held = _sorted(space, space + room, count)
        if held != space:
            memcpy(space, held, count * sizeof(HeldSlot))
        self.forget_noted()
        self._noted = space
        self._noted_count = count
        self._noted_before = self.count

    def noted_parts(self, Py_ssize_t most):
        """Return the next parts of what is to be written of the noted slots, each with its place in the file.

        There are no more when it returns none.
        """
        cdef Py_ssize_t i, first = self._noted_at
        cdef HeldSlot *held = self._noted
        cdef list parts = []
        if self._look is None:
            raise ValueError("there is no file to look into")
        for i in range(first + 1, self._noted_count + 1):
            if len(parts) >= most:
                break
            if i == self._noted_count or _is_far(held[first].slot, held[i - 1].slot, held[i].slot):
                parts.append(self._part(held + first, i - first))
                first = i
        self._noted_at = first
        return parts

    def forget_noted(self):
        """Forget what was noted; it is held on."""
        free(self._noted)
        self._noted = NULL
        self._noted_count = self._noted_at = 0

    def drop_noted(self):
        """Forget the noted slots, which are written, and return the count of entries when they were noted."""
        cdef Py_ssize_t i, size = self._table_size
        cdef int32_t *held = self._table
        cdef int32_t *table = <int32_t *> malloc(2 * TABLE_SIZE_MIN * sizeof(int32_t))
        if table == NULL:
            raise MemoryError
        _clear(table, TABLE_SIZE_MIN)
        self._table, self._table_size, self._table_used = table, TABLE_SIZE_MIN, 0
        try:
            for i in range(size):
                if held[2 * i] >= 0 and held[2 * i + 1] >= self._noted_before:
                    self._hold(held[2 * i], held[2 * i + 1])
        finally:
            free(held)
        self.forget_noted()
        return self._noted_before

    cdef tuple _part(self, HeldSlot *held, Py_ssize_t count):
        cdef Py_ssize_t i
        cdef int64_t at = HEADER_BYTES + <int64_t> held[0].slot * SLOT_BYTES
        cdef int64_t end = HEADER_BYTES + <int64_t> held[count - 1].slot * SLOT_BYTES + SLOT_BYTES
        cdef bytes part
        cdef uint8_t *out
        if end > self._view.len:
            raise ValueError("the file is too short for its slots")
        part = PyBytes_FromStringAndSize(<const char *> self._view.buf + at, end - at)
        out = <uint8_t *> PyBytes_AS_STRING(part)
        for i in range(count):
            store32(out + (HEADER_BYTES + <int64_t> held[i].slot * SLOT_BYTES - at), held[i].number)
        return part, at

    def held_slots_count(self):
        """Return how many slots are not yet written."""
        return self._table_used

    def drop_held(self):
        """Forget what is held, because it was cut off."""
        self.forget_noted()
        PyByteArray_Resize(self.held, 0)
        _clear(self._table, self._table_size)
        self._table_used = 0

    cdef int _hold(self, int32_t slot, int32_t number) except -1:
        if 2 * (self._table_used + 1) > self._table_size:
            self._grow_table()
        self._table_used += _enter(self._table, self._table_size, slot, number)
        return 0

    cdef int _grow_table(self) except -1:
        cdef Py_ssize_t i, size = 2 * self._table_size
        cdef int32_t *table = <int32_t *> malloc(2 * size * sizeof(int32_t))
        if table == NULL:
            raise MemoryError
        _clear(table, size)
        for i in range(self._table_size):
            if self._table[2 * i] >= 0:
                _enter(table, size, self._table[2 * i], self._table[2 * i + 1])
        free(self._table)
        self._table = table
        self._table_size = size
        return 0


cdef inline int64_t _slot_of(int64_t key_hash, int64_t slots) noexcept nogil:
    # To divide 64 bits takes several times as long.
    if (key_hash | slots) >> 32 == 0:
        return <uint32_t> key_hash % <uint32_t> slots
    return key_hash % slots


cdef HeldSlot *_sorted(HeldSlot *held, HeldSlot *spare, Py_ssize_t count) noexcept nogil:
    """Sort by slot, a byte of it at a time, from one piece of memory to the other; return where they are then."""
    cdef Py_ssize_t starts[256]
    cdef Py_ssize_t i, start, next_start
    cdef int shift = 0
    cdef uint32_t all_bits = 0, digit
    for i in range(count):
        all_bits |= <uint32_t> held[i].slot
    while shift < 32 and all_bits >> shift:
        for i in range(256):
            starts[i] = 0
        for i in range(count):
            starts[<uint32_t> held[i].slot >> shift & 255] += 1
        start = 0
        for i in range(256):
            next_start = start + starts[i]
            starts[i] = start
            start = next_start
        for i in range(count):
            digit = <uint32_t> held[i].slot >> shift & 255
            spare[starts[digit]] = held[i]
            starts[digit] += 1
        held, spare = spare, held
        shift += 8
    return held


cdef inline bint _is_far(int32_t first, int32_t last, int32_t slot) noexcept nogil:
    """Return whether a slot begins a new part, behind one that has two slots at its ends."""
    return (
        <int64_t> (slot - last) * SLOT_BYTES > PAGE_BYTES
        or (<int64_t> slot - first) * SLOT_BYTES >= PART_BYTES_MAX
    )


cdef void _clear(int32_t *table, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        table[2 * i] = -1


cdef inline Py_ssize_t _home_of(int32_t slot, Py_ssize_t size) noexcept nogil:
    return (<uint32_t> slot * <uint32_t> 2654435769) & <uint32_t> (size - 1)


cdef int32_t *_find(int32_t *table, Py_ssize_t size, int32_t slot) noexcept nogil:
    """Return the pair of a slot, or the free one that it would take."""
    cdef Py_ssize_t i = _home_of(slot, size)
    while table[2 * i] != slot and table[2 * i] >= 0:
        i = (i + 1) & (size - 1)
    return table + 2 * i


cdef int _enter(int32_t *table, Py_ssize_t size, int32_t slot, int32_t number) noexcept nogil:
    """Set a slot's number and return how many slots came new into the table."""
    cdef int32_t *pair = _find(table, size, slot)
    cdef int is_new = pair[0] != slot
    pair[0] = slot
    pair[1] = number
    return is_new
