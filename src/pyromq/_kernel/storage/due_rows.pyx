"""The entries of the timer queue as rows of the table of messages that wait.

`pyromq.broker.kinds.timers.due_rows` is the same in Python, and says what entries and rows are. No Python object is
made for a message that is not due soon.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy

from pyromq._kernel.codec.bigend cimport load32, load64

cdef enum:
    ENTRY_BYTES = 20
    SIZE_AT = 8
    DUE_AT = 12
    ROW_BYTES = 20


def rows_before(bytes entries not None, int64_t end):
    """Return how many entries are of records before a position, and the rows of those that wait, in order."""
    cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(entries)
    cdef Py_ssize_t low = 0, high = _count_of(entries), middle, i, waiting = 0
    cdef uint8_t *row
    cdef bytes rows
    while low < high:
        middle = (low + high) // 2
        if <int64_t> load64(at + middle * ENTRY_BYTES) < end:
            low = middle + 1
        else:
            high = middle
    for i in range(low):
        waiting += <int64_t> load64(at + i * ENTRY_BYTES + DUE_AT) > 0
    rows = PyBytes_FromStringAndSize(NULL, waiting * ROW_BYTES)
    row = <uint8_t *> PyBytes_AS_STRING(rows)
    for i in range(low):
        if <int64_t> load64(at + DUE_AT) > 0:
            memcpy(row, at + DUE_AT, 8)
            memcpy(row + 8, at, 12)
            row += ROW_BYTES
        at += ENTRY_BYTES
    _sort(<uint8_t *> PyBytes_AS_STRING(rows), waiting)
    return low, rows


def near_rows(bytes entries not None, tuple after not None, tuple until not None):
    """Return which messages are due behind `after` and not behind `until`, and when the first behind that is."""
    cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(entries)
    cdef Py_ssize_t i
    cdef int64_t after_ms = after[0], after_position = after[1]
    cdef int64_t until_ms = until[0], until_position = until[1]
    cdef int64_t due_ms, position, beyond_ms = 0
    cdef list rows = []
    for i in range(_count_of(entries)):
        due_ms, position = load64(at + DUE_AT), load64(at)
        if due_ms > until_ms or (due_ms == until_ms and position > until_position):
            if due_ms > 0 and (beyond_ms == 0 or due_ms < beyond_ms):
                beyond_ms = due_ms
        elif due_ms > 0 and (due_ms > after_ms or (due_ms == after_ms and position > after_position)):
            rows.append((due_ms, position, <int32_t> load32(at + SIZE_AT)))
        at += ENTRY_BYTES
    return rows, beyond_ms or None


cdef Py_ssize_t _count_of(bytes entries) except -1:
    if PyBytes_GET_SIZE(entries) % ENTRY_BYTES:
        raise ValueError("these are no whole entries")
    return PyBytes_GET_SIZE(entries) // ENTRY_BYTES


cdef void _sort(uint8_t *rows, Py_ssize_t count) noexcept nogil:
    """Sort rows that are mostly in order: producers mostly ask for the same delay."""
    cdef Py_ssize_t i
    for i in range(1, count):
        if memcmp(rows + (i - 1) * ROW_BYTES, rows + i * ROW_BYTES, ROW_BYTES) > 0:
            qsort(rows, count, ROW_BYTES, _compare)
            return


cdef int _compare(const void *one, const void *other) noexcept nogil:
    return memcmp(one, other, ROW_BYTES)
