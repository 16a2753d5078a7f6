"""Whether a signed call of gRPC may be made, for the kernel's shortcuts."""

from libc.stdint cimport uint8_t

from pyromq._kernel.requests.grpc_request cimport Text

cdef enum:
    NEED_BYTES_MAX = 512
    #: As `Permission` has them.
    MAY_PUBLISH = 4
    MAY_SUBSCRIBE = 8


cdef struct Need:
    uint8_t bytes[NEED_BYTES_MAX]
    Py_ssize_t length


cdef bint add_need(Need *need, int permission, const char *prefix, Py_ssize_t prefix_length, const Text *name) noexcept nogil


cdef class GrpcSignatures:
    #: Python's: returns the rules that hold now. All that was learnt follows from `_held`.
    cdef object _rules, _held
    #: Account and need ─► the account's key, and whose a call is.
    cdef dict _known
    #: Hosts from which everything is let in ─► whose a call is.
    cdef dict _white_hosts

    cdef int _hold(self, rules) except -1
    cdef object admitted(self, call, const uint8_t *need, Py_ssize_t length)
