"""CRC-32 with the meaning of `zlib.crc32`, for the kernel's modules."""

from libc.stdint cimport uint8_t, uint32_t


cdef extern from "crc32.h" nogil:
    #: Go on from `crc`, which is 0 at the beginning.
    uint32_t pyromq_crc32(uint32_t crc, const uint8_t *data, size_t length)
    #: Its two halves, for tests: both take and return the inverted sum.
    uint32_t pyromq_crc32_by_tables(uint32_t crc, const uint8_t *data, size_t length)
