"""Commands of remoting to members of groups, as Telemetry brings them to gRPC clients; and the answers."""

from typing import Final

from pyromq.codes import CommandFlag, ResponseCode
from pyromq.errors import CorruptRecord
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart
from pyromq.wire.bodies.running_info import (
    DirectConsumption,
    DirectResult,
    RunningState,
    encode_direct_consumption,
    encode_running_state,
)
from pyromq.wire.command import Command
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.grpc.shown_messages import shown_message, shown_topic
from pyromq.wire.grpc.transaction_ids import HalfPlace
from pyromq.wire.header import read_header
from pyromq.wire.headers.transaction_headers import CheckTransactionState
from pyromq.wire.record import decode_record

#: RocketMQ's proxy says so to operators.
_REMARK: Final = "from gRPC client"
_RESULTS: Final[dict[int, DirectResult]] = {
    GrpcCode.OK: DirectResult.SUCCESS,
    GrpcCode.FAILED_TO_CONSUME_MESSAGE: DirectResult.LATER,
    GrpcCode.MESSAGE_CORRUPTED: DirectResult.RETURN_NULL,
}


def orphan_command(command: Command, body_bytes_max: int) -> pb.TelemetryCommand | None:
    """Return the question about a half message: CHECK_TRANSACTION_STATE, whose body is the message.

    The id is where the half is now, so that whoever answers can be any producer of the topic.
    """
    header = read_header(CheckTransactionState, command.ext)
    told = pb.TelemetryCommand()
    recover = told.recover_orphaned_transaction_command
    message = _shown(command.body, body_bytes_max)
    if message is None:
        return None
    recover.message.CopyFrom(message)
    place = HalfPlace(header.tran_state_table_offset, header.commit_log_offset)
    recover.transaction_id = place.encode()
    return told


def print_stack_command(nonce: str) -> pb.TelemetryCommand:
    """Return the question what a client's threads do."""
    told = pb.TelemetryCommand()
    told.print_thread_stack_trace_command.nonce = nonce
    return told


def verify_command(nonce: str, command: Command, body_bytes_max: int) -> pb.TelemetryCommand:
    """Return the order to consume one message: CONSUME_MESSAGE_DIRECTLY, whose body is the message."""
    told = pb.TelemetryCommand()
    told.verify_message_command.nonce = nonce
    message = _shown(command.body, body_bytes_max)
    if message is not None:
        told.verify_message_command.message.CopyFrom(message)
    return told


def stack_answer(answered: pb.TelemetryCommand, part: ConsumerPart | None) -> Command:
    """Return a client's answer about its threads as one of remoting."""
    state = RunningState(
        properties={},
        subscriptions=[] if part is None else list(part.subscriptions),
        queues={},
        topics={},
        stacks=answered.thread_stack_trace.thread_stack_trace,
    )
    return Command(ResponseCode.SUCCESS, flag=CommandFlag.RESPONSE, body=encode_running_state(state))


def verify_answer(answered: pb.TelemetryCommand) -> Command:
    """Return what became of a message that a client was told to consume, as an answer of remoting."""
    # Node's SDK puts its answer into another field; its status counts all the same.
    result = _RESULTS.get(answered.status.code)
    if result is None:
        return Command(
            ResponseCode.SYSTEM_ERROR,
            flag=CommandFlag.RESPONSE,
            remark=f"{_REMARK}: {answered.status.code} {answered.status.message}",
        )
    consumed = DirectConsumption(consume_result=result, remark=_REMARK)
    return Command(ResponseCode.SUCCESS, flag=CommandFlag.RESPONSE, body=encode_direct_consumption(consumed))


def _shown(record: bytes, body_bytes_max: int) -> pb.Message | None:
    try:
        topic = decode_record(record, check_crc=False).topic
        return pb.Message.FromString(shown_message(record, shown_topic(topic), body_bytes_max=body_bytes_max))
    except CorruptRecord:
        return None
