"""Timed messages: the properties that ask for them, and the records stored when a wait begins and ends.

A producer asks with one of RocketMQ 5.x's properties (HookUtils.java): TIMER_DELAY_SEC or TIMER_DELAY_MS,
from now on, or TIMER_DELIVER_MS, a time since 1970. The message then waits in queue 0 of
`rmq_sys_wheel_timer` with its time in TIMER_OUT_MS. 5.x rounds it down to seconds; here it stays exact.

Another record of the log, the *done record*, ends the wait: the message itself, stored in its own topic; the
same message, stored again in the timer topic so that the file of the first may go; or a recall. Each names
the waiting record (`stored_again.py`).
"""

from collections.abc import Callable, Mapping
from typing import Final

from pyromq import system_names
from pyromq.broker.kinds.delay import level_of
from pyromq.broker.kinds.stored_again import QUEUE_ID, divert, draft_of, due_draft, name_of
from pyromq.broker.topics.intake import Diversion, PlainDiversion
from pyromq.codes import TRANSACTION_MASK, ResponseCode, SysFlag
from pyromq.config.settings import StoreSettings
from pyromq.errors import MessageIllegal, ServerFailed
from pyromq.store.store import Draft
from pyromq.wire import properties as names
from pyromq.wire.record import PROPERTIES_BYTES_MAX, Record

#: The properties that ask for a time, the first of them that is there counts.
ASKING: Final = (names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)
#: Java's long has no more.
_DIGITS_MAX: Final = 19
#: What the numbers count that do not say a time themselves.
_UNITS_MS: Final = {names.TIMER_DELAY_SEC: 1000, names.TIMER_DELAY_MS: 1}
_RECALL_BODY: Final = b"0"


def timer_diversions(settings: StoreSettings, now_ms: Callable[[], int]) -> dict[str, Diversion]:
    """Return what sends timed messages to the timer topic, by the properties that ask for it.

    One whose time has come stays where it is. So does half a transaction, and what has waited already. One
    that has a delay level too gets that.
    """

    def divert_timed(draft: Draft, properties: dict[str, str]) -> bool:
        if not _may_wait(draft, properties):
            return False
        if level_of(properties) > 0:
            for name in ASKING:
                properties.pop(name, None)
            return True
        if not settings.timer_wheel_enable:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR,
                "accurate timer message is not enabled, timerWheelEnable is false",
            )
        now = now_ms()
        due_ms = _asked_ms(properties, now)
        limit_ms = settings.timer_max_delay_sec * 1000
        if due_ms is None or due_ms - now > limit_ms or names.TIMER_DEL_UNIQKEY in properties:
            raise _illegal(limit_ms)
        if due_ms <= now:
            return False
        properties[names.TIMER_OUT_MS] = str(due_ms)
        divert(draft, properties, system_names.WHEEL_TIMER, QUEUE_ID)
        return True

    return dict.fromkeys(ASKING, divert_timed)


def plain_timer_diversions(settings: StoreSettings) -> list[PlainDiversion]:
    """Return what the kernel may repeat of the diversions; nothing while timed messages are refused."""
    if not settings.timer_wheel_enable:
        return []
    return [
        PlainDiversion(
            name=name,
            topic=system_names.WHEEL_TIMER,
            unit_ms=_UNITS_MS.get(name, 0),
            delay_ms_max=settings.timer_max_delay_sec * 1000,
            due_name=names.TIMER_OUT_MS,
            excludes=(names.TIMER_DEL_UNIQKEY,),
            is_recallable=True,
        )
        for name in ASKING
    ]


def _may_wait(draft: Draft, properties: Mapping[str, str]) -> bool:
    kind = draft.sys_flag & TRANSACTION_MASK
    return (
        kind in (0, SysFlag.TRANSACTION_COMMIT)
        and draft.topic != system_names.TRANSACTION_HALF
        and names.TIMER_OUT_MS not in properties
    )


def _asked_ms(properties: Mapping[str, str], now_ms: int) -> int | None:
    """Return the time that a message asks for, None when it is no number."""
    name = next(name for name in ASKING if name in properties)
    text = properties[name]
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX):
        return None
    unit_ms = _UNITS_MS.get(name)
    return int(text) if unit_ms is None else now_ms + int(text) * unit_ms


def _illegal(limit_ms: int) -> MessageIllegal:
    return MessageIllegal(
        ResponseCode.MESSAGE_ILLEGAL,
        "timer message illegal, the delay time should not be bigger than the max delay "
        f"{limit_ms}ms; or if set del msg, the delay time should be bigger than the current time",
    )


def delivered_draft(record: Record, now_ms: int) -> Draft | None:
    """Return a waiting message as it is stored in its own topic, or None when it does not say where.

    Its properties stay, as with 5.x, which adds when it began to wait and when it ended.
    """
    draft = due_draft(record)
    if draft is None or record.topic != system_names.WHEEL_TIMER:
        return None
    draft.properties = _with(
        draft.properties,
        f"{names.TIMER_ENQUEUE_MS}\x01{record.stored_at_ms}\x02{names.TIMER_DEQUEUE_MS}\x01{now_ms}",
    )
    draft.prepared_position = name_of(record.position)
    return draft


def rolled_draft(record: Record) -> Draft:
    """Return a waiting message as it is stored again, to wait on in a newer file."""
    draft = draft_of(record)
    text = names.find_text(record.properties, names.TIMER_ROLL_TIMES) or ""
    times = int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX else 0
    before = f"\x02{names.TIMER_ROLL_TIMES}\x01{text}"
    draft.properties = _with(
        draft.properties.removesuffix(before), f"{names.TIMER_ROLL_TIMES}\x01{times + 1}"
    )
    draft.prepared_position = name_of(record.position)
    return draft


def recall_draft(record: Record, now_ms: int) -> Draft:
    """Return the record that says that a waiting message is never delivered."""
    topic = names.find_text(record.properties, names.REAL_TOPIC) or ""
    unique_id = names.find_text(record.properties, names.UNIQ_KEY) or ""
    draft = draft_of(record)
    draft.body, draft.flag, draft.sys_flag = _RECALL_BODY, 0, record.sys_flag & _HOSTS
    # 5.x: TimerMessageStore.java, buildDeleteKey.
    draft.properties = f"{names.TIMER_DEL_UNIQKEY}\x01{topic}+{unique_id}"
    draft.born_at_ms, draft.reconsume_times = now_ms, 0
    draft.prepared_position = name_of(record.position)
    return draft


_HOSTS: Final = int(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)


def _with(properties: str, more: str) -> str:
    """Return properties with more of them behind; without, when there is no room: they tell, and no more."""
    separator = "" if not properties or properties.endswith(names.PROPERTY_SEPARATOR) else "\x02"
    longer = f"{properties}{separator}{more}"
    if len(longer) * 3 <= PROPERTIES_BYTES_MAX or len(longer.encode()) <= PROPERTIES_BYTES_MAX:
        return longer
    return properties
