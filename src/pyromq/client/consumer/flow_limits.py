"""Flow control: a queue is not pulled while too much of it waits here."""

from dataclasses import dataclass

from pyromq.client.consumer.owned_queue import OwnedQueue
from pyromq.config.settings import MIB, ClientSettings

#: Seconds until a queue is looked at again: too much waits, the consumer is suspended, the broker is busy.
FLOW_PAUSE_S = 0.05
SUSPENDED_PAUSE_S = 1.0
BUSY_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """The limits of a queue's waiting messages: number, MiB, and offsets from the first to the last."""

    messages: int
    mib: int
    span: int


def limits(settings: ClientSettings, queue_count: int) -> FlowLimits:
    """Return the limits of each of a member's queues; the topic's limits are shared among them."""
    messages, mib = settings.pull_threshold_for_queue, settings.pull_threshold_size_for_queue
    if queue_count and settings.pull_threshold_for_topic != -1:
        messages = max(1, settings.pull_threshold_for_topic // queue_count)
    if queue_count and settings.pull_threshold_size_for_topic != -1:
        mib = max(1, settings.pull_threshold_size_for_topic // queue_count)
    return FlowLimits(messages, mib, settings.consume_concurrently_max_span)


def pop_limits(settings: ClientSettings) -> FlowLimits:
    """Return the limits of what was popped of one broker and waits here."""
    # One below: a pop brings up to a batch more, and at the limit there is none.
    messages = settings.pop_threshold_for_queue - 1
    return FlowLimits(
        messages, settings.pull_threshold_size_for_queue, settings.consume_concurrently_max_span
    )


def why_full(state: OwnedQueue, limits: FlowLimits, *, is_orderly: bool) -> str | None:
    """Return why a queue is not to be pulled now, or None."""
    if state.count > limits.messages:
        return f"{state.count} messages wait; {limits.messages} are the limit"
    if state.bytes > limits.mib * MIB:
        return f"{state.bytes // MIB} MiB wait; {limits.mib} are the limit"
    if not is_orderly and state.span > limits.span:
        return f"the unfinished messages span {state.span} offsets; {limits.span} are the limit"
    return None
