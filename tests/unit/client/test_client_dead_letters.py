import pytest
from client_stage import Stage, answer, refuses, route_of

from pyromq.client.dead_letter import (
    REPLAYED_FROM,
    REPLAYS_NAMED_MAX,
    DeadLetter,
    DeadLetterFilter,
    ReplayOutcome,
    ReplayTo,
    dead_letter_of,
    replay_of,
    replayed_properties,
)
from pyromq.client.plans.dead_letter_plans import make_readable, open_reading
from pyromq.client.plans.replay_plans import Pace, ReplayRun, replay
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import ConfigError, NoPermission
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.query_headers import QueryMessage
from pyromq.wire.headers.send_headers import SendMessageAnswer, SendMessageV2
from pyromq.wire.headers.topic_headers import UpdateAndCreateTopic
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import Record, encode_host, encode_record

HOST = encode_host("127.0.0.1", 10911)
QUEUE = MessageQueue("%DLQ%shop", "a", 0)


def stored(topic: str, position: int, **properties: str) -> bytes:
    """A record as a broker shows it."""
    return encode_record(
        Record(
            queue_id=0,
            flag=5,
            queue_offset=3,
            position=position,
            sys_flag=0,
            born_at_ms=1_000,
            born_host=HOST,
            stored_at_ms=9_000_000,
            store_host=HOST,
            reconsume_times=17,
            prepared_position=0,
            body=b"hello",
            topic=topic,
            properties=names.encode(properties),
        )
    )


def place(position: int) -> str:
    return offset_message_id(HOST, position)


def letter(position: int = 700, **properties: str) -> DeadLetter:
    pairs = {"UNIQ_KEY": "U", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "FIRST"} | properties
    message = ReceivedMessage(
        topic="%DLQ%shop",
        body=b"hello",
        queue=QUEUE,
        queue_offset=3,
        position=position,
        message_id=pairs["UNIQ_KEY"],
        offset_message_id=place(position),
        properties=pairs,
        flag=5,
        sys_flag=0,
        born_at_ms=1_000,
        born_host="127.0.0.1:5",
        stored_at_ms=9_000_000,
        store_host="127.0.0.1:10911",
        reconsume_times=17,
        prepared_position=0,
        body_crc=0,
        size=200,
    )
    return dead_letter_of("shop", message, "")


# Which dead letters are meant.


@pytest.mark.parametrize(
    ("wanted", "is_wanted"),
    [
        (DeadLetterFilter(), True),
        (DeadLetterFilter(key="k2"), True),
        (DeadLetterFilter(key="k"), False),
        (DeadLetterFilter(tag="paid"), True),
        (DeadLetterFilter(tag="sent || paid"), True),
        (DeadLetterFilter(tag="sent"), False),
        (DeadLetterFilter(topic="orders"), True),
        (DeadLetterFilter(topic="%DLQ%shop"), False),
        (DeadLetterFilter(message_id="U"), True),
        (DeadLetterFilter(message_id="FIRST"), True),
        (DeadLetterFilter(message_id=place(700)), True),
        (DeadLetterFilter(message_id="other"), False),
        (DeadLetterFilter(key="k1", tag="sent"), False),
    ],
)
def test_all_that_is_given_must_be_true_of_a_dead_letter(wanted: DeadLetterFilter, is_wanted: bool) -> None:
    assert wanted.wants(letter(KEYS="k1 k2", TAGS="paid")) is is_wanted


def test_a_limit_of_none_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="limit"):
        DeadLetterFilter(limit=0)


# What a dead letter becomes.


def test_what_the_application_and_the_first_sending_said_is_kept() -> None:
    pairs = replayed_properties(letter(KEYS="k1", TAGS="paid", city="Oslo"), ReplayTo.GROUP)

    assert pairs == {
        "UNIQ_KEY": "U",
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": "FIRST",
        "KEYS": "k1",
        "TAGS": "paid",
        "city": "Oslo",
        "WAIT": "true",
        REPLAYED_FROM: place(700),
    }


