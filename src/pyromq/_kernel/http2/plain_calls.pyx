"""A call whose request is there as a whole, and is answered with one message.

`pyromq.net.http2.plain_call` is the same in Python, and says what is whose. Nothing is decided here: what a call is
answered is its handler's, and a call that is not plain is done step by step by `ServerCall`, which inherits this.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from pyromq._kernel.http2.call_streams cimport CallHeaders
from pyromq._kernel.http2.session_words cimport ENDED_, MESSAGE_

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


def is_whole(list events not None, Py_ssize_t at, stream_id):
    """Whether a call has its only message and its end next among some events."""
    cdef tuple event
    if at < 0 or at + 2 > len(events):
        return False
    event = events[at]
    if event[0] != MESSAGE_ or event[1] != stream_id:
        return False
    event = events[at + 1]
    return event[0] == ENDED_ and event[1] == stream_id


cdef class PlainCall:
    """The fields of a call, and the steps that most calls take."""

    cdef public object _link, method, metadata, peer, peer_host_bytes, opened_at, deadline, on_over
    cdef public object _handler, _request, _stream, _task, _timer
    cdef public int32_t stream_id
    cdef public bint is_over

    def __init__(self, link, int32_t stream_id, path, metadata, opened_at):
        self._link = link
        self.stream_id = stream_id
        self.method = path
        self.metadata = metadata
        self.peer = link.peer
        self.peer_host_bytes = link.peer_host_bytes
        self.opened_at = opened_at

    def do_whole(self, methods, bytes request not None):
        """Do a call of which all has arrived."""
        cdef CallHeaders headers
        cdef const uint8_t *timeout
        cdef Py_ssize_t size = 0
        cdef double seconds
        handler = methods.get(self.method)
        unary = None if handler is None else handler.unary
        if unary is None or not isinstance(self.metadata, CallHeaders):
            self._do_by_steps(methods, request)
            return
        headers = <CallHeaders> self.metadata
        if headers.find(b"grpc-encoding", 13, &size) != NULL:
            self._do_by_steps(methods, request)
            return
        timeout = headers.find(b"grpc-timeout", 12, &size)
        if timeout != NULL:
            seconds = seconds_of(timeout, size)
            if seconds < 0:
                self._do_by_steps(methods, request)
                return
            if seconds <= DEADLINE_S_MAX:
                seconds += <double> self.opened_at
                self.deadline = seconds
                if <double> self._link._monotonic() >= seconds:
                    self._expire()
                    return
        try:
            answer = unary(self, request)
        except Exception as error:
            self._fail(error)
            return
        if answer is not None:
            self.answer(answer)

    def answer(self, answer):
        """Answer the call with its only message, or with what gives it later."""
        if not isinstance(answer, bytes):
            self._own(answer)
        elif not self.is_over:
            link = self._link
            session = link._session
            session.answer(self.stream_id, answer)
            if not link._is_noted_for_output or session.queued_bytes > link._out_bytes_high:
                link._has_output()
            self.end()

    def end(self):
        """Note that the call is over: its task is cancelled, and whoever wants to know is told."""
        if self.is_over:
            return
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
