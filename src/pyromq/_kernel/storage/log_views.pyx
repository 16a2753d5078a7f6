"""The log's files, looked into where they are mapped: records are read in place.

    begin      the log as it is now
    read       a position ──► the parts of the record that begins there
    release    the files may go

`pyromq.store.commitlog` (`record_bytes`) is the same in Python. What is not a whole plain record is left to it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t

from pyromq._kernel.codec.bigend cimport load32, load64
from pyromq._kernel.codec.crc32 cimport pyromq_crc32
from pyromq._kernel.codec.layout cimport BODY_CRC_AT, CRC_MASK, POSITION_AT, Plain, read_plain


cdef class LogViews:
    """A few files of a log; what was found in them holds until the next `find`."""

    def __dealloc__(self):
        self.release()

    cdef int begin(self, log) except -1:
        self.release()
        self._log = log
        self.end = log.end
        self.written_from = log.written_from
        return 0

    cdef int release(self) noexcept:
        """Let go of the files."""
        cdef int i
        for i in range(self._count):
            PyBuffer_Release(&self._views[i].buffer)
        self._count = 0
        self._log = None
        return 0

    cdef const uint8_t *find(self, int64_t position, int64_t *left) except? NULL:
        """Return where a position is in memory, and how many bytes of the log its file has from there on.

        NULL where the log has none.
        """
        cdef int i
        cdef View *view
        left[0] = 0
        for i in range(self._count):
            view = &self._views[i]
            if view.base <= position < view.end:
                left[0] = view.end - position
                return <const uint8_t *> view.buffer.buf + (position - view.base)
        if self._log is None or not 0 <= position < self.end:
            return NULL
        segment = self._log.segment_at(position)
        if segment is None:
            return NULL
        if self._count == VIEWS:
            PyBuffer_Release(&self._views[0].buffer)
            for i in range(VIEWS - 1):
                self._views[i] = self._views[i + 1]
            self._count -= 1
        view = &self._views[self._count]
        PyObject_GetBuffer(segment.map, &view.buffer, PyBUF_SIMPLE)
        self._count += 1
        view.base = segment.base
        view.end = min(<int64_t> segment.end, self.end, view.base + view.buffer.len)
        if not view.base <= position < view.end:
            return NULL
        left[0] = view.end - position
        return <const uint8_t *> view.buffer.buf + (position - view.base)

    cdef bint read(self, int64_t position, Plain *record) except -1:
        """Find the parts of the record that begins at a position; return whether a plain one does.

        What this process did not write itself is looked at for damage.
        """
        cdef int64_t left = 0
        cdef const uint8_t *at = self.find(position, &left)
        if at == NULL or not read_plain(at, left, record) or load64(at + POSITION_AT) != position:
            return False
        if position >= self.written_from:
            return True
        return <int32_t> (
            pyromq_crc32(0, record.body.at, record.body.length) & CRC_MASK
        ) == load32(at + BODY_CRC_AT)
