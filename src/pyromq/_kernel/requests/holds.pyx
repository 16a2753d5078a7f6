"""Held pulls: each is one slot, without a task, a request or a future of its own.

    hold      a pull that found nothing ──► a slot of its queue, and of its inlet
    grew      queues that got messages are noted, and whoever waits for one is looked at when the turn ends
    wake      slots whose queue has what they want ──► answers
    sweep     slots whose time is up, or whose queue grew by what they do not want ──► answers

`pyromq.broker.delivery.arrivals` does the same in Python, and says when a pull is woken. A pull whose plan does not
hold any more, or that finds something unusual, is given back when it is woken: Python reads for it again, as it does
for those that it holds itself.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t

from pyromq._kernel.codec.bigend cimport load64
from pyromq._kernel.codec.inlets cimport Inlet
from pyromq._kernel.requests.reading cimport READ_UNUSUAL, PullPlan, PullReader
from pyromq._kernel.storage.tails cimport QueueTail

cdef enum:
    ENTRY_BYTES = 20


@cython.freelist(256)
cdef class HeldPull:
    """A pull that waits for its queue to pass `offset`."""

    @property
    def header(self):
        """The header of a pull that differs from this one in offset and counts only."""
        return self.plan.header

    def drop(self):
        """Forget the pull: its client has gone."""
        self.holds._let_go(self)


cdef class Holds:
    """The held pulls of all queues."""

    def __init__(self):
        self._waiting = {}
        self._grown = {}

    cdef int hold(self, HeldPull pull) except -1:
        """Keep a pull until it is woken, or its inlet ends."""
        cdef QueueTail queue = pull.plan.queue
        cdef dict waiting
        found = self._waiting.get(queue)
        if found is None:
            self._waiting[queue] = {pull: None}
        else:
            waiting = <dict> found
            waiting[pull] = None
        if pull.inlet.held is None:
            pull.inlet.held = {}
        pull.inlet.held[pull] = None
        pull.holds = self
        # Whoever plans messages tells of this queue now.
        queue.watched = True
        self.count += 1
        return 0

    cdef int _let_go(self, HeldPull pull) except -1:
        cdef dict waiting
        if pull.holds is None:
            return 0
        pull.holds = None
        self.count -= 1
        waiting = <dict> self._waiting[pull.plan.queue]
        del waiting[pull]
        if not waiting:
            del self._waiting[pull.plan.queue]
        if pull.inlet.held is not None:
            pull.inlet.held.pop(pull, None)
        return 0

    def grew(self, list grown not None):
        """Note queues that got messages, each with the first; return those that no pull waits for here."""
        cdef list others = []
        for queue, first in grown:
            if queue not in self._waiting:
                others.append(queue)
            elif queue not in self._grown:
                self._grown[queue] = first
        return others

    @property
    def has_grown(self):
        """Whether a queue got messages that a pull waits for."""
        return bool(self._grown)

    def wake(self, PullReader reader not None, log, *, int64_t readable, int64_t disk_position, int64_t now_ms):
        """Answer the pulls that want what came.

        Return how many, the milliseconds for which the oldest of them was held, and those that Python is to answer.
        """
        cdef list left = []
        cdef HeldPull pull
        cdef int64_t end, longest_ms = 0
        cdef Py_ssize_t before = self.count
        grown = self._grown
        self._grown = {}
        reader.look_at(log, readable, disk_position)
        for queue, first in grown.items():
            waiting = self._waiting.get(queue)
            if waiting is None:
                continue
            end = reader.readable_end(queue)
            for pull in list(waiting):
                if pull.offset < end and self._is_wanted(pull, first, end):
                    longest_ms = max(longest_ms, self._answer(pull, reader, now_ms, left))
        return before - self.count, longest_ms, left

    def sweep(self, PullReader reader not None, log, *, int64_t readable, int64_t disk_position, int64_t now_ms):
        """Answer the pulls whose time is up, and those whose queue has grown, wanted or not; see `wake`."""
        cdef list left = []
        cdef HeldPull pull
        cdef int64_t end, longest_ms = 0
        cdef Py_ssize_t before = self.count
        reader.look_at(log, readable, disk_position)
        for queue, waiting in list(self._waiting.items()):
            end = reader.readable_end(queue)
            for pull in list(waiting):
                if end > pull.offset or now_ms >= pull.until_ms:
                    longest_ms = max(longest_ms, self._answer(pull, reader, now_ms, left))
        return before - self.count, longest_ms, left

    def take_all(self):
        """Return all pulls, for Python to answer; none is held any more."""
        cdef list left = [pull for waiting in self._waiting.values() for pull in waiting]
        cdef HeldPull pull
        for pull in left:
            self._let_go(pull)
        return left

    cdef bint _is_wanted(self, HeldPull pull, int64_t first, int64_t end) except -1:
        """Return whether a pull wants one of the messages from one offset of its queue up to another."""
        cdef bytes entries
        cdef const uint8_t *entry
        cdef Py_ssize_t i
        if pull.plan.wants_all:
            return True
        first = max(first, pull.offset)
        while first < end:
            entries = pull.plan.queue.entries(first, end - first)
            if not entries:
                return True
            entry = <const uint8_t *> PyBytes_AS_STRING(entries)
            for i in range(PyBytes_GET_SIZE(entries) // ENTRY_BYTES):
                if pull.plan.wants(load64(entry + 12)):
                    return True
                entry += ENTRY_BYTES
            first += PyBytes_GET_SIZE(entries) // ENTRY_BYTES
        return False

    cdef int64_t _answer(self, HeldPull pull, PullReader reader, int64_t now_ms, list left) except -1:
        """Answer a pull, or give it back; return for how many milliseconds it was held."""
        cdef int result
        cdef bytes answer
        self._let_go(pull)
        if pull.inlet.closed:
            return 0
        if pull.plan.holds():
            result = reader.read(pull.plan, pull.offset, pull.count_max, pull.bytes_max)
            if result != READ_UNUSUAL:
                answer = reader.answer(pull.plan, result, pull.is_json, pull.opaque)
                if answer is not None:
                    pull.inlet.send_frames(answer)
                    return max(now_ms - pull.held_at_ms, <int64_t> 0)
        left.append(pull)
        return max(now_ms - pull.held_at_ms, <int64_t> 0)
