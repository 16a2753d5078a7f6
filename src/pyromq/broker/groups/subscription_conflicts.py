"""Members of one group that subscribe differently: noticed, told, and refused where the settings want it.

The broker keeps one table of subscriptions for a group, that of the last heartbeat, as RocketMQ does. Where
members differ each of them pulls by what another one wants, and messages that pass it unread are lost to the
group without a word. So a difference is told: in the log, to the members, to operators, as a metric.

    heartbeat ─► note ─► the group's roll ─┬► one side        nothing to say
                                           └► more than one   told once it has lasted for the grace, and
                                                              again whenever it is another one

A deployment that goes from member to member makes a difference that passes: hence the grace
(`subscriptionConflictGrace`). With `rejectInconsistentSubscription` there is none: members that differ from
the side that holds are not in the group, so that the others read their queues. They stand on the roll all the
same: when they become the most, the sides change places at once.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pyromq.broker.groups.clients import ClientChannel, MemberLink
from pyromq.clock import Clock
from pyromq.config.settings import BrokerSettings
from pyromq.filter.agreement import Disagreement, Roll, Side, Stance, want
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart

log = logging.getLogger(__name__)

#: So many members of each side are told at once; the others hear it in the answers to their heartbeats.
TOLD_MAX = 100
ADVICE = "let all members of the group subscribe to the same (docs/howto/subscriptions.md)"

Candidate = tuple[ClientChannel, ConsumerPart]


@dataclass(frozen=True, slots=True)
class Ruling:
    """The ruling on a heartbeat or a farewell: the members that are in the group, and those no longer."""

    admitted: Sequence[Candidate] = ()
    expelled: Sequence[MemberLink] = ()
    #: Whether what the group subscribed to so far is void.
    is_turned: bool = False


@dataclass(slots=True, eq=False)
class _Group:
    roll: Roll[MemberLink] = field(default_factory=Roll)
    differs_since_ms: int | None = None
    #: Whether there is something that `look` has not seen.
    is_changed: bool = False
    #: The conflict as it was told last.
    told: Disagreement | None = None
    #: With `rejectInconsistentSubscription`: the stance that holds, and who differs from it, with the last
    #: heartbeat if there was one since.
    holding: Stance | None = None
    refused: dict[MemberLink, Candidate | None] = field(default_factory=dict)


class SubscriptionConflicts:
    """The groups whose members differ. `warn` is told a group, some of its members, and what to tell them."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        warn: Callable[[str, Sequence[MemberLink], str], None],
    ) -> None:
        self._rejects = settings.reject_inconsistent_subscription
        self._grace_ms = 0 if self._rejects else settings.subscription_conflict_grace
        self._clock = clock
        self._warn = warn
        self._groups: dict[str, _Group] = {}
        #: Those whose members differ, for however short a time.
        self._differing: dict[str, _Group] = {}

    # Members ------------------------------------------------------------------------------------------

    def note(self, client: ClientChannel, part: ConsumerPart) -> Ruling:
        """Note a member's heartbeat."""
        name = part.group_name
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group()
        if group.roll.note(client.link, client.client_id, stance_of(part)):
            self._changed(name, group)
        if not self._rejects:
            return Ruling(admitted=((client, part),))
        return _judge(group, client, part)

    def leave(self, name: str, link: MemberLink) -> Ruling:
        """Note that a connection is in a group no more."""
        group = self._groups.get(name)
        if group is None or not group.roll.drop(link):
            return Ruling()
        group.refused.pop(link, None)
        if not len(group.roll):
            del self._groups[name]
        self._changed(name, group)
        return _turn(group) if self._rejects else Ruling()

    def leave_all(self, link: MemberLink) -> Iterator[tuple[str, Ruling]]:
        """Note the end of a connection that was refused; those that are in groups leave one by one."""
        if self._rejects:
            for name in [name for name, group in self._differing.items() if link in group.refused]:
                yield name, self.leave(name, link)

    def refusal(self, name: str, link: MemberLink) -> str | None:
        """Return why a connection may not be in a group, None if it may."""
        group = self._groups.get(name)
        if group is None or link not in group.refused:
            return None
        return (
            f"subscriptions of group {name} differ, and the smaller part of a group is refused "
            f"(rejectInconsistentSubscription=true): {group.roll.conflict()}; {ADVICE}"
        )

    def has_refused(self, name: str) -> bool:
        """Return whether somebody is refused who wants to be in a group."""
        group = self._groups.get(name)
        return group is not None and bool(group.refused)

    # What is told -------------------------------------------------------------------------------------

    @property
    def lasting(self) -> dict[str, Disagreement]:
        """The conflicts that outlived the grace, by group."""
        return {name: group.told for name, group in self._differing.items() if group.told is not None}

    def conflict(self, name: str) -> tuple[Disagreement, int] | None:
        """Return a group's conflict, if it outlived the grace, and since when the members differ."""
        group = self._groups.get(name)
        if group is None or group.told is None or group.differs_since_ms is None:
            return None
        return group.told, group.differs_since_ms

    def warning(self, name: str) -> str | None:
        """Return what members are told of their group's conflict, None if it has none that lasts."""
        group = self._groups.get(name)
        return None if group is None or group.told is None else self._text(name, group.told)

    def refused(self, name: str) -> list[Candidate]:
        """Return the members that a group would have."""
        group = self._groups.get(name)
        return [] if group is None else [each for each in group.refused.values() if each is not None]

    def look(self) -> None:
        """Tell what has lasted for the grace and was not told so yet; to be called every second or so."""
        now_ms = self._clock.now_ms()
        for name, group in self._differing.items():
            since_ms = group.differs_since_ms
            if group.is_changed and since_ms is not None and now_ms - since_ms >= self._grace_ms:
                group.is_changed = False
                self._tell(name, group)

    def _tell(self, name: str, group: _Group) -> None:
        conflict = group.roll.conflict()
        assert conflict is not None, "a group that differs has two sides"
        is_news = group.told is None or _essence(conflict) != _essence(group.told)
        group.told = conflict
        if not is_news:
            return
        text = self._text(name, conflict)
        log.warning("%s", text)
        links = [
            link
            for side in (conflict.holding, *conflict.others)
            for link in group.roll.keys_of(side.stance, TOLD_MAX)
        ]
        self._warn(name, links, text)

    def _text(self, name: str, conflict: Disagreement) -> str:
        effect = "so some are refused" if self._rejects else "so messages may be lost"
        return f"members of group {name} subscribe differently, {effect}: {conflict}; {ADVICE}"

    def _changed(self, name: str, group: _Group) -> None:
        if not group.roll.is_agreed:
            group.is_changed = True
            self._differing[name] = group
            if group.differs_since_ms is None:
                group.differs_since_ms = self._clock.now_ms()
            return
        self._differing.pop(name, None)
        group.differs_since_ms = None
        if group.told is not None:
            group.told = None
            log.info("group %s: its members do not subscribe differently any more", name)


