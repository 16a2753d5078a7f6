"""The broker's settings, read and changed by operators; and transactions that are resumed."""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress

from pyromq import system_names
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.kinds.stored_again import QUEUE_ID, draft_of
from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.broker.registration import Registration
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import ResponseCode
from pyromq.errors import PyroError, ServerFailed
from pyromq.net.routes import Answer, Request
from pyromq.store.store import MessageStore
from pyromq.wire import properties as names
from pyromq.wire.headers.operation_headers import GetBrokerConfigAnswer, ResumeCheckHalfMessage
from pyromq.wire.message_id import parse_offset_message_id

log = logging.getLogger(__name__)

_PERMISSION = "broker_permission"
_NAME_SERVERS = "namesrv_addr"
#: Seconds that the name servers have before the operator is answered; they are told all the same.
REGISTERED_S_MAX = 3.0


class ConfigurationHandlers:
    """Answers UPDATE_BROKER_CONFIG and GET_BROKER_CONFIG."""

    def __init__(
        self,
        settings: BrokerLiveSettings,
        *,
        topics: TopicTable,
        registration: Registration,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._registration = registration

    def get(self, _request: Request[None]) -> Answer:
        """Answer all settings as text."""
        return Answer(
            header=GetBrokerConfigAnswer(version=self._settings.version),
            body=self._settings.as_text().encode(),
        )

    async def update(self, request: Request[None]) -> Answer:
        """Change settings that may change while the broker runs."""
        changed = await self._settings.change(request.body.decode("utf-8", "replace"))
        log.info("%s changed the settings %s", request.link.peer, ", ".join(sorted(changed)))
        self._topics.add_system_topics()
        if _PERMISSION in changed:
            self._topics.touch()
        if not changed.isdisjoint({_PERMISSION, _NAME_SERVERS}):
            # One that is down must not cost the operator the answer: mqadmin waits for five seconds.
            with suppress(TimeoutError):
                async with asyncio.timeout(REGISTERED_S_MAX):
                    await self._registration.register()
        return Answer()


class ResumeHandlers:
    """Answers RESUME_CHECK_HALF_MESSAGE."""

    def __init__(self, write: WritePath, store: MessageStore) -> None:
        self._intake = write.intake
        self._durability = write.durability
        self._store = store

    def resume(self, request: Request[ResumeCheckHalfMessage]) -> Answer | Awaitable[Answer]:
        """Let a transaction be asked about again that was given up."""
        message_id = request.header.msg_id or ""
        try:
            record = self._store.record_at(parse_offset_message_id(message_id).position)
        except (PyroError, ValueError) as error:
            raise _not_resumed(f"{message_id} is no message id: {error}") from error
        if record is None:
            raise _not_resumed(f"no message {message_id} is stored here; it may have expired")
        properties = names.decode(record.properties)
        if names.REAL_TOPIC not in properties:
            raise _not_resumed(f"{message_id} is not the message of a transaction")
        draft = draft_of(record)
        draft.topic, draft.queue_id = system_names.TRANSACTION_HALF, QUEUE_ID
        draft.properties = names.encode({**properties, names.TRANSACTION_CHECK_TIMES: "0"})
        placed = self._intake.put_as_is(draft)
        log.info("%s has transaction %s asked about again", request.link.peer, message_id)
        return self._durability.acknowledge(placed.end, Answer())


def _not_resumed(why: str) -> ServerFailed:
    return ServerFailed(
        ResponseCode.SYSTEM_ERROR, f"Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed: {why}"
    )
