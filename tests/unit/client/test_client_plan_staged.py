"""The plans of staged sends: who decides, in which order brokers are asked, and what is asked again."""

from collections.abc import Callable

import pytest
from client_stage import NAME_SERVERS, Stage, answer, refuses, route_of

from pyromq.client.plans import staged_plans
from pyromq.client.plans.staged_plans import Brokers, StagedPart, Writing
from pyromq.client.steps import Deadline
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import (
    ConnectFailed,
    IllegalOperation,
    MessageIllegal,
    NoRoute,
    RequestTimeout,
    StagedSendsUnsupported,
    SystemBusy,
)
from pyromq.model import MessageQueue
from pyromq.wire.bodies.route_bodies import BrokerData, ClusterTable, encode_cluster, encode_route
from pyromq.wire.bodies.staging_bodies import PartChunks, StagedBody, decode_staged, encode_staged
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.staging_headers import (
    BatchState,
    OpenStagedBatch,
    PublishStaged,
    PublishStep,
    StagedAnswer,
    StageMessages,
)

QUEUE = MessageQueue("orders", "b", 1)
Played = Callable[[Command], Command]


def says(body: StagedBody | None = None, **fields: object) -> Played:
    return lambda _command: answer(
        header=StagedAnswer(**fields),  # type: ignore[arg-type]
        body=encode_staged(body or StagedBody()),
    )


def opens(state: BatchState = BatchState.OPEN, *, is_first: bool = False, home: str | None = None) -> Played:
    """A broker that knows who the home is, agrees to any layout and takes whatever comes."""

    def play(command: Command) -> Command:
        body = decode_staged(command.body) if command.code != RequestCode.STAGE_MESSAGES else StagedBody()
        header = StagedAnswer(home=home, state=state, is_first=is_first, is_out=True)
        return answer(header=header, body=encode_staged(body))

    return play


def name_server(command: Command) -> Command:
    if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        return answer(body=encode_route(route_of("a", "b", queues=2), quoted_keys=True))
    return answer(body=encode_cluster(CLUSTER))


CLUSTER = ClusterTable(
    broker_addr_table={
        name: BrokerData(cluster="c", broker_name=name, broker_addrs={0: f"{name}:1"}) for name in ("b", "a")
    },
    cluster_addr_table={"c": ["a", "b"]},
)


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.brokers = dict.fromkeys(NAME_SERVERS, name_server) | {"a:1": opens(), "b:1": opens()}
    return stage


@pytest.fixture
def brokers(stage: Stage) -> Brokers:
    return Brokers(stage.session())


def writing() -> Writing:
    return Writing("q", 7, 0, "0-x")


def deadline(stage: Stage) -> Deadline:
    return Deadline(stage.clock, 30_000)


def opened(stage: Stage, brokers: Brokers) -> Writing:
    one = writing()
    stage.run(staged_plans.open_batch(brokers, one, ["orders"], deadline(stage)))
    stage.calls.clear()
    return one


def part(batch: int = 7, home: str = "a", **chunks: int) -> StagedPart:
    return StagedPart("q", batch, home, 0, "0-x", chunks or {"a": 1, "b": 2}, 3)


def asked_in_order(stage: Stage) -> list[tuple[str, str]]:
    """The steps of a publish, with who was asked."""
    return [
        (call.address, read_header(PublishStaged, call.command.ext).step)
        for call in stage.calls
        if call.command.code == RequestCode.PUBLISH_STAGED
    ]


# Who decides


def test_the_first_broker_by_name_decides_for_a_query_that_nobody_knows(
    stage: Stage, brokers: Brokers
) -> None:
    one = writing()

    stage.run(staged_plans.open_batch(brokers, one, ["orders"], deadline(stage)))

    assert one.home == "a"
    assert one.layout == {"orders": {"a": 2, "b": 2}}
    assert stage.asked(RequestCode.STAGED_STATUS) == ["a:1", "b:1"]
    assert stage.asked(RequestCode.OPEN_STAGED_BATCH) == ["a:1"]


