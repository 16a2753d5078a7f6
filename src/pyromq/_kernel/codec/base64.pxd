"""Base64 with the letters that stand in addresses, as Java and Python write it."""

from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    static const char pyromq_base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    """
    const char *pyromq_base64


cdef inline Py_ssize_t base64_length(Py_ssize_t length) noexcept nogil:
    """Return how many characters so many bytes are."""
    return (length + 2) // 3 * 4


cdef inline void write_base64(uint8_t *out, const uint8_t *at, Py_ssize_t length) noexcept nogil:
    """Write bytes as base64, padded."""
    cdef uint32_t three
    cdef Py_ssize_t left = length
    while left > 0:
        three = <uint32_t> at[0] << 16
        if left > 1:
            three |= <uint32_t> at[1] << 8
        if left > 2:
            three |= at[2]
        out[0] = pyromq_base64[three >> 18]
        out[1] = pyromq_base64[three >> 12 & 63]
        out[2] = pyromq_base64[three >> 6 & 63] if left > 1 else c'='
        out[3] = pyromq_base64[three & 63] if left > 2 else c'='
        at += 3
        out += 4
        left -= 3
