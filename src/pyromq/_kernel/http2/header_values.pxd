"""Headers as nghttp2 takes them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport strlen

from pyromq._kernel.http2.nghttp2 cimport nghttp2_nv

cdef enum:
    #: nghttp2's flags: the header goes into no table; its name and value stay where they are.
    NV_NO_INDEX = 1
    NV_NO_COPY_NAME = 2
    NV_NO_COPY_VALUE = 4


cdef inline void set_static(nghttp2_nv *header, const char *name, const char *value) noexcept:
    """Set a header whose name and value stay where they are."""
    header.name = <uint8_t *> name
    header.namelen = strlen(name)
    header.value = <uint8_t *> value
    header.valuelen = strlen(value)
    header.flags = NV_NO_COPY_NAME | NV_NO_COPY_VALUE


cdef inline void set_copied(nghttp2_nv *header, const char *name, bytes value, uint8_t flags) noexcept:
    """Set a header of whose value nghttp2 makes a copy."""
    header.name = <uint8_t *> name
    header.namelen = strlen(name)
    header.value = <uint8_t *> PyBytes_AS_STRING(value)
    header.valuelen = PyBytes_GET_SIZE(value)
    header.flags = NV_NO_COPY_NAME | flags


cdef inline void set_answer(nghttp2_nv *headers) noexcept:
    """Set the two headers that every answer begins with."""
    set_static(&headers[0], b":status", b"200")
    set_static(&headers[1], b"content-type", b"application/grpc")


cdef inline int set_trailers(nghttp2_nv *headers, bytes status, bytes text) noexcept:
    """Set the headers that end a call; return how many there are."""
    set_copied(&headers[0], b"grpc-status", status, 0)
    if text is None:
        return 1
    # A text is not kept in the table of headers: the next one is another.
    set_copied(&headers[1], b"grpc-message", text, NV_NO_INDEX)
    return 2