def test_the_broker_that_decides_already_goes_on(stage: Stage, brokers: Brokers) -> None:
    stage.brokers["a:1"] = opens(home="b")
    one = writing()

    stage.run(staged_plans.open_batch(brokers, one, ["orders"], deadline(stage)))

    assert one.home == "b"
    assert stage.asked(RequestCode.OPEN_STAGED_BATCH) == ["b:1"]


def test_the_home_is_asked_for_once(stage: Stage, brokers: Brokers) -> None:
    opened(stage, brokers)
    opened(stage, brokers)

    assert not stage.asked(RequestCode.STAGED_STATUS)


def test_whoever_opens_a_batch_first_tells_the_other_brokers_who_decides(
    stage: Stage, brokers: Brokers
) -> None:
    stage.brokers["a:1"] = opens(is_first=True)
    stage.down.add("b:1")
    brokers.homes["q"] = "a"
    brokers.addresses = {"a": "a:1", "b": "b:1", "c": "c:1"}
    stage.brokers["c:1"] = opens()

    stage.run(staged_plans.open_batch(brokers, writing(), ["orders"], deadline(stage)))

    told = [call for call in stage.calls if call.command.code == RequestCode.OPEN_STAGED_BATCH]
    assert [call.address for call in told] == ["a:1", "b:1", "c:1"]
    assert {read_header(OpenStagedBatch, call.command.ext).home for call in told} == {"a"}


def test_brokers_that_disagree_are_not_believed(stage: Stage, brokers: Brokers) -> None:
    stage.brokers |= {"a:1": opens(home="a"), "b:1": opens(home="b")}

    with pytest.raises(IllegalOperation, match="brokers disagree"):
        stage.run(staged_plans.open_batch(brokers, writing(), [], deadline(stage)))


def test_no_other_broker_takes_the_place_of_a_home_that_is_away(stage: Stage, brokers: Brokers) -> None:
    stage.brokers["a:1"] = opens(home="gone")

    with pytest.raises(NoRoute, match="broker gone decides for query q"):
        stage.run(staged_plans.open_batch(brokers, writing(), [], deadline(stage)))


def test_nobody_decides_while_a_broker_that_may_know_does_not_answer(stage: Stage, brokers: Brokers) -> None:
    stage.down.add("b:1")

    with pytest.raises(ConnectFailed, match="no broker that answers knows query q"):
        stage.run(staged_plans.open_batch(brokers, writing(), [], deadline(stage)))


def test_a_broker_that_is_back_in_time_is_asked_again(stage: Stage, brokers: Brokers) -> None:
    stage.down.add("b:1")
    stage.on_pause = lambda _seconds: stage.down.clear()
    stage.brokers["b:1"] = opens(home="b")
    one = writing()

    stage.run(staged_plans.open_batch(brokers, one, [], deadline(stage)))

    assert one.home == "b"


def test_a_broker_that_does_not_answer_does_not_matter_when_another_knows(
    stage: Stage, brokers: Brokers
) -> None:
    stage.down.add("b:1")
    stage.brokers["a:1"] = opens(home="a")
    one = writing()

    stage.run(staged_plans.open_batch(brokers, one, [], deadline(stage)))

    assert one.home == "a"


def test_apache_s_brokers_do_not_know_staged_sends(stage: Stage, brokers: Brokers) -> None:
    apache = refuses(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, " request type 9105 not supported")
    stage.brokers |= {"a:1": apache, "b:1": apache}

    with pytest.raises(StagedSendsUnsupported, match="delivery=at-least-once"):
        stage.run(staged_plans.open_batch(brokers, writing(), ["orders"], deadline(stage)))


def test_brokers_that_are_not_registered_now_are_not_taken_for_apache_s(
    stage: Stage, brokers: Brokers
) -> None:
    nobody = ClusterTable(broker_addr_table={}, cluster_addr_table={})
    stage.brokers = dict.fromkeys(NAME_SERVERS, lambda _command: answer(body=encode_cluster(nobody)))

    with pytest.raises(NoRoute, match="know no broker now"):
        stage.run(staged_plans.open_batch(brokers, writing(), [], deadline(stage)))


