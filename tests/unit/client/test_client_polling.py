from dataclasses import dataclass, field

import pytest
from client_stage import Stage, answer, refuses, route_of

from pyromq.client.client_session import Session
from pyromq.client.plans import polling
from pyromq.client.plans.polling import TopicPolls, TopicWanted
from pyromq.client.plans.progress_plans import GroupStart, commit_finished
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import ConnectFailed, NoRoute
from pyromq.model import ConsumeFrom, MessageQueue, ReceivedMessage
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.offset_headers import (
    GetMaxOffset,
    GetMaxOffsetAnswer,
    GetMinOffsetAnswer,
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    SearchOffsetAnswer,
    UpdateConsumerOffset,
)
from pyromq.wire.headers.pull_headers import PullMessage, PullMessageAnswer
from pyromq.wire.record import Record, encode_record

ALL = TopicWanted("orders")
FIRST = GroupStart(ConsumeFrom.FIRST_OFFSET)


@dataclass
class QueueBroker:
    """A broker with queues of numbered messages, and what groups committed."""

    messages: dict[int, int]
    committed: dict[int, int] = field(default_factory=dict)
    is_committing: bool = True

    def __call__(self, command: Command) -> Command:
        match command.code:
            case RequestCode.PULL_MESSAGE:
                return self._pull(read_header(PullMessage, command.ext))
            case RequestCode.QUERY_CONSUMER_OFFSET:
                queue_id = read_header(QueryConsumerOffset, command.ext).queue_id
                if queue_id not in self.committed:
                    return answer(ResponseCode.QUERY_NOT_FOUND)
                return answer(header=QueryConsumerOffsetAnswer(offset=self.committed[queue_id]))
            case RequestCode.UPDATE_CONSUMER_OFFSET:
                if not self.is_committing:
                    return answer(ResponseCode.SYSTEM_ERROR, remark="no")
                header = read_header(UpdateConsumerOffset, command.ext)
                self.committed[header.queue_id] = header.commit_offset
                return answer()
            case RequestCode.GET_MIN_OFFSET:
                return answer(header=GetMinOffsetAnswer(offset=0))
            case RequestCode.GET_MAX_OFFSET:
                queue_id = read_header(GetMaxOffset, command.ext).queue_id
                return answer(header=GetMaxOffsetAnswer(offset=self.messages[queue_id]))
            case RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                return answer(header=SearchOffsetAnswer(offset=1))
        raise AssertionError(command)

    def _pull(self, header: PullMessage) -> Command:
        end = min(header.queue_offset + header.max_msg_nums, self.messages[header.queue_id])
        body = b"".join(
            encode_record(Record(topic="orders", body=b"%d" % at, queue_id=header.queue_id, queue_offset=at))
            for at in range(header.queue_offset, end)
        )
        found = PullMessageAnswer(
            suggest_which_broker_id=0, next_begin_offset=end, min_offset=0, max_offset=end
        )
        return answer(0 if body else ResponseCode.PULL_NOT_FOUND, header=found, body=body)


@pytest.fixture
def stage() -> Stage:
    return Stage(routes={"orders": route_of("a", queues=2)})


@pytest.fixture
def broker(stage: Stage) -> QueueBroker:
    stage.brokers["a:1"] = QueueBroker({0: 3, 1: 2})
    return stage.brokers["a:1"]


@pytest.fixture
def session(stage: Stage) -> Session:
    return stage.session()


def poll(
    stage: Stage,
    session: Session,
    polls: TopicPolls,
    wanted: TopicWanted = ALL,
    *,
    wait_ms: int = 0,
) -> list[ReceivedMessage]:
    deadline = Deadline(stage.clock, wait_ms)
    messages = stage.run(polling.poll(session, polls, wanted, deadline))
    if messages:
        polls.hand_out_rest(messages[0].queue)
    return messages


def places(messages: list[ReceivedMessage]) -> list[tuple[int, int]]:
    return [(message.queue.queue_id, message.queue_offset) for message in messages]


def test_a_topic_s_queues_are_read_in_turn(stage: Stage, session: Session, broker: QueueBroker) -> None:
    polls = TopicPolls(FIRST)

    got = [places(poll(stage, session, polls, TopicWanted("orders", count=2))) for _ in range(4)]

    assert got == [[(0, 0), (0, 1)], [(1, 0), (1, 1)], [(0, 2)], []]


def test_a_group_goes_on_where_it_left_off(stage: Stage, session: Session, broker: QueueBroker) -> None:
    broker.committed.update({0: 2, 1: 2})

    assert places(poll(stage, session, TopicPolls(FIRST))) == [(0, 2)]


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (GroupStart(ConsumeFrom.FIRST_OFFSET), [(0, 0), (0, 1), (0, 2)]),
        (GroupStart(ConsumeFrom.TIMESTAMP, 5), [(0, 1), (0, 2)]),
        (GroupStart(ConsumeFrom.LAST_OFFSET), []),
    ],
)
def test_a_new_group_begins_where_it_is_told(
    stage: Stage, session: Session, broker: QueueBroker, start: GroupStart, first: list[tuple[int, int]]
) -> None:
    assert places(poll(stage, session, TopicPolls(start))) == first


