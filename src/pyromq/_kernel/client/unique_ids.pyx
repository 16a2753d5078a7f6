"""The unique ids that a producer gives its messages; `pyromq.wire.message_id` is the same in Python."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from datetime import datetime
from ipaddress import ip_address

cdef const char *DIGITS = b"0123456789ABCDEF"


cdef class UniqueIds:
    """Makes ids of an address, a process, the time and a count."""

    def __init__(self, address, pid, loader_hash=0):
        fixed = ip_address(address).packed
        fixed += (pid & 0xFFFF).to_bytes(2, "big") + (loader_hash & 0xFFFFFFFF).to_bytes(4, "big")
        self._prefix = fixed.hex().upper().encode()
        self._count = 0
        self._month_starts_ms = self._month_ends_ms = 0

    def next(self, int64_t now_ms):
        """Return an id that this object has not given within the last 65,536."""
        cdef uint8_t id_[ID_CHARACTERS_MAX]
        cdef Py_ssize_t length = self.write(id_, now_ms)
        return PyUnicode_DecodeASCII(<const char *> id_, length, NULL)

    cdef Py_ssize_t write(self, uint8_t *at, int64_t now_ms) except -1:
        """Write the next id and return its characters."""
        cdef Py_ssize_t length = PyBytes_GET_SIZE(self._prefix)
        cdef uint64_t number
        cdef int i
        if now_ms >= self._month_ends_ms:
            self._month_starts_ms, self._month_ends_ms = _month_around(now_ms)
        # A clock that was set back a little before the month's start must not give a huge number.
        number = <uint64_t> (now_ms - self._month_starts_ms) if now_ms > self._month_starts_ms else 0
        number = (number & 0xFFFFFFFFULL) << 16 | (self._count & 0xFFFF)
        self._count += 1
        memcpy(at, PyBytes_AS_STRING(self._prefix), length)
        for i in range(12):
            at[length + 11 - i] = <uint8_t> DIGITS[number & 15]
            number >>= 4
        return length + 12


def _month_around(now_ms):
    start = datetime.fromtimestamp(now_ms / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    next_month = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return int(start.timestamp() * 1000), int(next_month.timestamp() * 1000)
