"""Requests that store a record of the log again: what ends of transactions and send-backs have in common.

They are planned with the sends, in the order of the frames; see `sends`.
"""

from pyromq._kernel.codec.answers cimport AnswerHead
from pyromq._kernel.codec.frames cimport Frame
from pyromq._kernel.storage.again cimport Again
from pyromq._kernel.storage.plans cimport Plan

cdef enum:
    FLAG_RESPONSE = 1


cdef class AgainFrames(Again):
    """Requests of one code."""

    def __init__(
        self, *, Py_ssize_t body_bytes_max, int code, list answer_parts, list binary_parts, int language,
        int version, **_others,
    ):
        Again.__init__(self, body_bytes_max=body_bytes_max)
        self.code = code
        self.head = AnswerHead(
            parts=answer_parts, binary_parts=binary_parts, remark=b"", language=language, version=version
        )

    cdef int begin_plan(self) except -1:
        """Begin with an empty plan."""
        return 0

    cdef bint plan_frame(self, Plan plan, Frame *frame) except -1:
        """Plan one request, or leave everything as it was and return False."""
        return False

    cdef int end_plan(self) except -1:
        """Let go of the log: the plan has copies of what it needs."""
        return self._views.release()

    cdef int drop_plan(self) except -1:
        """Forget what was planned."""
        return 0


cdef bint is_plainly_written(Frame *frame) noexcept nogil:
    """Whether a frame is a request without a body, and with no escapes, which may mean nothing, in its fields."""
    cdef int i
    if frame.flag & FLAG_RESPONSE or frame.body_length:
        return False
    for i in range(frame.field_count):
        if frame.fields[i].value.is_escaped:
            return False
    return True
