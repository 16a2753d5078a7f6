"""What a consumer says of itself to operators (`mqadmin consumerStatus`)."""

import asyncio
import sys
import threading
import traceback
from typing import Any, Final

from pyromq.client.push.calling import LISTENER_TASK
from pyromq.client.push.member import STARTS, Member
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.session import Session
from pyromq.codes import VERSION
from pyromq.config.field import settings_of
from pyromq.config.settings import MIB, ClientSettings
from pyromq.wire.bodies.heartbeat import ConsumeType
from pyromq.wire.bodies.running import QueueState, RunningState, TopicStatus

#: What `mqadmin` shows of the version; the number is MQVersion's.
VERSION_NAME: Final = "V4_9_8"
assert VERSION == 409, "the name above belongs to this number"


def running_state(member: Member, started_ms: int, listener_count: int, *, with_stacks: bool) -> RunningState:
    """Return the state as it is now; with the stacks of all threads if they are wanted."""
    now_ms = member.now_ms()
    return RunningState(
        properties=_properties(member, started_ms, listener_count),
        subscriptions=list(member.subscriptions.values()),
        queues={queue: _queue_state(member, state) for queue, state in member.queues.items()},
        topics={topic: _status(member, topic, now_ms) for topic in member.subscriptions},
        stacks=stacks() if with_stacks else None,
    )


def stacks() -> str:
    """Return where each thread of this process is, and each listener's coroutine; innermost call last."""
    threads = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        lines = "".join(traceback.format_stack(frame))
        parts.append(f"{threads.get(ident, 'unknown')} TID: {ident}\n{lines}")
    for task in _listening_tasks():
        lines = "".join(traceback.format_list(_waiting_at(task.get_coro())))
        parts.append(f"{task.get_name()} TID: {id(task)}\n{lines}")
    return "\n".join(parts)


def _listening_tasks() -> list[asyncio.Task[Any]]:
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        # Asked outside a loop.
        return []
    return [task for task in tasks if task.get_name().startswith(LISTENER_TASK)]


def _waiting_at(coroutine: Any) -> list[traceback.FrameSummary]:
    """Return the calls of a coroutine that waits; a task's own stack has the first of them only."""
    calls: list[traceback.FrameSummary] = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        calls += traceback.StackSummary.extract([(frame, frame.f_lineno)])
        coroutine = coroutine.cr_await
    return calls


def shown_settings(session: Session) -> dict[str, str]:
    """Return what a client is set to, by RocketMQ's names; secrets do not leave the process."""
    shown = {
        setting.key: _java_text(getattr(session.settings, setting.name))
        for setting in settings_of(ClientSettings)
        if not setting.secret
    }
    return shown | {
        "consumerGroup": session.group,
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in session.name_servers.addresses),
    }


def _properties(member: Member, started_ms: int, listener_count: int) -> dict[str, str]:
    return shown_settings(member.session) | {
        "messageModel": member.model.upper(),
        "consumeFromWhere": STARTS[member.consume_from],
        "PROP_CONSUMEORDERLY": _java_text(member.is_orderly),
        "PROP_THREADPOOL_CORE_SIZE": str(listener_count),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY,
        "PROP_CLIENT_VERSION": VERSION_NAME,
    }


def _queue_state(member: Member, state: ProcessQueue) -> QueueState:
    taken = state.taken_offsets
    committed = member.progress.offsets.get(state.queue)
    return QueueState(
        commit_offset=-1 if committed is None else committed,
        cached_msg_min_offset=state.first_offset or 0,
        cached_msg_max_offset=state.last_offset or 0,
        cached_msg_count=state.waiting_count,
        cached_msg_size_in_mib=state.bytes // MIB,
        transaction_msg_min_offset=taken[0] if taken else 0,
        transaction_msg_max_offset=taken[-1] if taken else 0,
        transaction_msg_count=len(taken),
        locked=state.is_locked,
        try_unlock_times=state.unlock_tries,
        last_lock_timestamp=state.locked_at_ms,
        droped=state.is_dropped,
        last_pull_timestamp=state.pulled_at_ms,
        last_consume_timestamp=state.consumed_at_ms,
    )


def _status(member: Member, topic: str, now_ms: int) -> TopicStatus:
    rates = member.figures.rates(topic, now_ms)
    return TopicStatus(
        pull_rt=rates.pull_ms,
        pull_tps=rates.pulled_a_second,
        consume_rt=rates.call_ms,
        consume_ok_tps=rates.done_a_second,
        consume_failed_tps=rates.failed_a_second,
        consume_failed_msgs=rates.failed_in_hour,
    )


def _java_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
