"""Records of the log that are stored again: as they are, or with another place, fate, and more properties."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from pyromq._kernel.codec.layout cimport Plain, Text, next_part
from pyromq._kernel.storage.drafts cimport Draft
from pyromq._kernel.storage.known cimport KnownTopics
from pyromq._kernel.storage.log_views cimport LogViews


cdef struct Target:
    #: A topic and a queue of it, both borrowed.
    PyObject *topic
    PyObject *queue


cdef class Again:
    cdef KnownTopics _topics
    cdef LogViews _views
    cdef Py_ssize_t _body_bytes_max

    cdef bint begin_draft(self, int64_t position, Plain *record, Draft *draft) except -1
    cdef bint find(self, const uint8_t *topic, Py_ssize_t length, int64_t queue_id, Target *target) noexcept
    cdef bint find_due(self, Plain *record, Draft *draft, Target *target) noexcept



cdef inline bint value_in(Text *properties, const char *head, Py_ssize_t head_length, Text *value) noexcept nogil:
    """Find the value of the pairs that begin with `head`, a name and what ends it; of two the later holds."""
    cdef Text left = properties[0]
    cdef Text part
    value.at, value.length = properties.at, 0
    while next_part(&left, 2, &part):
        if part.length > head_length and memcmp(part.at, head, head_length) == 0:
            value.at, value.length = part.at + head_length, part.length - head_length
    return value.length > 0


cdef inline bint is_equal(Text *text, const uint8_t *at, Py_ssize_t length) noexcept nogil:
    return text.length == length and memcmp(text.at, at, length) == 0
