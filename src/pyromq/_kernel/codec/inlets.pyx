"""Received bytes of connections, and answers to them, until the turn of the loop ends.

    data_received    bytes ──► the inlet, which notes itself in its turn
    end              noted inlets ──► shortcuts, which plan and answer what stands at the front of them
    send_frames      answers ──► the inlet, which joins the end of its turn
    end              answers ──► the transport, in one write

`pyromq.net.inlet` is the same in Python; `pyromq.net.link` and `pyromq.net.turn` inherit it: limits, first
bytes, requests of our own, steps, and everything that is not plain stay there. The clock, the loop and the
transport are Python's; they are called, and nothing is known of them here.
"""

from asyncio import get_running_loop

from cpython.bytearray cimport (
    PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE, PyByteArray_Resize
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Size
from cpython.list cimport PyList_GET_SIZE
from cpython.set cimport PySet_GET_SIZE
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

cdef enum:
    #: As `net/inlet.py` says why.
    TURN_BYTES_MAX_ = 262144
    NOTED_BYTES_MAX_ = 262144
    OUTPUT_FACTOR_MAX_ = 16

cdef double IDLE_S_ = 0.005

IDLE_S = IDLE_S_
TURN_BYTES_MAX = TURN_BYTES_MAX_
NOTED_BYTES_MAX = NOTED_BYTES_MAX_
OUTPUT_FACTOR_MAX = OUTPUT_FACTOR_MAX_


cdef class TurnInlets:
    """The inlets that take part in a turn, its beginning and end. `Turn` inherits it and has the rest."""

    def __cinit__(self, *args, **kwargs):
        self.noted = []
        self.joined = []
        self.looked_at = 0.0
        self._is_idle = True

    def plan_end(self):
        """Let there be an end of this turn."""
        self._plan_end()

    cdef int _plan_end(self) except -1:
        if self.is_planned:
            return 0
        self.is_planned = True
        if self.call_soon is None:
            self.call_soon = get_running_loop().call_soon
        self.call_soon(self.end)
        return 0

    cdef int _begin(self) except -1:
        """Note that bytes were read, and since when they may have been there to be read."""
        now = self._monotonic()
        # Time alone does not tell: it passes also while the process gets no processor.
        if self._is_idle and <double> now - self._ended_at > IDLE_S_:
            self.looked_at = now
        self.began_at = now
        return self._plan_end()

    def end(self):
        """Handle what noted inlets received, run what is due, and let the inlets that joined write."""
        # What is handled here is a part of the turn.
        if PyList_GET_SIZE(self.noted):
            self._handle_noted()
        self.is_planned = False
        now = self._monotonic()
        if self.began_at is not None:
            self.looked_at = self.began_at
            self._ended_at = now
            self.began_at = None
            self._is_idle = self._ended_at - <double> self.looked_at < IDLE_S_
            if not self._is_idle:
                self._look_for_bytes(2)
        if self.has_due_steps:
            self._run_steps()
        if self._is_taken:
            self._pass_on()
        if PyList_GET_SIZE(self.joined):
            self._write(now)

    cdef int _handle_noted(self) except -1:
        cdef list inlets = self.noted
        cdef Inlet inlet
        self.noted = []
        self.noted_bytes = 0
        try:
            if self.shortcut is not None:
                self.shortcut(inlets)
        except Exception:
            self._give_up(inlets)
        for inlet in left_over(inlets):
            inlet.handle_left()
        return 0

    cdef int _write(self, now) except -1:
        cdef list inlets = self.joined
        cdef Inlet inlet
        self.joined = []
        if self.may_leave is not None and not self.may_leave():
            self._keep_back(inlets)
            return 0
        for inlet in inlets:
            inlet._end_turn(now)
        return 0


cdef class Inlet:
    """Received bytes of a connection that were not handled, and answers that leave when the turn ends."""

    def __cinit__(self, *args, **kwargs):
        self.received = b""
        self.peer_host_bytes = bytes(8)
        self.under_way = set()
        self._out = []

    def __init__(self, TurnInlets turn not None, monotonic, Py_ssize_t out_bytes_high, *, bint is_caller=False):
        self._turn_of = turn
        self._monotonic = monotonic
        self._out_bytes_high = out_bytes_high
        self._is_caller = is_caller
        self._active_at = self.waits_since = self.read_at = monotonic()

    @property
    def _turn(self):
        return self._turn_of

    # What arrives

    def data_received(self, bytes data not None):
        """Keep what arrived; it is handled when the turn ends, or now when much is kept or it may not be."""
        cdef TurnInlets turn = self._turn_of
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        if self.closed:
            # TLS hands on what comes until its peer has said goodbye too.
            return
        if not self._is_caller:
            if turn.began_at is None:
                turn._begin()
            self._active_at = turn.began_at
            # Frames that are left are older.
            if not self._has_frames_left:
                self.read_at = turn.began_at
                self.waits_since = turn.looked_at
        self._turn_bytes += size
        self.feed(data)
        if self._takes_notes and turn.shortcut is not None:
            if not self._is_noted:
                self._is_noted = True
                turn.noted.append(self)
                turn._plan_end()
            turn.noted_bytes += size
            if turn.noted_bytes > NOTED_BYTES_MAX_ or self._turn_bytes > TURN_BYTES_MAX_:
                turn._handle_noted()
            if self._turn_bytes > TURN_BYTES_MAX_:
                self._settle()
            return
        self._handle_received(data)

    cpdef feed(self, bytes data):
        """Keep bytes behind those that were not handled."""
        cdef Py_ssize_t length, size = len(data)
        cdef object received = self.received
        if type(received) is bytes:
            length = PyBytes_GET_SIZE(received) - self.start
            if length <= 0:
                self.received = data
                self.start = 0
                return
            received = PyByteArray_FromStringAndSize(PyBytes_AS_STRING(received) + self.start, length)
        else:
            length = PyByteArray_GET_SIZE(received) - self.start
            if length <= 0:
                self.received = data
                self.start = 0
                return
            if self.start:
                del received[:self.start]
        self.received = received
        self.start = 0
        PyByteArray_Resize(received, length + size)
        memcpy(PyByteArray_AS_STRING(received) + length, PyBytes_AS_STRING(data), size)

    cdef int look(self, const uint8_t **start, const uint8_t **end) except -1:
        """Say where what was not handled begins and ends, until the next bytes arrive."""
        cdef const uint8_t *at
        if type(self.received) is bytes:
            at = <const uint8_t *> PyBytes_AS_STRING(self.received)
            end[0] = at + PyBytes_GET_SIZE(self.received)
        else:
            at = <const uint8_t *> PyByteArray_AS_STRING(self.received)
            end[0] = at + PyByteArray_GET_SIZE(self.received)
        start[0] = at + self.start
        return 0

    @property
    def pending_bytes(self):
        """The number of received bytes that were not handled."""
        return len(self.received) - self.start

    cpdef skip_to(self, Py_ssize_t start):
        """Go on at byte `start` of what was received, where a frame begins: those before it were handled."""
        cdef Py_ssize_t length = len(self.received)
        if not self.start <= start <= length:
            raise ValueError("a frame begins in what was received")
        self.start = start
        if start == length:
            self.received = b""
            self.start = 0

    # What leaves

    @property
    def under_way_count(self):
        """The number of requests, and of turns of requests, whose answers are awaited."""
        return self.under_way_number()

    cdef Py_ssize_t under_way_number(self):
        cdef Py_ssize_t held = 0 if self.held is None else PyDict_Size(self.held)
        return PySet_GET_SIZE(self.under_way) + self.unsettled + held

    def settled_one(self):
        """Note that the answers of a turn wait no longer."""
        self.unsettled -= 1
        if self.when_settled is not None and not self.unsettled:
            self.when_settled()

    cdef Py_ssize_t room(self) noexcept:
        if self.closed or self._is_writing_paused:
            return 0
        return self._out_bytes_high - self._out_bytes

    def answer_room(self):
        """Return how many bytes of answers the link takes now; with 0 or less no frame is to be handled."""
        return self.room()

    cpdef send_frames(self, bytes frames):
        """Write frames when this turn ends; on a closed link they are dropped, as the network would."""
        cdef TurnInlets turn = self._turn_of
        if self.closed:
            return
        self._out.append(frames)
        self._out_bytes += PyBytes_GET_SIZE(frames)
        if not self._is_in_turn:
            self._is_in_turn = True
            turn.joined.append(self)
            turn._plan_end()

    cpdef _write(self):
        cdef list out = self._out
        cdef Py_ssize_t waiting_bytes
        if PyList_GET_SIZE(out) == 0 or self._transport is None:
            return
        self._out = []
        self._out_bytes = 0
        if PyList_GET_SIZE(out) == 1:
            self._transport.write(out[0])
        else:
            self._transport.writelines(out)
        # Below the high-water mark nobody is told to pause, and little waits.
        if not self._is_writing_paused or self._transport is None:
            return
        waiting_bytes = self._transport.get_write_buffer_size()
        if waiting_bytes > self._out_bytes_high * OUTPUT_FACTOR_MAX_:
            self._overflow(waiting_bytes)

    cdef int _end_turn(self, now) except -1:
        """Write what was collected, then take up what was left over."""
        self._is_in_turn = False
        self._turn_bytes = 0
        if PyList_GET_SIZE(self._out):
            self._write()
            if not self._is_writing_paused:
                self._active_at = now
        if self._has_frames_left or self._is_reading_paused or self._is_writing_paused or self._is_caller:
            self._go_on()
        return 0


cdef class Withheld:
    """Answers of several inlets that wait until something is safe; each counts as under way meanwhile."""

    def __cinit__(self):
        self._inlets = []
        self._answers = []

    cdef int keep(self, Inlet inlet, bytes answers, Py_ssize_t count) except -1:
        inlet.unsettled += 1
        self._inlets.append(inlet)
        self._answers.append(answers)
        self.count += count
        return 0

    def let_go(self):
        """Let the answers leave; a request without an answer waits no longer."""
        cdef Py_ssize_t i
        cdef Inlet inlet
        for i in range(PyList_GET_SIZE(self._inlets)):
            inlet = <Inlet> self._inlets[i]
            if self._answers[i]:
                inlet.send_frames(<bytes> self._answers[i])
            inlet.settled_one()

    def each(self):
        """Return each inlet with its answers: for who says something else instead, and `settled_one` then."""
        return list(zip(self._inlets, self._answers))


cdef list left_over(list noted):
    """Return the inlets that have bytes left, and let all be noted again."""
    cdef list left = []
    cdef Inlet inlet
    for inlet in noted:
        inlet._is_noted = False
        if not inlet.closed and inlet.start < len(inlet.received):
            left.append(inlet)
    return left


def waiting_since(list inlets not None):
    """Return since when the frames may wait that wait longest."""
    cdef Inlet inlet
    oldest = None
    for inlet in inlets:
        if oldest is None or (inlet.waits_since is not oldest and inlet.waits_since < oldest):
            oldest = inlet.waits_since
    return oldest


def with_bytes(list inlets not None, Py_ssize_t under_way_max):
    """Return the inlets that have bytes left, and fewer requests under way."""
    cdef list left = []
    cdef Inlet inlet
    for inlet in inlets:
        if inlet.start < len(inlet.received) and inlet.under_way_number() < under_way_max:
            left.append(inlet)
    return left
