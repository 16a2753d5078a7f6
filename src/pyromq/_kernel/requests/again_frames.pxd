"""Requests that store a record of the log again."""

from pyromq._kernel.codec.answers cimport AnswerHead
from pyromq._kernel.codec.frames cimport Frame
from pyromq._kernel.storage.again cimport Again
from pyromq._kernel.storage.plans cimport Plan


cdef class AgainFrames(Again):
    #: The requests of this kind, and the answer that each of them gets.
    cdef readonly int code
    cdef AnswerHead head

    cdef int begin_plan(self) except -1
    cdef bint plan_frame(self, Plan plan, Frame *frame) except -1
    cdef int end_plan(self) except -1
    cdef int drop_plan(self) except -1


cdef bint is_plainly_written(Frame *frame) noexcept nogil
