"""Memory that grows and is kept for the next time, and copying into it."""

from libc.stdint cimport uint8_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy


cdef struct Block:
    uint8_t *bytes
    Py_ssize_t used
    Py_ssize_t room


cdef inline int need(Block *block, Py_ssize_t size) except -1:
    """See to it that there is room for `size` more bytes."""
    cdef Py_ssize_t room = block.room
    cdef uint8_t *bytes_
    if block.used + size <= room:
        return 0
    room = max(2 * room, block.used + size, <Py_ssize_t> 4096)
    bytes_ = <uint8_t *> realloc(block.bytes, room)
    if bytes_ == NULL:
        raise MemoryError
    block.bytes = bytes_
    block.room = room
    return 0


cdef inline uint8_t *copy(uint8_t *at, const void *source, Py_ssize_t length) noexcept nogil:
    """Copy bytes and return the byte behind them."""
    if length:
        memcpy(at, source, length)
    return at + length
