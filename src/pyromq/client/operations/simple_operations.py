"""The methods of the simple consumer."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from pyromq.client.client_session import Session, new_session
from pyromq.client.consumer.consumer_arguments import check_start_of_pops, member_of
from pyromq.client.consumer.group_member import ConsumeOrder
from pyromq.client.consumer.topic_subscription import subscription
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import check_group
from pyromq.client.namespaces import wrap
from pyromq.client.operations.declaration import ClientOperations, Operation
from pyromq.client.plans import pop_plans
from pyromq.client.plans.pop_plans import INVISIBLE_MS_MAX, POP_COUNT_MAX, InvisibleChange
from pyromq.client.plans.receive_plans import (
    ReceiveTerms,
    Receiving,
    keep_receiver_known,
    leave_group,
    receive,
)
from pyromq.client.pop.message_handles import acknowledgements_of, handle_of, place_of
from pyromq.client.steps import Plan
from pyromq.clock import SystemClock
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError, Refused
from pyromq.model import ConsumeFrom, ReceivedMessage
from pyromq.wire.properties import POP_CK

#: Milliseconds that a message is invisible to others, and that a receive waits, unless it is told otherwise.
INVISIBLE_MS: Final = 60_000
WAIT_MS: Final = 15_000


class SimpleOperations(ClientOperations):
    """Receiving messages, acknowledging them, and changing when they come again."""

    def __init__(
        self,
        group: str,
        name_server: str | None = None,
        settings: ClientSettings | None = None,
        *,
        order: str = "concurrent",
        consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET,
    ) -> None:
        check_group(group)
        check_start_of_pops(group, consume_from)
        self.group = group
        settings = settings or ClientSettings()
        self._namespace = settings.namespace
        self._wants = Receiving(
            from_min=consume_from is ConsumeFrom.FIRST_OFFSET,
            is_fifo=member_of(ConsumeOrder, "order", order) is ConsumeOrder.ORDERLY,
        )
        addresses = name_server_addresses(name_server, settings)
        self._set_runner(
            f"consumer {group}",
            partial(new_session, group, addresses, settings),
            partial(keep_receiver_known, wants=self._wants),
        )

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Want messages of a topic: all, those with one of the tags "a || b", or those that `sql` takes.

        Several topics may be subscribed, before the start or after it. All members of a group must subscribe
        to the same. Messages that the filter does not take are passed over for the whole group.
        """
        name = wrap(self._namespace, topic)
        wanted = subscription(name, tags, sql, version=SystemClock().now_ms())
        self._wants.subscriptions = self._wants.subscriptions | {name: wanted}
        self._tell()

    def unsubscribe(self, topic: str) -> None:
        """Want no more messages of a topic; what was received of it may still be acknowledged."""
        name = wrap(self._namespace, topic)
        left = {one: wanted for one, wanted in self._wants.subscriptions.items() if one != name}
        self._wants.subscriptions = left
        self._tell()

    @Operation
    def receive(
        self,
        max_messages: int = POP_COUNT_MAX,
        invisible_duration_ms: int = INVISIBLE_MS,
        *,
        wait_ms: int = WAIT_MS,
    ) -> Plan[list[ReceivedMessage]]:
        """Return up to `max_messages` messages (32 at most), or none when none came within `wait_ms`.

        No other member gets them for `invisible_duration_ms`: acknowledge each until then, or it comes again,
        to any member, with its `reconsume_times` one higher. Brokers that are away are tried again until
        `wait_ms` is over; then NetworkError is raised if none answered.
        """
        if not 1 <= max_messages <= POP_COUNT_MAX:
            raise ConfigError(f"max_messages is {max_messages}; a receive gets 1 to {POP_COUNT_MAX}")
        _check_duration(invisible_duration_ms, at_least=1)
        session = self._session
        terms = ReceiveTerms(max_messages, invisible_duration_ms, session.deadline(wait_ms, wait_ms))
        return receive(session, self._wants, terms)

    @Operation
    def ack(self, messages: ReceivedMessage | Sequence[ReceivedMessage]) -> Plan[None]:
        """End a message, or several in one request to each broker: they do not come again.

        A message whose invisible time is over may be somebody else's by now: then this has no effect, and no
        error says so. Acknowledging twice is none either.
        """
        session = self._session
        several = [messages] if isinstance(messages, ReceivedMessage) else messages
        places = acknowledgements_of(several, session.group, self._namespace)
        for place, parts in places.items():
            yield from pop_plans.ack(session, place, parts)

    @Operation
    def change_invisible_duration(self, message: ReceivedMessage, invisible_duration_ms: int) -> Plan[None]:
        """Have a message come again that many milliseconds from now, unless it is acknowledged before.

        More time for one that takes long, less for one that failed; 0 means soon. The message has a new
        handle from then on. Raises HandleExpired when it is not this consumer's any more.
        """
        _check_duration(invisible_duration_ms, at_least=0)
        handle = handle_of(message)
        place = place_of(message, handle, self._namespace)
        change = InvisibleChange(handle, invisible_duration_ms)
        (changed,) = yield from pop_plans.change_invisible(self._session, place, [change])
        if isinstance(changed, Refused):
            raise changed
        message.properties[POP_CK] = changed.encode_short()

    def _tell(self) -> None:
        """Have brokers told what is wanted before the next messages are received."""
        if self._runner.is_started:
            self._session.greeted.clear()

    def _farewell(self, session: Session) -> Plan[None]:
        return leave_group(session)


def _check_duration(duration_ms: int, *, at_least: int) -> None:
    if not at_least <= duration_ms <= INVISIBLE_MS_MAX:
        raise ConfigError(
            f"invisible_duration_ms is {duration_ms}; it may be {at_least} to {INVISIBLE_MS_MAX} (12 hours)"
        )
