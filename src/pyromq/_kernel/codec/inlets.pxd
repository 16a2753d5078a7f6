"""Received bytes of connections, and answers to them, until the turn of the loop ends."""

from libc.stdint cimport uint8_t


cdef class TurnInlets:
    #: When the first bytes of this turn were read (None: none were), and since when they may have waited.
    cdef public object began_at, looked_at
    cdef public object _monotonic
    cdef public double _ended_at
    #: Whether the loop found nothing to read since the last long turn.
    cdef public bint _is_idle
    #: Offered what noted inlets received; None: nothing is noted.
    cdef public object shortcut
    cdef public list noted, joined
    #: How much the noted inlets received.
    cdef public Py_ssize_t noted_bytes
    cdef public bint is_planned
    #: Asked before answers leave; None: they may.
    cdef public object may_leave
    #: Whether something is due, and whether somebody has this turn alone: then Python is called.
    cdef public bint has_due_steps, _is_taken
    #: What calls back when the turn ends; None: it is found out.
    cdef public object call_soon

    cdef int _begin(self) except -1
    cdef int _plan_end(self) except -1
    cdef int _handle_noted(self) except -1
    cdef int _write(self, now) except -1


cdef class Inlet:
    cdef TurnInlets _turn_of
    #: What arrived and was not handled, `bytes` or a `bytearray`, and where in it the next frame begins.
    cdef readonly object received
    cdef readonly Py_ssize_t start
    cdef public bytes peer_host_bytes
    cdef public bint closed
    #: Answers that are awaited here, and turns whose answers wait to be safe.
    cdef public set under_way
    cdef public Py_ssize_t unsettled
    cdef public object when_settled
    #: Pulls that are held for it, None when there never was one; each is dropped when the connection ends.
    cdef public dict held
    #: See `net/link.py`: when bytes last moved, since when the next frame may wait, when it was read.
    cdef public object _active_at, waits_since, read_at
    cdef public object _transport, _monotonic
    cdef public list _out
    cdef public Py_ssize_t _out_bytes, _out_bytes_high, _turn_bytes
    cdef public bint _is_caller, _takes_notes, _is_noted, _is_in_turn, _has_frames_left
    cdef public bint _is_reading_paused, _is_writing_paused
    #: Whether all that it receives was let in before: frames that the kernel made of calls which were signed.
    cdef bint is_admitted

    cdef int look(self, const uint8_t **start, const uint8_t **end) except -1
    cpdef feed(self, bytes data)
    cdef Py_ssize_t under_way_number(self)
    cdef Py_ssize_t room(self) noexcept
    cpdef skip_to(self, Py_ssize_t start)
    cpdef send_frames(self, bytes frames)
    cpdef _write(self)
    cdef int _end_turn(self, now) except -1


cdef class Withheld:
    #: The number of requests.
    cdef readonly Py_ssize_t count
    cdef list _inlets, _answers

    cdef int keep(self, Inlet inlet, bytes answers, Py_ssize_t count) except -1
