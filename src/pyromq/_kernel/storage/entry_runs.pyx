"""Entries of a consume queue whose records stand one behind the other. `pyromq.store.reading` has the same in Python."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from pyromq._kernel.codec.bigend cimport load32, load64

cdef enum:
    #: Position, size, tags code.
    ENTRY_BYTES = 20
    SIZE_AT = 8


def run_of(bytes entries not None, int64_t limit, Py_ssize_t count_max, int64_t bytes_max):
    """Return how many entries at the front are one run that ends before `limit`, and where that run ends.

    There are at most so many, and more than one only within so many bytes.
    """
    cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(entries)
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t held = PyBytes_GET_SIZE(entries) // ENTRY_BYTES
    cdef int64_t position, size, run_bytes = 0
    if not held:
        raise ValueError("a run begins with an entry")
    position = load64(at)
    while count < held and count < count_max and position <= limit:
        size = <int64_t> <int32_t> load32(at + SIZE_AT)
        # A damaged entry may name any position: no sum is made that may not fit.
        if load64(at) != position or (size > 0 and <uint64_t> size > <uint64_t> limit - <uint64_t> position):
            break
        if count and run_bytes + size > bytes_max:
            break
        run_bytes += size
        position = <int64_t> (<uint64_t> position + <uint64_t> size)
        count += 1
        at += ENTRY_BYTES
    return count, position
