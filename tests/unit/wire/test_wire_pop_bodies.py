"""Bodies of POP over remoting."""

import pytest

from pyromq.errors import BodyError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.pop_bodies import (
    AssignmentQuestion,
    BatchAckPart,
    QueueAssignment,
    decode_assignment_question,
    decode_assignments,
    decode_batch_ack,
    encode_assignment_question,
    encode_assignments,
    encode_batch_ack,
    pack_bits,
)

PART = BatchAckPart(
    group="g",
    topic="t",
    mark="1",
    start_offset=7,
    queue_id=1,
    revive_queue_id=3,
    popped_at_ms=1_700_000_000_000,
    invisible_ms=60_000,
    packed_bits=pack_bits(0b1011),
)


def test_a_batch_of_acknowledgements_is_written_with_java_s_short_names() -> None:
    assert encode_batch_ack("a", [PART]) == (
        b'{"acks":[{"b":"Cw==","c":"g","it":60000,"pt":1700000000000,"q":1,"r":"1","rq":3,"so":7,"t":"t"}],'
        b'"brokerName":"a"}'
    )


def test_a_batch_of_acknowledgements_is_read_back() -> None:
    batch = decode_batch_ack(encode_batch_ack("a", [PART, PART]))
    assert (batch.broker_name, batch.acks) == ("a", [PART, PART])
    assert batch.acks[0].bits == 0b1011


def test_full_names_are_read_like_short_ones() -> None:
    body = (
        b'{"acks":[{"consumerGroup":"g","topic":"t","retry":"1","startOffset":7,"queueId":1,'
        b'"reviveQueueId":3,"popTime":1700000000000,"invisibleTime":60000,"bitSet":"Cw=="}]}'
    )
    assert decode_batch_ack(body).acks == [PART]


@pytest.mark.parametrize("body", [b"[]", b'{"acks":7}', b'{"acks":["a"]}', b'{"acks":[{"c":"g"}]}', b"{"])
def test_a_body_that_is_no_batch_is_refused(body: bytes) -> None:
    with pytest.raises(BodyError):
        decode_batch_ack(body)


@pytest.mark.parametrize("bits", ["*", "Cw=", "A" * 100_000])
def test_a_bit_set_that_is_none_or_reaches_too_far_is_refused(bits: str) -> None:
    part = BatchAckPart(
        group="g",
        topic="t",
        start_offset=0,
        queue_id=0,
        revive_queue_id=0,
        popped_at_ms=0,
        invisible_ms=0,
        packed_bits=bits,
    )
    with pytest.raises(BodyError, match="b: "):
        _ = part.bits


def test_a_question_for_assignments_is_read_back() -> None:
    question = AssignmentQuestion(topic="t", consumer_group="g", client_id="me")
    assert decode_assignment_question(encode_assignment_question(question)) == question


def test_assignments_are_read_back() -> None:
    wanted = [QueueAssignment(queue=MessageQueue("t", "a", -1), mode="POP")]
    assert decode_assignments(encode_assignments(wanted)) == wanted


@pytest.mark.parametrize("body", [b"{}", b'{"messageQueueAssignments":null}'])
def test_no_list_of_assignments_means_that_a_member_keeps_what_it_has(body: bytes) -> None:
    assert decode_assignments(body) is None


def test_assignments_that_are_none_are_refused() -> None:
    with pytest.raises(BodyError):
        decode_assignments(b'{"messageQueueAssignments":[7]}')
