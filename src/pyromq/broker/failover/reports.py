"""Requests about the group itself: who its replicas are, and that another one be master."""

from math import inf
from typing import Any, Protocol

from pyromq.broker.failover.group import GroupView
from pyromq.broker.replication.followers import Followers
from pyromq.config.settings import BrokerSettings
from pyromq.net.routes import Answer, Request
from pyromq.wire.bodies.replica_bodies import ReplicaList, ReplicaState, encode_replicas
from pyromq.wire.headers.replica_headers import SwitchMaster, SwitchMasterAnswer


class ReportingReplica(Protocol):
    """The replica that is asked."""

    @property
    def address(self) -> str:
        """The address that it is known by."""
        ...

    @property
    def max_position(self) -> int:
        """The end of its log."""
        ...

    @property
    def view(self) -> GroupView | None:
        """The group as it saw it last."""
        ...

    @property
    def followers(self) -> Followers | None:
        """The slaves that follow it, None for a slave."""
        ...

    async def switch_to(self, name: str) -> str:
        """Hand over, and return to whom."""
        ...


class ReplicaHandlers:
    """Answers SWITCH_MASTER and LIST_REPLICAS."""

    def __init__(self, member: ReportingReplica, settings: BrokerSettings) -> None:
        self._member = member
        self._settings = settings

    async def switch(self, request: Request[SwitchMaster]) -> Answer:
        """Hand over to another replica; answered when etcd has it."""
        successor = await self._member.switch_to(request.header.new_master or "")
        return Answer(header=SwitchMasterAnswer(new_master=successor))

    def list_replicas(self, _request: Request[Any]) -> Answer:
        """Say who is in the group, and how far each is."""
        return Answer(body=encode_replicas(describe(self._member, self._settings)))


def describe(member: ReportingReplica, settings: BrokerSettings) -> ReplicaList:
    """Return what a replica knows of its group."""
    view, followers = member.view, member.followers
    listed = ReplicaList(
        broker_name=settings.broker_name,
        cluster=settings.broker_cluster_name,
        answered_by=member.address,
        is_known=view is not None,
        max_position=member.max_position,
    )
    if view is None:
        return listed
    listed.epoch = view.group.epoch
    listed.master = view.leader.address if view.leader is not None else None
    seen = {one.id: one for one in followers.members} if followers is not None else {}
    for address, id_ in view.group.ids.items():
        state = ReplicaState(
            address=address,
            broker_id=id_,
            is_master=address == listed.master,
            is_in_sync=address in view.group.in_sync,
            is_present=address in view.replicas,
        )
        if followers is not None and address != member.address:
            follower = seen.get(id_)
            state.is_connected = follower is not None and follower.is_connected
            if follower is not None:
                state.acked_position = follower.acked
                behind_s = followers.behind_s(follower)
                # One that never had everything is behind since nobody knows when.
                state.behind_ms = None if behind_s == inf else round(behind_s * 1000)
        listed.replicas.append(state)
    if followers is not None:
        listed.confirmed_position = followers.confirmed
    return listed
