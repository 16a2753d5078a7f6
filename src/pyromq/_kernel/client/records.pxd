"""Messages in a pulled buffer, for whoever makes something else of them."""

from libc.stdint cimport uint8_t

from pyromq._kernel.codec.layout cimport HEAD_BYTES, Text


cdef class ReceivedMessage:
    cdef public object topic, queue
    cdef uint8_t _head[HEAD_BYTES]
    #: What body and properties are read from; None when both were.
    cdef bytes _buffer
    cdef Text _body_text, _properties_text
    #: Pairs that the answer's header adds to those of the record.
    cdef dict _added
    cdef object _body, _properties, _message_id, _offset_message_id, _born_host, _store_host

    cdef int _read_properties(self) except -1
    cdef void _let_go(self) noexcept
    cdef tuple _values(self)


cdef str text_of(Text text)
cdef str host_text(const uint8_t *host)
