"""A call whose request is there as a whole, and whose handler is called once.

`pyromq.net.http2.plain_call` is the same in Python, and says what is whose. Nothing is decided here: what a call is
answered is its handler's, and a call that is not plain is done step by step by `ServerCall`, which inherits this.
"""

from cpython.dict cimport PyDict_Size
from cpython.list cimport PyList_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from pyromq._kernel.codec.inlets cimport Inlet
from pyromq._kernel.http2.call_streams cimport CallHeaders
from pyromq._kernel.http2.session_words cimport ENDED_, MESSAGE_, OPENED_

cdef extern from *:
    """
    static PyObject *pyromq_new_of(PyObject *type, PyObject *none) {
        return ((PyTypeObject *)type)->tp_new((PyTypeObject *)type, none, NULL);
    }
    """
    object pyromq_new_of(object type, object none)

cdef enum:
    DIGITS_MAX = 8

#: A deadline that is further away is none.
cdef double DEADLINE_S_MAX = 366 * 24 * 3600.0


cdef double seconds_of(const uint8_t *text, Py_ssize_t size) noexcept nogil:
    """Return the seconds of a header `grpc-timeout`, a negative number when Python is to say what is wrong with it."""
    cdef int64_t number = 0
    cdef Py_ssize_t i
    cdef uint8_t unit
    if not 2 <= size <= DIGITS_MAX + 1:
        return -1.0
    for i in range(size - 1):
        if not c'0' <= text[i] <= c'9':
            return -1.0
        number = 10 * number + (text[i] - c'0')
    unit = text[size - 1]
    if unit == c'H':
        return number * 3600.0
    if unit == c'M':
        return number * 60.0
    if unit == c'S':
        return number * 1.0
    if unit == c'm':
        return number * 1e-3
    if unit == c'u':
        return number * 1e-6
    return number * 1e-9 if unit == c'n' else -1.0


cdef bint ends_at_once(list events, Py_ssize_t at, stream_id) except -1:
    """Whether a call has its only message and its end next among some events."""
    cdef tuple event
    if at + 2 > PyList_GET_SIZE(events):
        return False
    event = <tuple?> events[at]
    if <int> event[0] != MESSAGE_ or event[1] != stream_id:
        return False
    event = <tuple?> events[at + 1]
    return <int> event[0] == ENDED_ and event[1] == stream_id


def take_all(link, list events not None, call_type, Py_ssize_t uncounted):
    """Have the calls of a link do what its session tells; `call_type` is that of new calls.

    Headers of more calls than `uncounted` are counted.
    """
    cdef dict calls = <dict?> link._calls
    cdef Py_ssize_t at = 0
    cdef tuple event
    cdef bint is_known = issubclass(call_type, PlainCall)
    # By the time when it was read: a call that waited in a long turn has waited.
    methods, opened_at = link._methods, link.read_at
    while at < PyList_GET_SIZE(events):
        event = <tuple?> events[at]
        at += 1
        if <int> event[0] != OPENED_:
            link._take(event[0], event[1], event[2], event[3])
            continue
        stream_id = event[1]
        if is_known:
            call = pyromq_new_of(call_type, ())
            (<PlainCall> call).begin_at(link, stream_id, event[2], event[3], opened_at)
        else:
            call = call_type(link, stream_id, event[2], event[3], opened_at)
        calls[stream_id] = call
        if PyDict_Size(calls) > uncounted and not link._has_room_for_headers(stream_id, event[3]):
            link._refuse_headers(call)
        elif ends_at_once(events, at, stream_id):
            event = <tuple> events[at]
            at += 2
            if is_known:
                (<PlainCall> call).do_now(methods, <bytes?> event[2])
            else:
                call.do_whole(methods, event[2])
        else:
            call.begin(methods)


cdef class PlainCall:
    """The fields of a call, and the steps that most calls take."""

    def __init__(self, link, int32_t stream_id, path, metadata, opened_at):
        self.begin_at(link, stream_id, path, metadata, opened_at)

    def do_whole(self, methods, bytes request not None):
        """Do a call of which all has arrived."""
        self.do_now(methods, request)

    def answer(self, answer):
        """Answer the call with its only message, or with what gives it later."""
        if not isinstance(answer, bytes):
            self._own(answer)
        elif not self.is_over:
            self.answer_now(<bytes> answer)

    def end(self):
        """Note that the call is over: its task is cancelled, and whoever wants to know is told."""
        self.end_now()

    cdef int begin_at(self, link, int32_t stream_id, path, metadata, opened_at) except -1:
        self._link = link
        self.stream_id = stream_id
        self.method = path
        self.metadata = metadata
        self.peer = link.peer
        self.peer_host_bytes = (<Inlet> link).peer_host_bytes if isinstance(link, Inlet) else link.peer_host_bytes
        self.opened_at = opened_at
        return 0

    cdef int do_now(self, methods, bytes request) except -1:
        cdef CallHeaders headers
        cdef const uint8_t *timeout
        cdef Py_ssize_t size = 0
        cdef double seconds
        cdef bint is_unary = True
        handler = methods.get(self.method)
        do = None if handler is None else handler.unary
        if do is None and handler is not None:
            is_unary = False
            do = handler.server_stream
        if do is None or not isinstance(self.metadata, CallHeaders):
            self._do_by_steps(methods, request)
            return 0
        headers = <CallHeaders> self.metadata
        if headers.find(b"grpc-encoding", 13, &size) != NULL:
            self._do_by_steps(methods, request)
            return 0
        timeout = headers.find(b"grpc-timeout", 12, &size)
        if timeout != NULL:
            seconds = seconds_of(timeout, size)
            if seconds < 0:
                self._do_by_steps(methods, request)
                return 0
            if seconds <= DEADLINE_S_MAX:
                seconds += <double> self.opened_at
                self.deadline = seconds
                if <double> self._link._monotonic() >= seconds:
                    self._expire()
                    return 0
        try:
            answer = do(self, request)
        except Exception as error:
            self._fail(error)
            return 0
        if answer is None:
            # Of a stream it was all; another call is answered later.
            if not is_unary:
                self.finish()
        elif not isinstance(answer, bytes):
            self._own(answer)
        elif not self.is_over:
            self.answer_now(<bytes> answer)
        return 0

    cdef int answer_now(self, bytes answer) except -1:
        link = self._link
        session = link._session
        session.answer(self.stream_id, answer)
        if not link._is_noted_for_output or session.queued_bytes > link._out_bytes_high:
            link._has_output()
        return self.end_now()

    cdef int end_now(self) except -1:
        if self.is_over:
            return 0
        self.is_over = True
        self._request = None
        link = self._link
        if link._headers is None and not link._rooms:
            (<dict?> link._calls).pop(self.stream_id, None)
        else:
            link.forget_call(self)
        if (
            self._timer is not None or self._task is not None or self.on_over is not None or self._stream is not None
        ):
            self._end_others()
        return 0