def test_what_was_polled_is_committed_when_the_next_is_asked_for(
    stage: Stage, session: Session, broker: QueueBroker
) -> None:
    polls = TopicPolls(FIRST)
    poll(stage, session, polls)
    assert broker.committed == {}

    stage.clock.advance(5_000)
    poll(stage, session, polls)

    assert broker.committed == {0: 3}


def test_progress_is_committed_every_five_seconds_and_not_at_every_poll(
    stage: Stage, session: Session, broker: QueueBroker
) -> None:
    polls = TopicPolls(FIRST)

    for _ in range(5):
        poll(stage, session, polls, TopicWanted("orders", count=1))

    assert broker.committed == {}
    assert stage.asked(RequestCode.UPDATE_CONSUMER_OFFSET) == []


def test_a_message_in_hand_is_not_committed(stage: Stage, session: Session, broker: QueueBroker) -> None:
    polls = TopicPolls(FIRST)
    batch = stage.run(polling.poll(session, polls, ALL, Deadline(stage.clock, 0)))
    polls.hand_out(batch[0])
    polls.finish()
    polls.hand_out(batch[1])

    stage.run(commit_finished(session, polls.queues))

    assert broker.committed[0] == 1


def test_what_an_iteration_left_behind_is_read_again(
    stage: Stage, session: Session, broker: QueueBroker
) -> None:
    polls = TopicPolls(FIRST)
    batch = stage.run(polling.poll(session, polls, ALL, Deadline(stage.clock, 0)))
    polls.hand_out(batch[0])

    poll(stage, session, polls)
    again = poll(stage, session, polls)

    assert places(again) == [(0, 1), (0, 2)]


def test_a_commit_that_fails_is_tried_again(stage: Stage, session: Session, broker: QueueBroker) -> None:
    polls = TopicPolls(FIRST)
    poll(stage, session, polls)
    polls.finish()
    broker.is_committing = False
    stage.run(commit_finished(session, polls.queues))

    broker.is_committing = True
    stage.run(commit_finished(session, polls.queues))

    assert broker.committed[0] == 3


def test_an_explicit_commit_is_not_repeated(stage: Stage, session: Session, broker: QueueBroker) -> None:
    polls = TopicPolls(FIRST)
    poll(stage, session, polls)
    polls.note_committed(MessageQueue("orders", "a", 0), 3)
    polls.finish()

    assert [queue.due for queue in polls.queues.values()] == [None]


def test_a_poll_of_empty_queues_waits_longer_and_longer_but_not_past_its_time(
    stage: Stage, session: Session, broker: QueueBroker
) -> None:
    broker.messages.update({0: 0, 1: 0})
    before = stage.clock.now_ms()

    assert poll(stage, session, TopicPolls(FIRST), wait_ms=2_000) == []

    assert stage.clock.now_ms() - before == 2_000
    assert stage.pauses[:4] == [0.01, 0.02, 0.04, 0.08]
    assert max(stage.pauses) <= polling.PAUSE_S_MAX


def test_a_message_that_comes_while_a_poll_waits_is_returned(
    stage: Stage, session: Session, broker: QueueBroker
) -> None:
    broker.messages.update({0: 0, 1: 0})
    stage.on_pause = lambda _seconds: broker.messages.update({1: 1})

    assert places(poll(stage, session, TopicPolls(FIRST), wait_ms=2_000)) == [(1, 0)]


def test_a_topic_that_was_made_just_now_is_waited_for(
    stage: Stage, session: Session, broker: QueueBroker
) -> None:
    made = stage.routes.pop("orders")
    stage.on_pause = lambda _seconds: stage.routes.update(orders=made)

    assert places(poll(stage, session, TopicPolls(FIRST), wait_ms=2_000)) == [(0, 0), (0, 1), (0, 2)]


def test_a_topic_that_does_not_come_is_an_error_when_the_time_is_over(stage: Stage, session: Session) -> None:
    del stage.routes["orders"]
    before = stage.clock.now_ms()

    with pytest.raises(NoRoute):
        poll(stage, session, TopicPolls(FIRST), wait_ms=2_000)

    assert stage.clock.now_ms() - before == 2_000


def test_a_broker_that_fails_does_not_keep_the_others_from_being_read(
    stage: Stage, session: Session, broker: QueueBroker
) -> None:
    stage.routes["orders"] = route_of("a", "down", queues=2)
    stage.down.add("down:1")
    polls = TopicPolls(FIRST)

    got = [places(poll(stage, session, polls)) for _ in range(2)]

    assert got == [[(0, 0), (0, 1), (0, 2)], [(1, 0), (1, 1)]]


def test_when_all_brokers_fail_so_does_the_poll(stage: Stage, session: Session, broker: QueueBroker) -> None:
    stage.down.add("a:1")

    with pytest.raises(ConnectFailed):
        poll(stage, session, TopicPolls(FIRST))


def test_a_topic_without_a_heartbeat_can_be_read(stage: Stage, session: Session, broker: QueueBroker) -> None:
    poll(stage, session, TopicPolls(FIRST))

    assert stage.asked(RequestCode.HEART_BEAT) == []


def test_a_refusal_ends_a_poll(stage: Stage, session: Session) -> None:
    stage.brokers["a:1"] = refuses(ResponseCode.NO_PERMISSION, "not allowed")

    with pytest.raises(Exception, match="not allowed"):
        poll(stage, session, TopicPolls(FIRST))
