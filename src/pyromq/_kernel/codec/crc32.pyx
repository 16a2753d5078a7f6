"""CRC-32 for Python, with the meaning of `zlib.crc32`: several times as fast where the processor multiplies."""

from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

from pyromq._kernel.codec.crc32 cimport pyromq_crc32


def crc32(data, uint32_t value=0, /):
    """Return the checksum of bytes, or go on from the one of those before them."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    value = pyromq_crc32(value, <const uint8_t *> view.buf, view.len)
    PyBuffer_Release(&view)
    return value
