"""The messages of one queue that are in flight, as columns of numbers, and what ends one of them.

`pyromq.broker.pop.in_flight` is the same in Python, and says what each column means. An `DeliveryEnding` is what a
shortcut for acknowledgements keeps of a queue. A queue that is forgotten has nothing in flight, so what is
kept of it ends nothing.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcpy, memmove, memset

cdef enum:
    NOBODY = -1
    #: So many closed messages may stand before or between the open ones without a look.
    CLOSED_MAX = 1024
    #: The least that columns grow by.
    GROWTH = 32


cdef class Tally:
    """Counts of a table: messages in flight, changes, and what was acknowledged since somebody asked."""

    def take_acknowledged(self):
        """Return how many messages were ended by an `DeliveryEnding` since this was asked last."""
        cdef int64_t acknowledged = self.acknowledged
        self.acknowledged = 0
        return acknowledged


cdef class InFlight:
    """The messages in flight of one queue."""

    def __init__(self, Tally tally=None):
        self._tally = Tally() if tally is None else tally

    def __dealloc__(self):
        PyMem_Free(self._offset)
        PyMem_Free(self._popped_at)
        PyMem_Free(self._visible_at)
        PyMem_Free(self._client)
        PyMem_Free(self._is_open)

    @property
    def first(self):
        """The first offset in flight; None: nothing is."""
        return self._offset[self._head] if self.count else None

    @property
    def last(self):
        """The last offset that is known, finished or not; −1: none is."""
        return self._offset[self._size - 1] if self._size else -1

    def add(self, offsets, int64_t popped_at_ms, int64_t visible_at_ms, int32_t client=NOBODY):
        """Add messages behind all that are there."""
        cdef Py_ssize_t at = self._size
        cdef Py_ssize_t count = len(offsets)
        cdef int64_t offset
        if at + count > self._room:
            self._fit(at + count + max(at // 8, <Py_ssize_t> GROWTH))
        for offset in offsets:
            # A sequence that grows meanwhile is cut.
            if at == self._size + count:
                break
            self._offset[at] = offset
            self._popped_at[at] = popped_at_ms
            self._visible_at[at] = visible_at_ms
            self._client[at] = client
            self._is_open[at] = 1
            at += 1
        self.count += at - self._size
        self._tally.count += at - self._size
        self._size = at

    def find(self, int64_t offset):
        """Return the place of an open message, −1 when there is none."""
        return self.place(offset)

    def popped_at_ms(self, Py_ssize_t at):
        """Return the generation of the message at a place."""
        return self._popped_at[self._checked(at)]

    def visible_at_ms(self, Py_ssize_t at):
        """Return when the message at a place is visible again."""
        return self._visible_at[self._checked(at)]

    def client(self, Py_ssize_t at):
        """Return for whom the message at a place is renewed."""
        return self._client[self._checked(at)]

    def offset(self, Py_ssize_t at):
        """Return the offset of the message at a place."""
        return self._offset[self._checked(at)]

    def end(self, Py_ssize_t at):
        """Close the message at a place; places are others afterwards."""
        if not self._is_open[self._checked(at)]:
            raise ValueError("this message is finished")
        self.close(at)

    def move(self, Py_ssize_t at, int64_t popped_at_ms, int64_t visible_at_ms):
        """Give the message at a place another generation and time; nobody renews it any more."""
        self._popped_at[self._checked(at)] = popped_at_ms
        self._visible_at[at] = visible_at_ms
        self._client[at] = NOBODY

    def renew(self, Py_ssize_t at, int64_t visible_at_ms, *, bint keeps_client=True):
        """Give the message at a place another time; its handle stays valid."""
        self._visible_at[self._checked(at)] = visible_at_ms
        if not keeps_client:
            self._client[at] = NOBODY

    def due_from(self, int64_t offset, int64_t now_ms, Py_ssize_t count):
        """Return the offsets that are due among the next `count` from an offset on."""
        cdef Py_ssize_t at, start = self.lower(offset)
        return [
            self._offset[at]
            for at in range(start, start + min(count, self._size - start))
            if self._is_open[at] and self._visible_at[at] <= now_ms
        ]

    def of_client(self, int32_t client):
        """Return the offsets that are renewed for a client."""
        cdef Py_ssize_t at
        return [
            self._offset[at]
            for at in range(self._head, self._size)
            if self._client[at] == client and self._is_open[at]
        ]

    def clients(self):
        """Return the clients for whom messages are renewed."""
        cdef Py_ssize_t at
        return {self._client[at] for at in range(self._head, self._size) if self._is_open[at]}

    def renumber(self, numbers):
        """Give clients other numbers."""
        cdef Py_ssize_t at
        for at in range(self._size):
            self._client[at] = numbers.get(self._client[at], NOBODY)

    def open_places(self):
        """Return the places of all that is open."""
        cdef Py_ssize_t at
        return [at for at in range(self._head, self._size) if self._is_open[at]]

    def clear(self):
        """Forget everything."""
        self._tally.count -= self.count
        self.count = self._size = self._head = 0
        self._fit(0)

    def end_before(self, int64_t offset):
        """Close what is before an offset."""
        while self.count and self._offset[self._head] < offset:
            self.close(self._head)

    def columns(self):
        """Return what is open as bytes: offsets, generations, times, clients."""
        self._keep_open()
        return (
            PyBytes_FromStringAndSize(<char *> self._offset, self._size * sizeof(int64_t)),
            PyBytes_FromStringAndSize(<char *> self._popped_at, self._size * sizeof(int64_t)),
            PyBytes_FromStringAndSize(<char *> self._visible_at, self._size * sizeof(int64_t)),
            PyBytes_FromStringAndSize(<char *> self._client, self._size * sizeof(int32_t)),
        )

    def restore(self, tuple columns not None):
        """Be what `columns` returned."""
        cdef bytes offset, popped_at, visible_at, client
        cdef Py_ssize_t size
        offset, popped_at, visible_at, client = columns
        size = len(offset) // <Py_ssize_t> sizeof(int64_t)
        if len(popped_at) != len(offset) or len(visible_at) != len(offset) or len(offset) % sizeof(int64_t):
            raise ValueError("the columns of messages in flight are of one length")
        if len(client) != size * <Py_ssize_t> sizeof(int32_t):
            raise ValueError("the columns of messages in flight are of one length")
        self.clear()
        self._fit(size)
        if size:
            memcpy(self._offset, PyBytes_AS_STRING(offset), size * sizeof(int64_t))
            memcpy(self._popped_at, PyBytes_AS_STRING(popped_at), size * sizeof(int64_t))
            memcpy(self._visible_at, PyBytes_AS_STRING(visible_at), size * sizeof(int64_t))
            memcpy(self._client, PyBytes_AS_STRING(client), size * sizeof(int32_t))
            memset(self._is_open, 1, size)
        self._size = self.count = size
        self._tally.count += size

    cdef Py_ssize_t _checked(self, Py_ssize_t at) except -1:
        if not self._head <= at < self._size:
            raise IndexError("there is no such place")
        return at

    cdef Py_ssize_t lower(self, int64_t offset) noexcept:
        """Return the first place whose offset is not before this one."""
        cdef Py_ssize_t low = self._head, high = self._size, middle
        while low < high:
            middle = low + (high - low) // 2
            if self._offset[middle] < offset:
                low = middle + 1
            else:
                high = middle
        return low

    cdef Py_ssize_t place(self, int64_t offset) noexcept:
        """Return the place of an open message, −1 when there is none."""
        cdef Py_ssize_t at
        cdef int64_t first
        if self._head == self._size or offset < self._offset[self._head]:
            return -1
        # Mostly there is no gap.
        first = self._offset[self._head]
        at = self._head
        if <uint64_t> offset - <uint64_t> first < <uint64_t> (self._size - self._head):
            at += <Py_ssize_t> (offset - first)
        if self._offset[at] != offset:
            at = self.lower(offset)
            if at == self._size or self._offset[at] != offset:
                return -1
        return at if self._is_open[at] else -1

    cdef int close(self, Py_ssize_t at) except -1:
        """Close the open message at a place; see `end`."""
        cdef const uint8_t *found
        self._is_open[at] = 0
        self.count -= 1
        self._tally.count -= 1
        if at == self._head:
            found = <const uint8_t *> memchr(self._is_open + at, 1, self._size - at)
            self._head = self._size if found == NULL else found - self._is_open
        if self._head > CLOSED_MAX and self._head * 2 > self._size:
            self._drop_front()
        elif self._size - self._head > max(4 * self.count, <Py_ssize_t> CLOSED_MAX):
            self._keep_open()
        return 0

    cdef int _fit(self, Py_ssize_t room) except -1:
        """Let the columns have this room: `room` is not less than what is kept."""
        if room == self._room:
            return 0
        if room == 0:
            PyMem_Free(self._offset)
            PyMem_Free(self._popped_at)
            PyMem_Free(self._visible_at)
            PyMem_Free(self._client)
            PyMem_Free(self._is_open)
            self._offset = self._popped_at = self._visible_at = NULL
            self._client = NULL
            self._is_open = NULL
            self._room = 0
            return 0
        if room < self._room:
            # If one of them stays larger, nothing is lost.
            self._room = room
        self._offset = <int64_t *> _resized(self._offset, room * sizeof(int64_t))
        self._popped_at = <int64_t *> _resized(self._popped_at, room * sizeof(int64_t))
        self._visible_at = <int64_t *> _resized(self._visible_at, room * sizeof(int64_t))
        self._client = <int32_t *> _resized(self._client, room * sizeof(int32_t))
        self._is_open = <uint8_t *> _resized(self._is_open, room)
        self._room = room
        return 0

    cdef int _drop_front(self) except -1:
        """Drop what is closed at the front."""
        cdef Py_ssize_t first = self._head, kept = self._size - self._head
        memmove(self._offset, self._offset + first, kept * sizeof(int64_t))
        memmove(self._popped_at, self._popped_at + first, kept * sizeof(int64_t))
        memmove(self._visible_at, self._visible_at + first, kept * sizeof(int64_t))
        memmove(self._client, self._client + first, kept * sizeof(int32_t))
        memmove(self._is_open, self._is_open + first, kept)
        self._size = kept
        self._head = 0
        return self._shrink()

    cdef int _keep_open(self) except -1:
        """Drop all that is closed."""
        cdef Py_ssize_t at, kept = 0
        for at in range(self._head, self._size):
            if self._is_open[at]:
                self._offset[kept] = self._offset[at]
                self._popped_at[kept] = self._popped_at[at]
                self._visible_at[kept] = self._visible_at[at]
                self._client[kept] = self._client[at]
                self._is_open[kept] = 1
                kept += 1
        self._size = kept
        self._head = 0
        return self._shrink()

    cdef int _shrink(self) except -1:
        """Give memory back, when most of it is free."""
        if self._room > 4 * self._size + CLOSED_MAX:
            self._fit(self._size + max(self._size // 8, <Py_ssize_t> GROWTH))
        return 0


cdef class DeliveryEnding:
    """Ends messages of a queue, told their offsets and when they were popped.

    `note` sets `noted` of the queue, a list that takes the offsets of what ends in this turn.
    """

    def __init__(self, InFlight in_flight not None, note):
        self.in_flight = in_flight
        self._note = note

    def __call__(self, int64_t offset, int64_t popped_at_ms):
        """End a message; return whether it was in flight so, else nothing changes."""
        return self.end(offset, popped_at_ms)

    cdef bint has(self, int64_t offset, int64_t popped_at_ms) noexcept:
        """Return whether a message is in flight that was popped then."""
        cdef Py_ssize_t at = self.in_flight.place(offset)
        return at >= 0 and self.in_flight._popped_at[at] == popped_at_ms

    cdef bint end(self, int64_t offset, int64_t popped_at_ms) except -1:
        cdef InFlight in_flight = self.in_flight
        cdef Py_ssize_t at = in_flight.place(offset)
        if at < 0 or in_flight._popped_at[at] != popped_at_ms:
            return False
        if in_flight.noted is None:
            self._note()
        in_flight.noted.append(offset)
        in_flight.close(at)
        in_flight._tally.revision += 1
        in_flight._tally.acknowledged += 1
        return True


cdef void *_resized(void *column, size_t size) except NULL:
    cdef void *resized = PyMem_Realloc(column, size)
    if resized == NULL:
        raise MemoryError
    return resized
