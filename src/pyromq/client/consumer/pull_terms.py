"""The arguments of a pull consumer become its terms: checked, and with RocketMQ's defaults."""

from dataclasses import dataclass

from pyromq.client.client_session import Session, new_local_offsets, new_session
from pyromq.client.consumer.allocation import Allocate
from pyromq.client.consumer.broadcast_offsets import LocalOffsets
from pyromq.client.consumer.consumer_arguments import member_of
from pyromq.client.consumer.group_member import ConsumeModel, MemberTerms
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import check_group
from pyromq.client.plans.progress_plans import GroupStart
from pyromq.config.settings import ClientSettings
from pyromq.model import ConsumeFrom
from pyromq.wire.bodies.heartbeat_bodies import ConsumeType


@dataclass(frozen=True, slots=True)
class PullTerms:
    """The terms of one pull consumer; all its sessions have one file of offsets, if it is broadcasting."""

    group: str
    addresses: tuple[str, ...]
    settings: ClientSettings
    member: MemberTerms
    local: LocalOffsets | None

    @property
    def name(self) -> str:
        """The consumer's name in errors, and that of its threads and tasks."""
        return f"consumer {self.group}"

    def new_session(self) -> Session:
        """Return a session of the consumer."""
        return new_session(self.group, self.addresses, self.settings, local=self.local)


def pull_terms(
    group: str,
    name_server: str | None,
    settings: ClientSettings | None,
    *,
    start_from: ConsumeFrom,
    start_at_ms: int,
    allocate: Allocate,
    auto_commit: bool,
    model: str,
) -> PullTerms:
    """Return the terms; raise ConfigError for arguments that no consumer can start with."""
    check_group(group)
    chosen = settings or ClientSettings()
    member = MemberTerms(
        model=member_of(ConsumeModel, "model", model),
        allocate=allocate,
        start=GroupStart(start_from, start_at_ms),
        consume_type=ConsumeType.CONSUME_ACTIVELY,
        auto_commit=auto_commit,
    )
    local = new_local_offsets(group, chosen) if member.model is ConsumeModel.BROADCASTING else None
    return PullTerms(group, name_server_addresses(name_server, chosen), chosen, member, local)
