"""The RPCs that consume, each with what its account needs, and who answers it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyromq.broker.grpc.consuming.consume_acks import AckHandlers
from pyromq.broker.grpc.consuming.consume_checks import ConsumeChecks
from pyromq.broker.grpc.consuming.consume_queues import QueueReadHandlers
from pyromq.broker.grpc.consuming.consume_receive import ReceiveHandlers
from pyromq.broker.grpc.consuming.consume_times import ReceiveWaits
from pyromq.broker.grpc.consuming.receive_words import ReceiveReading, need_to_receive
from pyromq.broker.grpc.grpc_access import GrpcAccess
from pyromq.broker.grpc.grpc_members import GrpcMembers
from pyromq.broker.grpc.grpc_needs import need_of_group, need_to_consume, need_to_look, need_to_read
from pyromq.broker.grpc.grpc_rooms import GrpcRooms
from pyromq.broker.grpc.grpc_table import GrpcTable, Rpc, StreamedRpc
from pyromq.kernel import IS_COMPILED
from pyromq.net.http2.grpc_calls import GrpcMethod
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.receive_answers import received_status

if TYPE_CHECKING:
    from pyromq.broker.grpc.consuming.plain_acks import PlainAcks

Rpcs = Sequence[Rpc[Any, Any] | StreamedRpc[Any]]


def add_consume_rpcs(
    table: GrpcTable, rooms: GrpcRooms, members: GrpcMembers, access: GrpcAccess
) -> "PlainAcks | None":
    """Answer the RPCs of consumers, and have POP told of the clients that come and go.

    Returns what offers acknowledgements and changes to the kernel, where it takes them.
    """
    settings, clock = rooms.settings, rooms.clock
    rooms.pop.is_there = lambda client_id, _group: members.is_alive(client_id)
    members.on_left = rooms.pop.client_left
    checks = ConsumeChecks(rooms.topics, rooms.groups.table, settings.broker, rooms.live)
    waits = ReceiveWaits(settings.grpc, clock, members)
    name, body_bytes_max = settings.broker.broker_name, settings.store.max_message_size
    receive = ReceiveHandlers(
        rooms.pop,
        checks,
        rooms.filters,
        waits,
        settings=settings.grpc,
        clock=clock,
        broker_name=name,
        body_bytes_max=body_bytes_max,
    )
    receive.on_read = rooms.on_read
    acks = AckHandlers(rooms.pop, checks, settings.grpc, broker_name=name)
    reads = QueueReadHandlers(
        checks,
        waits,
        settings=settings,
        clock=clock,
        store=rooms.store,
        groups=rooms.groups,
        arrivals=rooms.arrivals,
        filters=rooms.filters,
    )
    table.add((*_pop_rpcs(receive, acks), *_queue_rpcs(reads)))
    if not IS_COMPILED:
        return None
    # Only now: without a compiler there is nothing to import.
    from pyromq.broker.grpc.consuming.plain_acks import ACK, CHANGE, PlainAcks

    plain = PlainAcks(rooms, acks, table, access)
    table.methods[table.path(ACK)] = GrpcMethod(unary=plain.ack)
    table.methods[table.path(CHANGE)] = GrpcMethod(unary=plain.change)
    return plain


def _pop_rpcs(receive: ReceiveHandlers, acks: AckHandlers) -> Rpcs:
    """Return the RPCs of messages that are popped."""
    return (
        StreamedRpc(
            "ReceiveMessage",
            pb.ReceiveMessageRequest,
            need_to_receive,
            receive.receive,
            refusal=received_status,
            end=receive.end,
            read=ReceiveReading().read,
        ),
        Rpc("AckMessage", pb.AckMessageRequest, pb.AckMessageResponse, need_to_consume, acks.ack),
        Rpc(
            "ChangeInvisibleDuration",
            pb.ChangeInvisibleDurationRequest,
            pb.ChangeInvisibleDurationResponse,
            need_of_group,
            acks.change,
        ),
        Rpc(
            "ForwardMessageToDeadLetterQueue",
            pb.ForwardMessageToDeadLetterQueueRequest,
            pb.ForwardMessageToDeadLetterQueueResponse,
            need_to_consume,
            acks.forward,
        ),
    )


def _queue_rpcs(reads: QueueReadHandlers) -> Rpcs:
    """Return the RPCs that name a queue and an offset."""
    return (
        StreamedRpc("PullMessage", pb.PullMessageRequest, need_to_read, reads.pull, refusal=received_status),
        Rpc(
            "UpdateOffset", pb.UpdateOffsetRequest, pb.UpdateOffsetResponse, need_to_read, reads.update_offset
        ),
        Rpc("GetOffset", pb.GetOffsetRequest, pb.GetOffsetResponse, need_to_read, reads.get_offset),
        Rpc("QueryOffset", pb.QueryOffsetRequest, pb.QueryOffsetResponse, need_to_look, reads.query_offset),
    )
