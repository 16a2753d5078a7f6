"""Queue entries and index keys of records that are planned and not yet in the log.

    note      the position of a record, its tags code, the hashes of its keys
    (Python writes the records to the log)
    enter     notes ──► queues, key index

Before `enter` only the number of messages that are planned for a queue has changed, and notes can be dropped.
References to queues are borrowed: the caller keeps the queues alive.
"""

from cpython.bytearray cimport PyByteArray_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memchr

from pyromq._kernel.codec.bigend cimport java_hash
from pyromq._kernel.codec.blocks cimport need
from pyromq._kernel.storage.tails cimport IndexTail, QueueTail

cdef enum:
    QUEUE_ENTRY_BYTES = 20
    KEYS_EXPECTED = 12


cdef class Notes:
    """Notes of one plan, which whoever plans inherits."""

    def __cinit__(self, *, bint has_index, **_others):
        self._has_index = has_index

    def __dealloc__(self):
        free(self._entries.bytes)
        free(self._hashes.bytes)

    @property
    def message_count(self):
        """The number of planned messages; a batch is one send and many messages."""
        return self._entries.used // <Py_ssize_t> sizeof(Entry)

    def drop(self):
        """Forget what was planned."""
        self.clear()

    cdef bint note(
        self, PyObject *queue, int64_t position, int32_t size, int64_t stored_at_ms, Wanted *wanted,
        uint32_t key_head,
    ) except -1:
        """Note the next message of a queue; return False, with nothing noted, when the index has no room."""
        cdef const uint8_t *at = wanted.keys.at
        cdef const uint8_t *end = at + wanted.keys.length
        cdef const uint8_t *word_end
        cdef Entry *entry
        need(&self._entries, sizeof(Entry))
        entry = <Entry *> (self._entries.bytes + self._entries.used)
        entry.queue = queue
        entry.position = position
        entry.size = size
        entry.stored_at_ms = stored_at_ms
        if wanted.due_ms:
            entry.tags_code = wanted.due_ms
        else:
            entry.tags_code = <int32_t> java_hash(0, wanted.tags.at, wanted.tags.length)
        entry.hash_count = 0
        if self._has_index:
            if wanted.identity.length:
                self._add_hash(entry, java_hash(key_head, wanted.identity.at, wanted.identity.length))
            while at < end:
                word_end = <const uint8_t *> memchr(at, c' ', end - at)
                if word_end == NULL:
                    word_end = end
                if word_end > at:
                    self._add_hash(entry, java_hash(key_head, at, word_end - at))
                at = word_end + 1
            if self._hashes.used // <Py_ssize_t> sizeof(int32_t) > self._index_room:
                self._hashes.used -= entry.hash_count * <Py_ssize_t> sizeof(int32_t)
                return False
        self._entries.used += sizeof(Entry)
        (<QueueTail> queue).planned += 1
        return True

    cdef int _add_hash(self, Entry *entry, uint32_t value) except -1:
        if value & <uint32_t> 0x80000000:
            # Java's, made positive; of the one that has no positive RocketMQ makes 0.
            value = (0 - value) & 0x7FFFFFFF
        need(&self._hashes, sizeof(int32_t))
        (<int32_t *> (self._hashes.bytes + self._hashes.used))[0] = <int32_t> value
        self._hashes.used += sizeof(int32_t)
        entry.hash_count += 1
        return 0

    cdef int clear(self) except -1:
        cdef Py_ssize_t i = 0
        while i < self._entries.used:
            (<QueueTail> (<Entry *> (self._entries.bytes + i)).queue).planned = 0
            i += sizeof(Entry)
        self._entries.used = self._hashes.used = 0
        return 0

    cdef tuple enter(self, IndexTail index, Py_ssize_t held_bytes_max, bint are_all_told):
        """Let the queues and the index have what the log has now, and forget it here.

        Return the queues that hold `held_bytes_max` or more, and those that are watched or followed, or all, each
        with the offset from which on its messages are new.
        """
        cdef Py_ssize_t i = 0, key = 0, keys = self._hashes.used // <Py_ssize_t> sizeof(int32_t)
        cdef int k
        cdef Entry *entry
        cdef QueueTail queue
        cdef list full = [], grown = []
        while i < self._entries.used:
            entry = <Entry *> (self._entries.bytes + i)
            queue = <QueueTail> entry.queue
            if (queue.watched or queue.followed or are_all_told) and queue.grown_from < 0:
                queue.grown_from = queue.end
                grown.append(queue)
            queue.enter(entry.position, entry.size, entry.tags_code)
            if (
                PyByteArray_GET_SIZE(queue.held) >= held_bytes_max
                and PyByteArray_GET_SIZE(queue.held) < held_bytes_max + QUEUE_ENTRY_BYTES
            ):
                full.append(queue)
            for k in range(entry.hash_count):
                if key + KEYS_EXPECTED < keys:
                    index.expect((<int32_t *> self._hashes.bytes)[key + KEYS_EXPECTED])
                index.enter((<int32_t *> self._hashes.bytes)[key], entry.position, entry.stored_at_ms)
                key += 1
            i += sizeof(Entry)
        self.clear()
        if grown:
            grown = [_take_grown(queue) for queue in grown]
        return full, grown


cdef tuple _take_grown(QueueTail queue):
    cdef int64_t grown_from = queue.grown_from
    queue.grown_from = -1
    return queue, grown_from
