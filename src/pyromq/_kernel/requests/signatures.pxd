"""Whether a signed request may pass, for the kernel's shortcuts."""

from libc.stdint cimport int32_t, uint8_t

from pyromq._kernel.codec.blocks cimport Block
from pyromq._kernel.codec.frames cimport Frame, Span
from pyromq._kernel.storage.log_views cimport LogViews


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
    #: And by the topic of the message whose position this field gives; NULL: there is none.
    const char *place
    Py_ssize_t place_length


cdef class Signatures:
    cdef Rule _rules[RULES_MAX]
    cdef int _rule_count
    #: What keeps the names in `_rules`.
    cdef object _named
    #: Account, code, the fields of its rule and the topic of the message ─► the account's key.
    cdef dict _known
    #: The log that messages are looked for in, and what of it is being looked at.
    cdef object _log
    cdef LogViews _views
    cdef bint _is_looking
    cdef set _white_hosts
    cdef Block _values

    cdef bint allows(self, Frame *frame, bytes host) except -1
    cdef int release(self) except -1
    cdef Rule *_rule_of(self, int32_t code) noexcept
    cdef bytes _fact_of(self, Frame *frame, Rule *rule)
    cdef uint8_t *_add_topics(self, Frame *frame, Rule *rule, uint8_t *at, uint8_t *end) except? NULL
    cdef bint _is_signed(self, Frame *frame, key) except -1