def stance_of(part: ConsumerPart) -> Stance:
    """Return what a heartbeat says that a member wants."""
    return Stance(
        str(part.message_model),
        frozenset(
            want(each.topic, each.sub_string, each.expression_type, is_class=each.class_filter_mode)
            for each in part.subscriptions
        ),
    )


def _judge(group: _Group, client: ClientChannel, part: ConsumerPart) -> Ruling:
    """Decide on a member that sent a heartbeat, and on all others if other ones hold now."""
    link = client.link
    was_in = link not in group.refused
    group.refused[link] = client, part
    ruling = _turn(group)
    if group.roll.stance_of(link) == group.holding:
        if link not in group.refused:
            return ruling
        del group.refused[link]
        return Ruling([*ruling.admitted, (client, part)], ruling.expelled, ruling.is_turned)
    return Ruling(ruling.admitted, [*ruling.expelled, link], ruling.is_turned) if was_in else ruling


def _turn(group: _Group) -> Ruling:
    """Let the sides change places if another one holds now."""
    holding = group.roll.holding
    before, group.holding = group.holding, holding
    if holding is None or before is None or holding == before:
        return Ruling()
    expelled = [link for link in group.roll.keys_of(before) if link not in group.refused]
    group.refused.update(dict.fromkeys(expelled))
    admitted = [group.refused.pop(link, None) for link in group.roll.keys_of(holding)]
    return Ruling([each for each in admitted if each is not None], expelled, is_turned=True)


def _essence(conflict: Disagreement) -> tuple[Stance, tuple[Side, ...]]:
    """Return what makes a conflict another one; how many hold is not part of it."""
    return conflict.holding.stance, conflict.others
