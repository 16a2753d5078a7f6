"""The offset of a group in a queue, as the table of offsets has it."""

from libc.stdint cimport int64_t

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1


cdef inline bint read_progress(dict offsets, object queue_id, int64_t *offset) except -1:
    """Read where a group is, from its offsets by queue id; return whether it is anywhere."""
    cdef int overflow = 0
    found = offsets.get(queue_id)
    if type(found) is not int:
        return False
    offset[0] = PyLong_AsLongLongAndOverflow(found, &overflow)
    return overflow == 0