@pytest.mark.parametrize(
    "name", ["DELAY", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "TIMER_DELIVER_MS", "TIMER_OUT_MS", "POP_CK"]
)
def test_what_would_divert_it_again_is_left_behind(name: str) -> None:
    assert name not in replayed_properties(letter(700, **{name: "1"}), ReplayTo.GROUP)


def test_a_message_for_everybody_is_no_retry() -> None:
    pairs = replayed_properties(letter(), ReplayTo.TOPIC)

    assert "RETRY_TOPIC" not in pairs
    assert pairs["ORIGIN_MESSAGE_ID"] == "FIRST"


def test_the_first_topic_may_stand_under_the_name_of_5_x_alone() -> None:
    dead = letter(DLQ_ORIGIN_TOPIC="payments")
    del dead.message.properties["RETRY_TOPIC"]
    dead = dead_letter_of("shop", dead.message, "")

    assert dead.topic == "payments"
    assert replayed_properties(dead, ReplayTo.GROUP)["RETRY_TOPIC"] == "payments"


def test_a_message_without_an_id_gets_its_place_for_one() -> None:
    dead = letter()
    del dead.message.properties["UNIQ_KEY"]

    assert replayed_properties(dead, ReplayTo.GROUP)["UNIQ_KEY"] == place(700)


def test_a_message_that_died_again_names_all_its_dead_letters() -> None:
    pairs = replayed_properties(letter(REPLAYED_FROM="ONE TWO"), ReplayTo.GROUP)

    assert pairs[REPLAYED_FROM] == f"ONE TWO {place(700)}"


def test_the_names_of_dead_letters_do_not_grow_for_ever() -> None:
    many = " ".join(f"D{number}" for number in range(100))

    named = replayed_properties(letter(REPLAYED_FROM=many), ReplayTo.GROUP)[REPLAYED_FROM].split()

    assert len(named) == REPLAYS_NAMED_MAX
    assert named[-2:] == ["D99", place(700)]


def test_a_copy_is_the_replay_of_every_dead_letter_that_it_names() -> None:
    copies = [letter(800).message, letter(900, REPLAYED_FROM=f"{place(600)} {place(700)}").message]

    assert replay_of(letter(600), copies) is copies[1]
    assert replay_of(letter(700), copies) is copies[1]
    assert replay_of(letter(800), copies) is None


# How fast.


def test_sends_keep_their_distance_and_what_was_not_used_does_not_add_up() -> None:
    stage = Stage(clock=ManualClock())
    pace = Pace(10, stage.clock)

    for _ in range(3):
        stage.run(pace.take_turn())
    stage.clock.advance(60_000)
    stage.run(pace.take_turn())
    stage.run(pace.take_turn())

    assert stage.pauses == [pytest.approx(0.1), pytest.approx(0.1), pytest.approx(0.1)]


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="rate"):
        Pace(0, ManualClock())


# Reading.


@pytest.mark.row("RT-12")
def test_dead_letters_that_may_not_be_read_say_what_to_do() -> None:
    stage = Stage(routes={"%DLQ%shop": route_of("a", queues=1, perm=2)})

    with pytest.raises(NoPermission, match=r"on a: .*--make-readable.*updateTopicPerm") as caught:
        stage.run(open_reading(stage.session(), "shop", DeadLetterFilter()))

    assert caught.value.code == ResponseCode.NO_PERMISSION


