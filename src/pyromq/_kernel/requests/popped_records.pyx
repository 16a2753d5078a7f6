"""Records that a pop read: the words of a handle for each, out of the records' own heads.

`pyromq.broker.pop.pop_reading` has the same in Python, and reads what is left here: records that are not of
version 1, have IPv6 hosts or are not whole.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t

from pyromq._kernel.codec.bigend cimport load32, load64
from pyromq._kernel.codec.layout cimport POSITION_AT, QUEUE_OFFSET_AT, RECONSUME_TIMES_AT, Plain, read_plain

cdef enum:
    #: Records of one pop.
    RECORDS_MAX = 64


def split_records(bytes body not None):
    """Return sizes, queue offsets, positions and delivery attempts of records one behind the other; None: not plain."""
    cdef const uint8_t *heads[RECORDS_MAX]
    cdef const uint8_t *at = <const uint8_t *> PyBytes_AS_STRING(body)
    cdef const uint8_t *end = at + PyBytes_GET_SIZE(body)
    cdef Plain record
    cdef list sizes, offsets, positions, attempts
    cdef Py_ssize_t i, count = 0
    while at < end:
        if count == RECORDS_MAX or not read_plain(at, end - at, &record):
            return None
        heads[count] = at
        count += 1
        at += record.size
    sizes, offsets, positions, attempts = (
        PyList_New(count), PyList_New(count), PyList_New(count), PyList_New(count)
    )
    for i in range(count):
        put(sizes, i, load32(heads[i]))
        put(offsets, i, load64(heads[i] + QUEUE_OFFSET_AT))
        put(positions, i, load64(heads[i] + POSITION_AT))
        put(attempts, i, <int64_t> load32(heads[i] + RECONSUME_TIMES_AT) + 1)
    return sizes, offsets, positions, attempts


cdef inline int put(list numbers, Py_ssize_t i, int64_t number) except -1:
    """Give a new list its number at a place."""
    cdef object made = number
    Py_INCREF(made)
    PyList_SET_ITEM(numbers, i, made)
    return 0
