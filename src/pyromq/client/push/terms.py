"""The arguments of a push consumer become its terms: checked, and with RocketMQ's defaults."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pyromq.client.consumer.allocation import Allocate, average
from pyromq.client.consumer.consumer_arguments import (
    check_start_of_pops,
    member_of,
    start_time_ms,
    with_changes,
)
from pyromq.client.consumer.group_member import ConsumeMode, ConsumeModel, ConsumeOrder, MemberTerms
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
from pyromq.wire.bodies.heartbeat_bodies import ConsumeType


def new_terms(
    *,
    group: str,
    name_server: str | None,
    listener: Listener | None,
    batch_listener: BatchListener | None,
    mode: str,
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
    pops = member_of(ConsumeMode, "mode", mode) is ConsumeMode.POP
    chosen_model = member_of(ConsumeModel, "model", model)
    if pops:
        check_start_of_pops(group, consume_from)
        _check_pop(chosen_model, allocate)
    tracer = tracer_of(group, name_server, chosen, role=CONSUME)
    return PushTerms(
        group=group,
        addresses=name_server_addresses(name_server, chosen),
        settings=chosen,
        call=calls(listener, batch_listener, on_threads=on_threads),
        member=MemberTerms(
            model=chosen_model,
            order=member_of(ConsumeOrder, "order", order),
            allocate=allocate,
            start=GroupStart(consume_from, start_time_ms(consume_timestamp, SystemClock().now_ms())),
            consume_type=ConsumeType.CONSUME_POP if pops else ConsumeType.CONSUME_PASSIVELY,
            auto_commit=not pops,
        ),
        hooks=traced_consumer(hooks, tracer, chosen),
        tracer=tracer,
        on_threads=on_threads,
    )


def _check_pop(model: ConsumeModel, allocate: Allocate) -> None:
    """Raise ConfigError for what a consumer that pops cannot do."""
    if model is ConsumeModel.BROADCASTING:
        raise ConfigError("mode='pop' shares messages among members; for model='broadcasting' leave it out")
    if allocate is not average:
        raise ConfigError(
            "with mode='pop' the broker says who reads which queue (`mqadmin setConsumeMode`); leave "
            "`allocate` out"
        )