@pytest.mark.row("RT-12")
def test_they_are_made_readable_where_they_are_not_and_nowhere_else() -> None:
    route = route_of("a", "b", queues=1, perm=6)
    closed = route_of("a", queues=1, perm=2).queue_datas
    route.queue_datas[:1] = closed
    stage = Stage(routes={"%DLQ%shop": route})

    def allow(command: Command) -> Command:
        header = read_header(UpdateAndCreateTopic, command.ext)
        assert (header.topic, header.perm, header.read_queue_nums) == ("%DLQ%shop", 6, 1)
        return answer()

    def tell(_seconds: float) -> None:
        stage.routes["%DLQ%shop"] = route_of("a", "b", queues=1, perm=6)

    stage.brokers, stage.on_pause = {"a:1": allow}, tell
    stage.run(make_readable(stage.session(), "shop"))

    assert stage.asked(RequestCode.UPDATE_AND_CREATE_TOPIC) == ["a:1"]
    assert len(stage.pauses) == 1


def test_a_group_without_a_topic_of_dead_letters_has_none() -> None:
    stage = Stage()

    assert stage.run(open_reading(stage.session(), "shop", DeadLetterFilter())).stretches == []


# Replaying.


class BrokerOfLetters:
    """A broker with one dead letter. `copies` are what it finds by key, by topic."""

    def __init__(self, *, stores_in: str = "%RETRY%shop") -> None:
        self.copies = {"%DLQ%shop": stored("%DLQ%shop", 700, UNIQ_KEY="U")}
        self.sent: list[tuple[SendMessageV2, bytes]] = []
        self.send_refusal: Command | None = None
        self._stores_in = stores_in

    def __call__(self, command: Command) -> Command:
        if command.code == RequestCode.QUERY_MESSAGE:
            found = self.copies.get(read_header(QueryMessage, command.ext).topic)
            return answer(ResponseCode.QUERY_NOT_FOUND) if found is None else answer(body=found)
        if command.code == RequestCode.VIEW_MESSAGE_BY_ID:
            return answer(body=stored(self._stores_in, 900))
        assert command.code == RequestCode.SEND_MESSAGE_V2
        if self.send_refusal is not None:
            return self.send_refusal
        header = read_header(SendMessageV2, command.ext)
        self.sent.append((header, command.body))
        return answer(header=SendMessageAnswer(msg_id=place(900), queue_id=header.queue_id, queue_offset=8))


def stage_of(broker: BrokerOfLetters) -> Stage:
    return Stage(
        routes={
            "%DLQ%shop": route_of("a", queues=1),
            "%RETRY%shop": route_of("a", queues=1),
            "orders": route_of("b"),
        },
        brokers={"a:1": broker},
    )


def run_of(stage: Stage, to: ReplayTo = ReplayTo.GROUP, **more: bool) -> ReplayRun:
    return ReplayRun(to=to, pace=Pace(None, stage.clock), **more)


def test_a_replayed_message_is_untried_and_cannot_be_taken_for_given_up() -> None:
    broker = BrokerOfLetters()
    stage = stage_of(broker)

    result = stage.run(replay(stage.session(), letter(), run_of(stage)))

    ((header, body),) = broker.sent
    assert (header.topic, header.queue_id, body) == ("%RETRY%shop", 0, b"hello")
    assert (header.reconsume_times, header.max_reconsume_times) == (0, 16)
    assert (header.born_timestamp, header.flag) == (1_000, 5)
    assert result.outcome is ReplayOutcome.REPLAYED
    assert (result.queue, result.queue_offset) == (MessageQueue("%RETRY%shop", "a", 0), 8)
    assert result.offset_message_id == place(900)


@pytest.mark.parametrize("topic", ["%RETRY%shop", "orders", "%DLQ%shop"])
def test_a_dead_letter_with_a_replayed_copy_anywhere_is_skipped(topic: str) -> None:
    broker = BrokerOfLetters()
    broker.copies[topic] = stored(topic, 800, UNIQ_KEY="U", REPLAYED_FROM=place(700))
    stage = stage_of(broker)

    result = stage.run(replay(stage.session(), letter(), run_of(stage)))

    assert broker.sent == []
    assert result.outcome is ReplayOutcome.SKIPPED
    assert result.offset_message_id == place(800)


