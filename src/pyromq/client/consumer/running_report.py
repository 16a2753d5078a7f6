"""The state of a consumer that operators are shown (`mqadmin consumerStatus`)."""

import asyncio
import sys
import threading
import traceback
from typing import Any, Final

from pyromq.client.client_session import Session
from pyromq.client.consumer.group_member import GroupMember
from pyromq.codes import VERSION
from pyromq.config.field import settings_of
from pyromq.config.settings import ClientSettings
from pyromq.wire.bodies.running_info import RunningState, TopicStatus

#: What `mqadmin` shows of the version; the number is MQVersion's.
VERSION_NAME: Final = "V4_9_8"
assert VERSION == 409, "the name above belongs to this number"
#: The name of a task that calls a listener, and of a thread that does, followed by the group.
LISTENER_TASK: Final = "pyromq-listener"


def running_state(member: GroupMember[Any], shown: dict[str, str], *, with_stacks: bool) -> RunningState:
    """Return the state as it is now; `shown` is what this kind of consumer adds to the properties."""
    now_ms = member.now_ms()
    return RunningState(
        # In this order mqadmin's hash table lists them as those of a Java consumer.
        properties=_settings(member.session) | shown | _properties(member),
        subscriptions=list(member.subscriptions.values()),
        queues={queue: state.shown() for queue, state in member.queues.items()},
        topics={
            topic: _status(member, topic, now_ms) for topic in member.subscriptions if member.terms.is_passive
        },
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


def _settings(session: Session) -> dict[str, str]:
    """Return a client's settings by RocketMQ's names; secrets do not leave the process."""
    return {
        setting.key: java_text(getattr(session.settings, setting.name))
        for setting in settings_of(ClientSettings)
        if not setting.secret
    }


def _properties(member: GroupMember[Any]) -> dict[str, str]:
    terms, session = member.terms, member.session
    return {
        "consumerGroup": session.group,
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in session.name_servers.addresses),
        "messageModel": terms.model.upper(),
        "PROP_CONSUME_TYPE": terms.consume_type,
        "PROP_CLIENT_VERSION": VERSION_NAME,
    }


def _status(member: GroupMember[Any], topic: str, now_ms: int) -> TopicStatus:
    rates = member.figures.rates(topic, now_ms)
    return TopicStatus(
        pull_rt=rates.pull_ms,
        pull_tps=rates.pulled_a_second,
        consume_rt=rates.call_ms,
        consume_ok_tps=rates.done_a_second,
        consume_failed_tps=rates.failed_a_second,
        consume_failed_msgs=rates.failed_in_hour,
    )


def java_text(value: object) -> str:
    """Return a value as Java writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
