"""Numbers as they travel and as they are stored: most significant byte first, at any address."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define pyromq_swap16 __builtin_bswap16
    #define pyromq_swap32 __builtin_bswap32
    #define pyromq_swap64 __builtin_bswap64
    #else
    #include <stdlib.h>
    #define pyromq_swap16 _byteswap_ushort
    #define pyromq_swap32 _byteswap_ulong
    #define pyromq_swap64 _byteswap_uint64
    #endif
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #undef pyromq_swap16
    #undef pyromq_swap32
    #undef pyromq_swap64
    #define pyromq_swap16(x) (x)
    #define pyromq_swap32(x) (x)
    #define pyromq_swap64(x) (x)
    #endif
    """
    uint16_t pyromq_swap16(uint16_t) nogil
    uint32_t pyromq_swap32(uint32_t) nogil
    uint64_t pyromq_swap64(uint64_t) nogil


cdef inline int16_t load16(const uint8_t *at) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, at, 2)
    return <int16_t> pyromq_swap16(value)


cdef inline int32_t load32(const uint8_t *at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return <int32_t> pyromq_swap32(value)


cdef inline int64_t load64(const uint8_t *at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return <int64_t> pyromq_swap64(value)


cdef inline uint8_t *store16(uint8_t *at, int16_t number) noexcept nogil:
    """Write a number and return the byte behind it."""
    cdef uint16_t value = pyromq_swap16(<uint16_t> number)
    memcpy(at, &value, 2)
    return at + 2


cdef inline uint8_t *store32(uint8_t *at, int32_t number) noexcept nogil:
    cdef uint32_t value = pyromq_swap32(<uint32_t> number)
    memcpy(at, &value, 4)
    return at + 4


cdef inline uint8_t *store64(uint8_t *at, int64_t number) noexcept nogil:
    cdef uint64_t value = pyromq_swap64(<uint64_t> number)
    memcpy(at, &value, 8)
    return at + 8


cdef inline uint32_t java_hash(uint32_t value, const uint8_t *text, Py_ssize_t length) noexcept nogil:
    """Go on with Java's string hash over ASCII characters."""
    cdef Py_ssize_t i = 0
    # Four at a time: what one character waits for of the one before it is what takes the time.
    while i + 4 <= length:
        value = (
            value * <uint32_t> 923521
            + text[i] * <uint32_t> 29791
            + text[i + 1] * <uint32_t> 961
            + text[i + 2] * <uint32_t> 31
            + text[i + 3]
        )
        i += 4
    while i < length:
        value = value * 31 + text[i]
        i += 1
    return value


cdef inline uint8_t *write_decimal(uint8_t *at, int64_t number) noexcept nogil:
    """Write a number as text, up to 20 characters, and return the byte behind it."""
    cdef uint8_t digits[20]
    cdef int count = 0
    cdef uint64_t rest
    if number < 0:
        at[0] = c'-'
        at += 1
        rest = 0 - <uint64_t> number
    else:
        rest = <uint64_t> number
    while True:
        digits[count] = c'0' + <uint8_t> (rest % 10)
        rest //= 10
        count += 1
        if rest == 0:
            break
    while count:
        count -= 1
        at[0] = digits[count]
        at += 1
    return at
