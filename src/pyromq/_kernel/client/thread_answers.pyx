"""Threads that wait for answers, and whose turn it is among those that have theirs.

A thread that has nothing to do lets go of the interpreter's lock, wakes the next thread and goes to sleep, in that
order. So the next one finds the lock free, and a message costs one switch of threads.

`pyromq.net.thread_answers` is the same in Python, and says what the turns are. All that is noted here is changed by
whoever holds the interpreter's lock; a thread that watches reads the number of turns without it.
"""

from cpython.exc cimport PyErr_CheckSignals

cdef extern from "pythread.h" nogil:
    ctypedef void *PyThread_type_lock
    ctypedef enum PyLockStatus:
        PY_LOCK_FAILURE
        PY_LOCK_ACQUIRED
        PY_LOCK_INTR
    enum:
        NOWAIT_LOCK
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    int PyThread_acquire_lock(PyThread_type_lock lock, int waits)
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock lock, long long timeout_us, int is_interrupted)
    void PyThread_release_lock(PyThread_type_lock lock)

ctypedef const volatile Py_ssize_t *Watched


cdef class ThreadAnswer:
    """A place for an answer that a thread waits for."""

    cdef PyThread_type_lock _lock
    #: Whether the lock was let go of, or is about to be, and the thread did not see it yet.
    cdef bint _is_woken
    cdef WakeChain _chain
    #: Behind it in the chain.
    cdef ThreadAnswer _next
    cdef readonly object outcome
    #: Whether the thread reads for others, whether it does not wait any more, and whether it is to wake the next one
    #: as soon as it goes on.
    cdef public bint is_reading, has_left, wakes_next

    def __cinit__(self, WakeChain chain not None):
        self._chain = chain
        self._lock = PyThread_allocate_lock()
        if self._lock == NULL:
            raise MemoryError
        PyThread_acquire_lock(self._lock, NOWAIT_LOCK)

    def __dealloc__(self):
        if self._lock != NULL:
            # Some systems do not take back a lock that is held.
            if not self._is_woken:
                PyThread_release_lock(self._lock)
            PyThread_free_lock(self._lock)

    def done(self):
        """Return whether there is an outcome."""
        return self.outcome is not None

    def set_result(self, outcome not None):
        """Put an answer there, unless there is one; the thread is woken in its turn."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if not self.is_reading:
            self._chain._add(self)

    def set_exception(self, error not None):
        """Put an error there: an outcome like another, and the thread looks what it is."""
        self.set_result(error)

    def wake(self):
        """Wake the thread: there is an outcome, or it is to read."""
        if self._note_woken():
            PyThread_release_lock(self._lock)

    def sleep(self, double timeout_s):
        """Hand on; return when this thread was woken, or the time is over."""
        cdef ThreadAnswer other
        if self.outcome is not None:
            return
        other = self._chain._take_next()
        if other is None:
            other = self._chain._take_watcher()
        self._sleep(other, _microseconds(timeout_s), 0)

    def watch(self, double look_s, Py_ssize_t turns_min):
        """Wake the first of the chain, and sleep until all had their turns; return whether they have them.

        They do not when there were less than `turns_min` in `look_s` seconds.
        """
        cdef WakeChain chain = self._chain
        cdef ThreadAnswer other = chain._take_next()
        if other is None or other is self:
            return True
        chain._watchers.append(self)
        try:
            return self._sleep(other, _microseconds(look_s), max(turns_min, 1))
        finally:
            # Whoever woke it took it from there.
            if self in chain._watchers:
                chain._watchers.remove(self)
            chain._wake_watchers()

    cdef bint _note_woken(self) noexcept:
        if self._is_woken:
            return False
        self._is_woken = True
        return True

    cdef bint _sleep(self, ThreadAnswer other, long long timeout_us, Py_ssize_t turns_min) except -1:
        """Wake another thread and sleep; return False when the time is over.

        With `turns_min`, the time begins again when there were so many turns.
        """
        # `other` is held until this thread goes on, and its lock with it.
        cdef PyThread_type_lock other_lock = NULL
        cdef Watched turns = &self._chain.turns
        cdef Py_ssize_t seen = turns[0]
        cdef PyLockStatus status
        if other is not None and other._note_woken():
            other_lock = other._lock
        with nogil:
            if other_lock != NULL:
                PyThread_release_lock(other_lock)
            while True:
                status = PyThread_acquire_lock_timed(self._lock, timeout_us, 1)
                if status != PY_LOCK_FAILURE or not turns_min or turns[0] - seen < turns_min:
                    break
                seen = turns[0]
        if status == PY_LOCK_ACQUIRED:
            self._is_woken = False
        else:
            PyErr_CheckSignals()
        return status != PY_LOCK_FAILURE


cdef class WakeChain:
    """The threads whose answers are there, and those that watch."""

    cdef ThreadAnswer _first, _last
    cdef readonly Py_ssize_t turns
    cdef list _watchers

    def __cinit__(self):
        self._watchers = []

    def __bool__(self):
        return self._first is not None

    def wake_next(self):
        """Wake the next thread that did not go on yet; return whether there was one."""
        cdef ThreadAnswer answer = self._take_next()
        if answer is None:
            return False
        answer.wake()
        return True

    def release(self):
        """Let the threads that are here wake each other without waiting for their turns."""
        cdef ThreadAnswer answer = self._first
        while answer is not None:
            answer.wakes_next = True
            answer = answer._next
        self.wake_next()

    cdef int _add(self, ThreadAnswer answer) except -1:
        if self._first is None:
            self._first = answer
        else:
            self._last._next = answer
        self._last = answer
        return 0

    cdef ThreadAnswer _take_next(self):
        cdef ThreadAnswer answer
        self.turns += 1
        while self._first is not None:
            answer = self._first
            self._first, answer._next = answer._next, None
            if self._first is None:
                self._last = None
            if not answer.has_left:
                return answer
        return None

    cdef int _wake_watchers(self) except -1:
        """Wake those that watch beside one that watches no longer: of other connections."""
        while self._watchers:
            self._take_watcher().wake()
        return 0

    cdef ThreadAnswer _take_watcher(self):
        return <ThreadAnswer> self._watchers.pop() if self._watchers else None


cdef long long _microseconds(double seconds) noexcept:
    return <long long> (seconds * 1e6) if 0 < seconds < 1e6 else 0
