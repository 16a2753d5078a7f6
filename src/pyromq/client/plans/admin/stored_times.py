"""The first message of a queue that was stored at a time or later.

29 does not say that: it answers the message that is nearest to the time, any of those with the same one, and
the last where all are older (RocketMQ 4.9.8: ConsumeQueue.getOffsetInQueueByTime). So what it answers is only
where the search begins.
"""

from collections.abc import Sequence
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.plans.admin.targets import ask_lots, timeout_s
from pyromq.client.plans.pull_plans import read_pulled
from pyromq.client.steps import Plan, ask, must_succeed, request
from pyromq.codes import PullFlag, RequestCode
from pyromq.errors import ProtocolError, Refused
from pyromq.model import MessageQueue
from pyromq.wire.bodies.offset_bodies import decode_topic_stats
from pyromq.wire.header import read_header
from pyromq.wire.headers.admin_headers import GetTopicStats
from pyromq.wire.headers.offset_headers import SearchOffset, SearchOffsetAnswer
from pyromq.wire.headers.pull_headers import PullMessage
from pyromq.wire.record import iter_records

#: The group that RocketMQ's tools read as.
TOOLS_GROUP: Final = "TOOLS_CONSUMER"
#: Messages before the answer of 29 that are looked at first.
_BACK: Final = 8
_PAGE: Final = 32


def offsets_at(
    session: Session,
    address: str,
    queues: list[MessageQueue],
    ends: tuple[list[int], list[int]],
    at_ms: int,
) -> Plan[list[int]]:
    """Return for queues of one topic on one broker the first offset at or after a time, or the end."""
    commands = [
        request(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=at_ms),
        )
        for queue in queues
    ]
    answers = yield from ask_lots(session, address, commands)
    guesses = [read_header(SearchOffsetAnswer, must_succeed(one).ext).offset for one in answers]
    command = request(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStats(topic=queues[0].topic))
    stats = decode_topic_stats(must_succeed((yield from ask(address, command, timeout_s(session)))).body)
    found = []
    for queue, guess, first, last in zip(queues, guesses, *ends, strict=True):
        if queue in stats and stats[queue].last_update_timestamp < at_ms:
            found.append(last)
        else:
            found.append((yield from _first_at(session, address, queue, guess, (first, last), at_ms)))
    return found


def _first_at(
    session: Session, address: str, queue: MessageQueue, guess: int, ends: tuple[int, int], at_ms: int
) -> Plan[int]:
    first, last = ends
    back, low, is_from_before = _BACK, max(first, guess - _BACK), False
    while True:
        page = yield from _stored_times(session, address, queue, low)
        if not page:
            # It cannot be read: what the broker said is the best there is.
            return guess
        late = next((offset for offset, stored_ms in page if stored_ms >= at_ms), None)
        if late is None:
            low, is_from_before = page[-1][0] + 1, True
            if low >= last:
                return last
        elif late > page[0][0] or late <= first or is_from_before:
            return late
        else:
            back *= 2
            low = max(first, late - back)


def _stored_times(
    session: Session, address: str, queue: MessageQueue, offset: int
) -> Plan[Sequence[tuple[int, int]]]:
    header = PullMessage(
        consumer_group=TOOLS_GROUP,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=_PAGE,
        sys_flag=int(PullFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    answer = yield from ask(address, request(RequestCode.PULL_MESSAGE, header), timeout_s(session))
    try:
        records = iter_records(read_pulled(answer).records)
        return [(record.queue_offset, record.stored_at_ms) for record in records]
    except (Refused, ProtocolError):
        return ()
