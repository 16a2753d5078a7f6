"""Heartbeat and NotifyClientTermination: a client is there, and a client goes."""

from typing import Any

from pyromq.broker.groups.group_room import Groups
from pyromq.broker.grpc.grpc_callers import GrpcCaller
from pyromq.broker.grpc.grpc_members import GrpcMembers
from pyromq.broker.grpc.grpc_needs import need_of_group, need_of_heartbeat
from pyromq.broker.grpc.grpc_table import OK_STATUS, Rpc
from pyromq.wire.bodies.heartbeat_bodies import ConsumeType
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.grpc_names import check_grpc_group
from pyromq.wire.grpc.proto_numbers import ClientType

_CONSUMERS = {
    ClientType.PUSH_CONSUMER: ConsumeType.CONSUME_PASSIVELY,
    ClientType.SIMPLE_CONSUMER: ConsumeType.CONSUME_ACTIVELY,
}


class PresenceRpcs:
    """Answers Heartbeat and NotifyClientTermination."""

    def __init__(self, members: GrpcMembers, groups: Groups) -> None:
        self._members = members
        self._groups = groups

    def rpcs(self) -> list[Rpc[Any, Any]]:
        """Return what is answered here."""
        return [
            Rpc("Heartbeat", pb.HeartbeatRequest, pb.HeartbeatResponse, need_of_heartbeat, self.heartbeat),
            Rpc(
                "NotifyClientTermination",
                pb.NotifyClientTerminationRequest,
                pb.NotifyClientTerminationResponse,
                need_of_group,
                self.farewell,
            ),
        ]

    def heartbeat(self, caller: GrpcCaller, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        """Note that a client is alive, also one whose settings this process never heard."""
        known = self._members.get(caller.client_id)
        kind = request.client_type
        if known is not None and known.settings is not None:
            # RocketMQ goes by the settings, whatever type a heartbeat names.
            kind = known.settings.client_type or (
                ClientType.PRODUCER if known.part is None else ClientType.PUSH_CONSUMER
            )
        if kind == ClientType.PRODUCER:
            self._members.refresh(self._members.seen(caller))
        elif kind in _CONSUMERS:
            check_grpc_group(request.group.name)
            self._consume(caller, request.group.name, _CONSUMERS[ClientType(kind)])
        else:
            raise GrpcRefused(
                GrpcCode.UNRECOGNIZED_CLIENT_TYPE,
                f"client type {kind} is not served; there are producers, push and simple consumers",
            )
        return pb.HeartbeatResponse(status=OK_STATUS)

    def farewell(
        self, caller: GrpcCaller, request: pb.NotifyClientTerminationRequest
    ) -> pb.NotifyClientTerminationResponse:
        """Forget a client at once, also a consumer that names no group, which is told so."""
        member = self._members.get(caller.client_id)
        if member is not None:
            is_consumer = member.part is not None
            self._members.forget(member)
            if is_consumer:
                check_grpc_group(request.group.name)
        return pb.NotifyClientTerminationResponse(status=OK_STATUS)

    def _consume(self, caller: GrpcCaller, group: str, consume_type: ConsumeType) -> None:
        if self._groups.table.find(group) is None:
            raise GrpcRefused(
                GrpcCode.CONSUMER_GROUP_NOT_FOUND,
                f"consumer group {group} does not exist; create it, or set autoCreateSubscriptionGroup",
            )
        member = self._members.seen(caller)
        if member.part is not None and member.part.group_name == group:
            self._members.refresh(member)
            return
        self._members.consume_unheard(member, group, consume_type)
