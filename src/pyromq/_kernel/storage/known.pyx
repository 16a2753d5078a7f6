"""The topics and queues that the kernel may have the messages of: a table that is asked once for each send.

Python objects in it are borrowed: dicts beside the tables keep them, and are changed first.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp

from pyromq._kernel.codec.bigend cimport java_hash
from pyromq._kernel.codec.frames cimport Span
from pyromq._kernel.storage.tails cimport QueueTail

cdef enum:
    TOPIC_BYTES_MAX = 127
    QUEUE_COUNT_MAX = 65536
    SIZE_MIN = 64


cdef class Topic:
    """A topic whose queues plain messages go to."""

    def __cinit__(self, bytes name not None, int32_t sys_flag):
        self.name = name
        self.sys_flag = sys_flag
        self.key_head = java_hash(0, <const uint8_t *> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        self.key_head = java_hash(self.key_head, <const uint8_t *> b"#", 1)
        self.kept = {}

    def __dealloc__(self):
        free(self.queues)

    cdef int learn(self, Py_ssize_t queue_id, QueueTail queue) except -1:
        cdef PyObject **queues
        cdef Py_ssize_t i
        if queue_id >= self.queue_count:
            queues = <PyObject **> realloc(self.queues, (queue_id + 1) * sizeof(PyObject *))
            if queues == NULL:
                raise MemoryError
            self.queues = queues
            for i in range(self.queue_count, queue_id + 1):
                queues[i] = NULL
            self.queue_count = queue_id + 1
        self.kept[queue_id] = queue
        self.queues[queue_id] = <PyObject *> queue
        return 0

    cdef PyObject *queue_of(self, int64_t queue_id) noexcept:
        """Return a queue, NULL when it is not known or was removed."""
        cdef PyObject *queue = NULL
        if 0 <= queue_id < self.queue_count:
            queue = self.queues[queue_id]
        return NULL if queue == NULL or (<QueueTail> queue).gone else queue


cdef class KnownTopics:
    """All topics that are known, by name."""

    def __cinit__(self):
        self._kept = {}
        self._size = SIZE_MIN
        self._table = <PyObject **> calloc(self._size, sizeof(PyObject *))
        if self._table == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._table)

    def __len__(self):
        return len(self._kept)

    cdef int learn(self, bytes topic, Py_ssize_t queue_id, QueueTail queue, int32_t sys_flag) except -1:
        if not 0 <= queue_id < QUEUE_COUNT_MAX:
            raise ValueError(f"queue {queue_id} of {topic!r}")
        return self.know(topic, sys_flag).learn(queue_id, queue)

    cdef Topic know(self, bytes topic, int32_t sys_flag):
        """Return a topic, with or without queues."""
        cdef Topic known
        if not 0 < len(topic) <= TOPIC_BYTES_MAX or not topic.isascii():
            raise ValueError(f"topic {topic!r}")
        known = self._kept.get(topic)
        if known is None or known.sys_flag != sys_flag:
            self.forget(topic)
            known = Topic(topic, sys_flag)
            self._kept[topic] = known
            if 2 * len(self._kept) > self._size:
                self._size *= 4
                self._rebuild()
            else:
                self._enter(known)
        return known

    cdef int forget(self, bytes topic) except -1:
        if self._kept.pop(topic, None) is not None:
            self._rebuild()
        return 0

    cdef int forget_all(self) except -1:
        if self._kept:
            self._kept = {}
            self._rebuild()
        return 0

    cdef PyObject *find(self, Span *name) noexcept:
        """Return the topic of a name, NULL when it is not known."""
        cdef uint32_t hashed = java_hash(java_hash(0, name.at, name.length), <const uint8_t *> b"#", 1)
        cdef Py_ssize_t i = hashed & <uint32_t> (self._size - 1)
        cdef PyObject *topic
        while True:
            topic = self._table[i]
            if topic == NULL:
                return NULL
            if (
                (<Topic> topic).key_head == hashed
                and PyBytes_GET_SIZE((<Topic> topic).name) == name.length
                and memcmp(PyBytes_AS_STRING((<Topic> topic).name), name.at, name.length) == 0
            ):
                return topic
            i = (i + 1) & (self._size - 1)

    cdef int _rebuild(self) except -1:
        cdef PyObject **table = <PyObject **> calloc(self._size, sizeof(PyObject *))
        if table == NULL:
            raise MemoryError
        free(self._table)
        self._table = table
        for topic in self._kept.values():
            self._enter(<Topic> topic)
        return 0

    cdef void _enter(self, Topic topic) noexcept:
        cdef Py_ssize_t i = topic.key_head & <uint32_t> (self._size - 1)
        while self._table[i] != NULL:
            i = (i + 1) & (self._size - 1)
        self._table[i] = <PyObject *> topic
