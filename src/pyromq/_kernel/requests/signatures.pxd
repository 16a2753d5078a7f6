"""Whether a signed request may pass, for the kernel's shortcuts."""

from libc.stdint cimport int32_t, uint8_t

from pyromq._kernel.codec.blocks cimport Block
from pyromq._kernel.codec.frames cimport Frame, Span


cdef enum:
    FACT_FIELDS_MAX = 4
    FACT_BYTES_MAX = 512
    RULES_MAX = 32


cdef struct Rule:
    #: What a request of a code needs is said by these of its fields alone; the names are borrowed.
    int32_t code
    int field_count
    const char *names[FACT_FIELDS_MAX]
    Py_ssize_t lengths[FACT_FIELDS_MAX]


cdef class Signatures:
    cdef Rule _rules[RULES_MAX]
    cdef int _rule_count
    #: What keeps the names in `_rules`.
    cdef object _named
    #: Account, code and the fields of its rule ─► the account's key.
    cdef dict _known
    cdef set _white_hosts
    cdef Block _values

    cdef bint allows(self, Frame *frame, bytes host) except -1
    cdef Rule *_rule_of(self, int32_t code) noexcept
    cdef bytes _fact_of(self, Frame *frame, Rule *rule)
    cdef bint _is_signed(self, Frame *frame, key) except -1
