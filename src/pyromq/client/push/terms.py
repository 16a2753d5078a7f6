"""The arguments of a push consumer become its terms: checked, and with RocketMQ's defaults."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyromq.client.consumer.allocation import Allocate
from pyromq.client.consumer.consumer_arguments import member_of, start_time_ms, with_changes
from pyromq.client.consumer.group_member import ConsumeModel, ConsumeOrder, MemberTerms
from pyromq.client.hooks import ConsumeHook
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import check_group
from pyromq.client.plans.progress_plans import GroupStart
from pyromq.client.push.calling import calls
from pyromq.client.push.delivery import BatchListener, Listener
from pyromq.client.push.engine import PushTerms
from pyromq.client.tracing.trace import CONSUME, traced_consumer, tracer_of
from pyromq.clock import SystemClock
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError
from pyromq.model import ConsumeFrom


def new_terms(
    *,
    group: str,
    name_server: str | None,
    listener: Listener | None,
    batch_listener: BatchListener | None,
    model: str,
    order: str,
    settings: ClientSettings | None,
    allocate: Allocate,
    consume_from: ConsumeFrom,
    consume_timestamp: str | datetime | None,
    hooks: Sequence[ConsumeHook],
    changes: dict[str, Any],
    on_threads: bool,
) -> PushTerms:
    """Return the terms; raise ConfigError for what no consumer can start with."""
    check_group(group)
    chosen = with_changes(settings, changes)
    if listener is not None and chosen.consume_message_batch_max_size > 1:
        raise ConfigError(
            "consume_message_batch_max_size is for a batch_listener, which takes a list; this consumer has a "
            "listener, which takes one message"
        )
    tracer = tracer_of(group, name_server, chosen, role=CONSUME)
    return PushTerms(
        group=group,
        addresses=name_server_addresses(name_server, chosen),
        settings=chosen,
        call=calls(listener, batch_listener, on_threads=on_threads),
        member=MemberTerms(
            model=member_of(ConsumeModel, "model", model),
            order=member_of(ConsumeOrder, "order", order),
            allocate=allocate,
            start=GroupStart(consume_from, start_time_ms(consume_timestamp, SystemClock().now_ms())),
        ),
        hooks=traced_consumer(hooks, tracer, chosen),
        tracer=tracer,
        on_threads=on_threads,
    )
