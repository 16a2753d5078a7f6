import pytest
from client_stage import Stage, two_brokers

from pyromq.client.plans import send_plans
from pyromq.client.plans.send_plans import SendTarget
from pyromq.client.producer.outgoing import prepare_batch, prepare_batches
from pyromq.codes import RequestCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import MessageIllegal, SendFailed
from pyromq.model import Message
from pyromq.wire.batch import decode_batch

SMALL = ClientSettings(max_message_size=1_000)


def readings(count: int, size: int = 100, **how) -> list[Message]:
    return [Message("readings", bytes([65 + number]) * size, **how) for number in range(count)]


def ids(messages: list[Message]) -> list[str]:
    return [f"ID{number}" for number in range(len(messages))]


def bodies(outgoing) -> list[list[bytes]]:
    return [[unit.body for unit in decode_batch(part.body)] for part in outgoing]


@pytest.mark.row("BA-06")
def test_messages_that_fit_one_batch_are_one_batch() -> None:
    messages = readings(5)

    (part,) = prepare_batches(messages, ids(messages), SMALL)

    assert part == prepare_batch(messages, ids(messages), SMALL)


@pytest.mark.row("BA-05", "BA-06")
def test_more_than_the_limit_is_split_in_order_and_every_part_fits() -> None:
    messages = readings(20)

    parts = prepare_batches(messages, ids(messages), SMALL)

    assert [body for part in bodies(parts) for body in part] == [message.body for message in messages]
    assert len(parts) > 1
    assert all(len(part.body) <= 1_000 for part in parts)
    assert ",".join(part.message_id for part in parts) == ",".join(ids(messages))


@pytest.mark.row("BA-05")
@pytest.mark.parametrize(("room", "batches"), [(-1, 2), (0, 1)])
def test_a_message_counts_its_topic_body_properties_and_twenty_bytes(room: int, batches: int) -> None:
    messages = readings(2, tags="cellar")
    properties = len("TAGS\x01cellar\x02UNIQ_KEY\x01ID0\x02WAIT\x01true")
    each = len("readings") + 100 + properties + 20

    parts = prepare_batches(messages, ids(messages), ClientSettings(max_message_size=2 * each + room))

    assert len(parts) == batches


@pytest.mark.row("BA-05")
def test_a_short_topic_counts_as_much_as_the_unit_s_head() -> None:
    messages = [Message("t", b"x" * 100) for _ in range(2)]
    unit = len(prepare_batch(messages[:1], ["ID0"], ClientSettings()).body)

    assert len(prepare_batches(messages, ids(messages), ClientSettings(max_message_size=2 * unit))) == 1
    assert len(prepare_batches(messages, ids(messages), ClientSettings(max_message_size=2 * unit - 1))) == 2


@pytest.mark.row("BA-06")
def test_a_message_that_fits_no_batch_is_refused_before_any_is_sent() -> None:
    messages = [*readings(2), Message("readings", b"x" * 990)]

    with pytest.raises(MessageIllegal, match="message ID2 counts"):
        prepare_batches(messages, ids(messages), SMALL)


@pytest.mark.row("BA-04", "BA-06")
def test_one_batch_over_the_limit_is_refused_and_says_how_to_split_it() -> None:
    messages = readings(20)

    with pytest.raises(MessageIllegal, match="send_batches"):
        prepare_batch(messages, ids(messages), SMALL)


@pytest.mark.row("BA-03")
def test_the_rules_of_a_batch_hold_for_all_messages_of_all_parts() -> None:
    messages = [*readings(10), Message("other", b"x")]

    with pytest.raises(MessageIllegal, match="one topic"):
        prepare_batches(messages, ids(messages), SMALL)


@pytest.fixture
def stage() -> Stage:
    stage = two_brokers()
    stage.routes["readings"] = stage.routes["orders"]
    return stage


@pytest.mark.row("BA-06", "BA-07")
def test_parts_are_sent_one_behind_the_other(stage: Stage) -> None:
    messages = readings(20)
    parts = prepare_batches(messages, ids(messages), SMALL)

    results = stage.run(send_plans.send_parts(stage.session(SMALL), parts, SendTarget(), None))

    assert len(stage.asked(RequestCode.SEND_BATCH_MESSAGE)) == len(parts) == len(results)
    assert [result.message_id for result in results] == [part.message_id for part in parts]


def test_a_part_that_fails_says_how_many_messages_are_stored(stage: Stage) -> None:
    messages = readings(20)
    parts = prepare_batches(messages, ids(messages), SMALL)
    first = len(bodies(parts)[0])

    plan = send_plans.send_parts(stage.session(SMALL), parts, SendTarget(), None)
    stored = stage.brokers["a:1"]

    def one_and_no_more(command):
        stage.down.update({"a:1", "b:1"})
        return stored(command)

    stage.brokers.update({"a:1": one_and_no_more, "b:1": one_and_no_more})
    with pytest.raises(SendFailed) as failure:
        stage.run(plan)

    assert failure.value.__notes__ == [f"the first {first} messages are stored, in 1 of {len(parts)} batches"]
