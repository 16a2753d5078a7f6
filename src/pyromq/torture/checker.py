"""The checker: compares a history with the model, promise by promise, and tells what broke in plain words.

Each promise is a function of its own that yields what it looked at: None for something that is as it should
be, a text for something that is not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pyromq.torture.checks import (
    delivery_promise,
    giving_up,
    lasting,
    offset_promise,
    ordering,
    pop_promise,
    serving,
    waiting_promise,
)
from pyromq.torture.checks.evidence import Evidence
from pyromq.torture.history import History
from pyromq.torture.stage import Promises

#: Looks at a run, and yields for each thing that it looks at what is wrong with it, or None.
Check = Callable[[Evidence], Iterator[str | None]]

#: Every promise, in plain words, and who looks at it.
CHECKS: Final[dict[str, Check]] = {
    "acknowledged messages are there": lasting.is_there,
    "messages are stored once, and once more for each lost answer": lasting.is_there_once,
    "bodies are what was sent": lasting.is_unchanged,
    "messages stand where it was said, and queues have no gaps": lasting.is_where_it_was_said,
    "what readers saw is not taken back": lasting.is_not_taken_back,
    "queues keep the order of sends": ordering.is_in_order,
    "queues are read in order": ordering.is_read_in_order,
    "keys are seen in order": ordering.is_key_in_order,
    "every group gets its messages": delivery_promise.is_delivered,
    "messages come in time": delivery_promise.is_in_time,
    "filters let nothing else through": delivery_promise.is_for_them,
    "messages come once while nothing is wrong": delivery_promise.is_delivered_once,
    "what was popped and acknowledged does not come again": pop_promise.is_ended,
    "what was popped is one member's at a time": pop_promise.is_one_members,
    "delayed messages do not come early": waiting_promise.is_not_early,
    "recalled messages do not come": waiting_promise.is_recalled,
    "transactions end as decided": waiting_promise.is_as_decided,
    "staged batches are whole, and once": waiting_promise.is_whole,
    "what a group gives up is a dead letter, once": giving_up.is_dead_once,
    "what fails is tried again once": giving_up.is_tried_again_once,
    "replayed dead letters come again": giving_up.is_replayed,
    "progress is not ahead of its queue": offset_promise.is_not_ahead,
    "committed progress does not go back": offset_promise.is_not_back,
    "ends that brokers tell are confirmed": offset_promise.is_end_confirmed,
    "a replaced master acknowledges nothing": serving.is_one_master,
    "calls are answered while nothing is wrong": serving.is_answered,
    "brokers serve when the faults are over": serving.is_serving_again,
    "requests get their own reply": serving.is_own_reply,
    "accounts see only what they may": serving.is_kept_out,
    "topics are there until they are deleted": serving.is_topic_there,
}


@dataclass(frozen=True, slots=True)
class PromiseVerdict:
    """The verdict on one promise: how often it was checked, and what broke it."""

    promise: str
    checked: int
    broken: list[str] = field(default_factory=list)


def judge(history: History, promises: Promises) -> list[PromiseVerdict]:
    """Return a verdict for every promise, in one order; what a run was not about has 0 checked."""
    evidence = Evidence(history, promises)
    return [_verdict(promise, check(evidence)) for promise, check in CHECKS.items()]


def _verdict(promise: str, looks: Iterator[str | None]) -> PromiseVerdict:
    found = list(looks)
    return PromiseVerdict(promise, len(found), [text for text in found if text is not None])