def test_a_chunk_for_one_of_apache_s_brokers_is_refused_with_its_name(stage: Stage, brokers: Brokers) -> None:
    stage.brokers["b:1"] = refuses(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    one = opened(stage, brokers)

    with pytest.raises(StagedSendsUnsupported, match=r"broker b \(b:1\) does not know"):
        stage.run(staged_plans.stage(brokers, one, QUEUE, b"x", 1, deadline(stage)))


# Writing


def test_chunks_are_numbered_for_each_broker(stage: Stage, brokers: Brokers) -> None:
    one = opened(stage, brokers)
    for broker in ("a", "b", "a"):
        queue = MessageQueue("orders", broker, 0)
        stage.run(staged_plans.stage(brokers, one, queue, b"x", 5, deadline(stage)))

    sequences = [read_header(StageMessages, call.command.ext).sequence for call in stage.calls]
    assert sequences == [0, 0, 1]
    assert one.finished() == StagedPart("q", 7, "a", 0, "0-x", {"a": 2, "b": 1}, 15)


def test_a_chunk_is_staged_again_under_its_number_when_no_answer_comes(
    stage: Stage, brokers: Brokers
) -> None:
    one = opened(stage, brokers)
    stage.down.add("b:1")
    stage.on_pause = lambda _seconds: stage.down.clear()

    stage.run(staged_plans.stage(brokers, one, QUEUE, b"x", 1, deadline(stage)))

    tries = [call for call in stage.calls if call.command.code == RequestCode.STAGE_MESSAGES]
    assert [read_header(StageMessages, call.command.ext).sequence for call in tries] == [0, 0]
    assert one.chunks == {"b": 1}


def test_a_broker_that_stays_away_ends_the_call_when_its_time_is_up(stage: Stage, brokers: Brokers) -> None:
    one = opened(stage, brokers)
    stage.down.add("b:1")

    with pytest.raises(ConnectFailed):
        stage.run(staged_plans.stage(brokers, one, QUEUE, b"x", 1, deadline(stage)))

    assert one.chunks == {}
    assert sum(stage.pauses) > 29


def test_a_busy_broker_is_asked_again(stage: Stage, brokers: Brokers) -> None:
    one = opened(stage, brokers)
    stage.brokers["b:1"] = refuses(ResponseCode.SYSTEM_BUSY)

    with pytest.raises(SystemBusy):
        stage.run(staged_plans.stage(brokers, one, QUEUE, b"x", 1, deadline(stage)))

    assert len(stage.asked(RequestCode.STAGE_MESSAGES)) > 100


UNSAFE = [
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
]


@pytest.mark.parametrize("code", UNSAFE)
def test_a_chunk_that_is_not_safe_yet_is_staged_again_until_it_is(
    stage: Stage, brokers: Brokers, code: ResponseCode
) -> None:
    one = opened(stage, brokers)
    codes = [code, code, ResponseCode.SUCCESS]
    stage.brokers["b:1"] = lambda _command: answer(codes.pop(0))

    stage.run(staged_plans.stage(brokers, one, QUEUE, b"x", 1, deadline(stage)))

    tries = [call for call in stage.calls if call.command.code == RequestCode.STAGE_MESSAGES]
    assert [read_header(StageMessages, call.command.ext).sequence for call in tries] == [0, 0, 0]
    assert one.chunks == {"b": 1}


@pytest.mark.parametrize("code", UNSAFE)
def test_a_chunk_that_does_not_get_safe_is_an_error_with_the_reason(
    stage: Stage, brokers: Brokers, code: ResponseCode
) -> None:
    one = opened(stage, brokers)
    stage.brokers["b:1"] = lambda _command: answer(code)

    with pytest.raises(RequestTimeout, match=code.name):
        stage.run(staged_plans.stage(brokers, one, QUEUE, b"x", 1, deadline(stage)))

    assert one.chunks == {}


@pytest.mark.parametrize("code", [ResponseCode.SERVICE_NOT_AVAILABLE, *UNSAFE])
def test_a_publish_that_is_not_safe_yet_is_asked_again(
    stage: Stage, brokers: Brokers, code: ResponseCode
) -> None:
    steps: list[int] = [code, code]

    def play(command: Command) -> Command:
        if command.code == RequestCode.PUBLISH_STAGED and steps:
            return answer(steps.pop())
        state = BatchState.OPEN if steps else BatchState.PUBLISHED
        return says(state=state, is_out=not steps)(command)

    stage.brokers["a:1"] = play

    stage.run(staged_plans.publish(brokers, [part(a=1)], 30_000))

    assert asked_in_order(stage) == [("a:1", PublishStep.PUBLISH)] * 3


@pytest.mark.parametrize("code", UNSAFE)
def test_a_publish_that_does_not_get_safe_is_an_error(
    stage: Stage, brokers: Brokers, code: ResponseCode
) -> None:
    def play(command: Command) -> Command:
        if command.code == RequestCode.PUBLISH_STAGED:
            return answer(code)
        return says(state=BatchState.OPEN)(command)

    stage.brokers["a:1"] = play

    with pytest.raises(RequestTimeout, match=code.name):
        stage.run(staged_plans.publish(brokers, [part(a=1)], 30_000))


def test_a_refused_chunk_is_not_staged_again(stage: Stage, brokers: Brokers) -> None:
    one = opened(stage, brokers)
    stage.brokers["b:1"] = refuses(ResponseCode.MESSAGE_ILLEGAL)

    with pytest.raises(MessageIllegal):
        stage.run(staged_plans.stage(brokers, one, QUEUE, b"x", 1, deadline(stage)))

    assert len(stage.calls) == 1


@pytest.mark.parametrize("state", [BatchState.DECIDED, BatchState.PUBLISHED])
def test_nothing_is_staged_for_a_batch_that_is_decided(
    stage: Stage, brokers: Brokers, state: BatchState
) -> None:
    stage.brokers["a:1"] = says(state=state, home="a")
    one = writing()

    stage.run(staged_plans.stage(brokers, one, QUEUE, b"x", 1, deadline(stage)))
    stage.run(staged_plans.stage(brokers, one, QUEUE, b"x", 1, deadline(stage)))

    assert not stage.asked(RequestCode.STAGE_MESSAGES)
    assert stage.run(staged_plans.queues_of(brokers, one, "orders", deadline(stage))) == []
    assert one.finished().chunks == {}


def test_all_parts_use_the_queues_that_were_agreed_on_first(stage: Stage, brokers: Brokers) -> None:
    layout = {"orders": {"b": 1, "a": 2}}
    stage.brokers["a:1"] = says(StagedBody(layout=layout), state=BatchState.OPEN, home="a")

    queues = stage.run(staged_plans.queues_of(brokers, writing(), "orders", deadline(stage)))

    assert queues == [MessageQueue("orders", broker, at) for broker, at in (("a", 0), ("a", 1), ("b", 0))]


def test_a_topic_has_its_namespace_on_the_wire_alone(stage: Stage) -> None:
    brokers, one = Brokers(stage.session(ClientSettings(namespace="ns"))), writing()

    queues = stage.run(staged_plans.queues_of(brokers, one, "orders", deadline(stage)))
    stage.run(staged_plans.stage(brokers, one, queues[0], b"x", 1, deadline(stage)))

    assert {queue.topic for queue in queues} == {"orders"}
    assert read_header(StageMessages, stage.calls[-1].command.ext).topic == "ns%orders"


# Publishing


def test_others_promise_before_the_home_decides_and_publish_when_it_has(
    stage: Stage, brokers: Brokers
) -> None:
    decided = StagedBody(parts=[PartChunks(part=0, attempt="0-x", chunks={"a": 1, "b": 2})])

    def home(command: Command) -> Command:
        is_decided = command.code == RequestCode.PUBLISH_STAGED
        state = BatchState.DECIDED if is_decided else BatchState.OPEN
        return answer(header=StagedAnswer(state=state, is_out=is_decided), body=encode_staged(decided))

    stage.brokers["a:1"] = home
    stage.run(staged_plans.publish(brokers, [part()], None))

    assert asked_in_order(stage) == [
        ("b:1", PublishStep.PREPARE),
        ("a:1", PublishStep.PUBLISH),
        ("b:1", PublishStep.PUBLISH),
        ("a:1", PublishStep.COMPLETE),
    ]


def test_what_is_decided_holds_whatever_the_parts_say(stage: Stage, brokers: Brokers) -> None:
    decided = StagedBody(parts=[PartChunks(part=0, attempt="other", chunks={"b": 1})])
    stage.brokers["a:1"] = says(decided, state=BatchState.DECIDED, is_out=True)

    stage.run(staged_plans.publish(brokers, [part(a=3)], None))

    assert asked_in_order(stage) == [
        ("a:1", PublishStep.PUBLISH),
        ("b:1", PublishStep.PUBLISH),
        ("a:1", PublishStep.COMPLETE),
    ]
    others = next(call for call in stage.calls if call.address == "b:1")
    assert decode_staged(others.command.body).parts == decided.parts


def test_a_published_batch_needs_nothing_more(stage: Stage, brokers: Brokers) -> None:
    stage.brokers["a:1"] = says(state=BatchState.PUBLISHED, is_out=True)

    stage.run(staged_plans.publish(brokers, [part()], None))

    assert asked_in_order(stage) == [("a:1", PublishStep.PUBLISH)]


def test_a_publish_may_take_long_as_long_as_it_goes_on(stage: Stage, brokers: Brokers) -> None:
    counts = iter(range(100))

    def slow(command: Command) -> Command:
        if command.code != RequestCode.PUBLISH_STAGED:
            return answer(header=StagedAnswer(state=BatchState.OPEN))
        stage.clock.advance(5_000)
        done = next(counts)
        return answer(header=StagedAnswer(state=BatchState.DECIDED, message_count=done, is_out=done == 40))

    stage.brokers["a:1"] = slow
    stage.run(staged_plans.publish(brokers, [part(a=1)], 10_000))

    assert len(asked_in_order(stage)) == 42


def test_a_publish_that_gets_no_further_ends_when_its_time_is_up(stage: Stage, brokers: Brokers) -> None:
    def stuck(_command: Command) -> Command:
        stage.clock.advance(5_000)
        return answer(header=StagedAnswer(state=BatchState.DECIDED, message_count=4))

    stage.brokers["a:1"] = stuck
    with pytest.raises(RequestTimeout, match="does not get further than 4 messages"):
        stage.run(staged_plans.publish(brokers, [part(a=1)], 10_000))


def test_an_abort_asks_the_home_first_and_leaves_others_alone_when_it_has_decided(
    stage: Stage, brokers: Brokers
) -> None:
    stage.run(staged_plans.abort(brokers, [part()], None))
    assert stage.asked(RequestCode.ABORT_STAGED) == ["a:1", "b:1"]

    stage.calls.clear()
    stage.brokers["a:1"] = says(state=BatchState.DECIDED)
    stage.run(staged_plans.abort(brokers, [part()], None))
    assert stage.asked(RequestCode.ABORT_STAGED) == ["a:1"]


@pytest.mark.parametrize("parts", [[], [part(1), part(2)], [part(), part(home="b")]])
def test_parts_of_one_batch_are_published_together(
    stage: Stage, brokers: Brokers, parts: list[StagedPart]
) -> None:
    with pytest.raises(ValueError, match="parts of one batch"):
        stage.run(staged_plans.publish(brokers, parts, None))


def test_a_broker_that_is_a_slave_by_now_is_looked_for_again(stage: Stage, brokers: Brokers) -> None:
    one = opened(stage, brokers)
    stage.brokers["b:1"] = refuses(ResponseCode.SERVICE_NOT_AVAILABLE, "this broker is a slave")
    stage.brokers["b:2"] = opens()
    moved = ClusterTable(
        broker_addr_table={
            "a": CLUSTER.broker_addr_table["a"],
            "b": BrokerData(cluster="c", broker_name="b", broker_addrs={0: "b:2", 1: "b:1"}),
        },
        cluster_addr_table={"c": ["a", "b"]},
    )
    stage.brokers |= dict.fromkeys(NAME_SERVERS, lambda _command: answer(body=encode_cluster(moved)))

    stage.run(staged_plans.stage(brokers, one, QUEUE, b"messages", 1, deadline(stage)))

    assert [call.address for call in stage.calls if call.command.code == RequestCode.STAGE_MESSAGES] == [
        "b:1",
        "b:2",
    ]
