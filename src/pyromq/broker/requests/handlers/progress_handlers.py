"""The progress of groups, and the locks that members hold on queues."""

import logging
from collections.abc import Awaitable, Callable

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.replication.committed_here import Commit, CommittedHere
from pyromq.codes import ResponseCode
from pyromq.errors import QueryNotFound, StoreError
from pyromq.net.routes import Answer, Request
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.lock_bodies import decode_lock_batch, encode_locked_queues
from pyromq.wire.headers.offset_headers import QueryConsumerOffset, UpdateConsumerOffset
from pyromq.wire.java_hash import java_queue_order

log = logging.getLogger(__name__)


class ProgressHandlers:
    """Answers QUERY_ and UPDATE_CONSUMER_OFFSET, LOCK_ and UNLOCK_BATCH_MQ."""

    def __init__(
        self,
        store: MessageStore,
        groups: Groups,
        durability: Durability,
        committed_here: CommittedHere | None = None,
    ) -> None:
        self._store = store
        self._offsets = groups.offsets
        self._locks = groups.locks
        self._durability = durability
        self._committed_here = committed_here
        #: Told of each commit and query that was answered from the table: group, topic and queue.
        self.learn: Callable[[str, str, int], None] | None = None

    def query_consumer_offset(self, request: Request[QueryConsumerOffset]) -> Answer:
        """Answer the offset that a group reads next.

        A group without progress starts a young queue at its begin: one that lost nothing yet, and whose
        first message is still in memory. For any other queue the consumer decides where to start.
        """
        header = request.header
        topic, queue_id = header.topic, header.queue_id
        offset = self._offsets.progress(header.consumer_group, topic, queue_id)
        if offset is not None and offset < 0:
            offset = None
        if offset is None and header.set_zero_if_not_found is False:
            raise QueryNotFound(
                ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first"
            )
        if offset is None:
            is_whole = self._store.min_offset(topic, queue_id) <= 0
            if not is_whole or not self._store.is_in_memory(topic, queue_id, 0):
                raise QueryNotFound(
                    ResponseCode.QUERY_NOT_FOUND,
                    "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
                )
            offset = 0
        elif self.learn is not None:
            self.learn(header.consumer_group, topic, queue_id)
        return Answer(ext={"offset": str(offset)})

    def update_consumer_offset(self, request: Request[UpdateConsumerOffset]) -> Answer:
        """Set the offset that a group reads next; a slave tells its master when that is back."""
        header = request.header
        commit = Commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        self._offsets.check_commit(header.consumer_group, header.topic, header.queue_id)
        self._offsets.commit(*commit)
        if self._committed_here is not None:
            self._committed_here.note(commit)
        if self.learn is not None:
            self.learn(header.consumer_group, header.topic, header.queue_id)
        return Answer(ext={})

    def lock_batch(self, request: Request[None]) -> Answer | Awaitable[Answer]:
        """Lock queues for a member, and answer those that it now holds; the file says so before."""
        asked = decode_lock_batch(request.body)
        locked = self._locks.lock(asked.consumer_group, asked.queues, asked.client_id)
        answer = Answer(body=encode_locked_queues(java_queue_order(locked)))
        if not self._locks.is_saved:
            return self._answer_when_saved(answer)
        self._durability.vouch()
        return answer

    async def _answer_when_saved(self, answer: Answer) -> Answer:
        try:
            await self._locks.save()
        except StoreError as error:
            log.warning("who holds which queue is not known after a crash: %s", error)
        # Meanwhile another may be master, and give the same queues to another member.
        self._durability.vouch()
        return answer

    def queue_locks(self, _request: Request[None]) -> Answer:
        """Answer which members hold which queues, for a slave that may become master."""
        return Answer(body=self._locks.encode())

    def unlock_batch(self, request: Request[None]) -> Answer:
        """Unlock queues of a member."""
        asked = decode_lock_batch(request.body)
        self._locks.unlock(asked.consumer_group, asked.queues, asked.client_id)
        return Answer()