def test_one_that_was_replayed_is_replayed_again_when_that_is_asked_for() -> None:
    broker = BrokerOfLetters()
    broker.copies["%RETRY%shop"] = stored("%RETRY%shop", 800, UNIQ_KEY="U", REPLAYED_FROM=place(700))
    stage = stage_of(broker)

    result = stage.run(replay(stage.session(), letter(), run_of(stage, is_repeated=True)))

    assert result.outcome is ReplayOutcome.REPLAYED


def test_the_retries_before_the_death_are_no_replays() -> None:
    broker = BrokerOfLetters()
    broker.copies["%RETRY%shop"] = stored("%RETRY%shop", 600, UNIQ_KEY="U")
    stage = stage_of(broker)

    assert stage.run(replay(stage.session(), letter(), run_of(stage))).outcome is ReplayOutcome.REPLAYED


def test_without_an_index_of_keys_nothing_is_replayed() -> None:
    broker = BrokerOfLetters()
    broker.copies.clear()
    stage = stage_of(broker)

    result = stage.run(replay(stage.session(), letter(), run_of(stage)))

    assert broker.sent == []
    assert result.outcome is ReplayOutcome.FAILED
    assert "messageIndexEnable" in str(result.error)


def test_an_index_that_comes_a_moment_later_is_waited_for() -> None:
    broker = BrokerOfLetters()
    later = broker.copies.pop("%DLQ%shop")
    stage = stage_of(broker)
    stage.on_pause = lambda _seconds: broker.copies.update({"%DLQ%shop": later})

    assert stage.run(replay(stage.session(), letter(), run_of(stage))).outcome is ReplayOutcome.REPLAYED


def test_a_message_that_the_broker_buries_again_at_once_has_failed() -> None:
    broker = BrokerOfLetters(stores_in="%DLQ%shop")
    stage = stage_of(broker)

    result = stage.run(replay(stage.session(), letter(), run_of(stage)))

    assert result.outcome is ReplayOutcome.FAILED
    assert "stored it in %DLQ%shop instead of %RETRY%shop" in str(result.error)


def test_a_refusal_is_the_result_of_its_message() -> None:
    broker = BrokerOfLetters()
    broker.send_refusal = refuses(ResponseCode.NO_PERMISSION, "not now")(Command(0))
    stage = stage_of(broker)

    result = stage.run(replay(stage.session(), letter(), run_of(stage)))

    assert result.outcome is ReplayOutcome.FAILED
    assert "not now" in str(result.error)


def test_a_broker_that_is_gone_is_the_result_of_its_message() -> None:
    stage = stage_of(BrokerOfLetters())
    stage.down.add("a:1")

    result = stage.run(replay(stage.session(), letter(), run_of(stage)))

    assert result.outcome is ReplayOutcome.FAILED
    assert "a:1" in str(result.error)


def test_a_first_topic_that_the_broker_does_not_have_is_named() -> None:
    broker = BrokerOfLetters()
    stage = stage_of(broker)

    result = stage.run(replay(stage.session(), letter(), run_of(stage, ReplayTo.TOPIC)))

    assert broker.sent == []
    assert "'orders' has no queue on broker a" in str(result.error)


def test_a_rehearsal_stores_nothing() -> None:
    broker = BrokerOfLetters()
    stage = stage_of(broker)

    result = stage.run(replay(stage.session(), letter(), run_of(stage, is_rehearsal=True)))

    assert broker.sent == []
    assert (result.outcome, result.destination) == (ReplayOutcome.WOULD_REPLAY, "%RETRY%shop")


def test_properties_that_grew_too_long_are_the_result_of_their_message() -> None:
    stage = stage_of(BrokerOfLetters())

    result = stage.run(replay(stage.session(), letter(long="x" * 32_700), run_of(stage)))

    assert "are the limit" in str(result.error)
