"""Agreement between the subscriptions of a group's members: which side holds, and what differs.

Members of a consumer group share its queues, so each must want what the others want: a message that only
some of them want is lost when its queue is read by another one. A member's *stance* is what it wants of each
topic, and whether it shares the queues at all. Members with one stance are a *side*.

    the side that holds    the one with the most members; of equal ones the one that has stood longest
    in conflict            everybody else, once there is more than one side

Tags are a set, in whatever order and with whatever blanks they are written. The versions of subscriptions say
nothing about what is wanted and play no part.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Final, Generic, NamedTuple, TypeVar

from pyromq.filter.tags import ALL, parse_tags, wants_all

TAG: Final = "TAG"
CLASS: Final = "CLASS"
#: So many clients, and so many topics, are named in a text; of the rest it says how many they are.
NAMED_MAX: Final = 3
TOPICS_MAX: Final = 5

K = TypeVar("K", bound=Hashable)


class Want(NamedTuple):
    """A subscription to a topic; equal for members that get the same messages by the same expression."""

    topic: str
    kind: str
    expression: str

    def __str__(self) -> str:
        if self.kind != TAG:
            return f"{self.topic} {self.kind} {self.expression}"
        if self.expression == ALL:
            return f"{self.topic} {ALL}"
        return f"{self.topic} tags {self.expression}" if self.expression else f"{self.topic} no tag"


def want(
    topic: str, expression: str | None, expression_type: str | None = TAG, *, is_class: bool = False
) -> Want:
    """Return what a subscription wants, whatever way it was written."""
    if is_class:
        return Want(topic, CLASS, expression or "")
    if expression_type not in (None, "", TAG):
        return Want(topic, str(expression_type), (expression or "").strip())
    if wants_all(expression):
        return Want(topic, TAG, ALL)
    return Want(topic, TAG, "||".join(sorted(parse_tags(expression))))


class Stance(NamedTuple):
    """The subscriptions of one member, and the message model by which it consumes."""

    model: str
    wants: frozenset[Want]


@dataclass(frozen=True, slots=True)
class Side:
    """The members with one stance: how many they are, and the first of them by name."""

    stance: Stance
    count: int
    named: tuple[str, ...]

    @property
    def who(self) -> str:
        """The members, named as far as there is room."""
        names = ", ".join(self.named)
        more = self.count - len(self.named)
        return f"client{'s' * (self.count > 1)} {names}" + (f" and {more} more" if more else "")


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The side that holds, and the others: the larger ones first, of equal ones the older."""

    holding: Side
    others: tuple[Side, ...]

    @property
    def member_count(self) -> int:
        """The number of members that differ from the side that holds."""
        return sum(side.count for side in self.others)

    @property
    def is_tie(self) -> bool:
        """Whether age alone says who holds."""
        return self.others[0].count == self.holding.count

    def __str__(self) -> str:
        holding = self.holding
        parts = [f"{side.who}: {self._difference(side)}" for side in self.others]
        who = holding.who if holding.count == 1 else f"{holding.count} others"
        return "; ".join([*parts, f"{who}: {self._difference(holding)}"])

    def _difference(self, side: Side) -> str:
        """Return what of a side's stance is not that of all."""
        stances = [self.holding.stance, *(other.stance for other in self.others)]
        parts = [side.stance.model] if len({stance.model for stance in stances}) > 1 else []
        common = frozenset.intersection(*(stance.wants for stance in stances))
        topics = sorted({each.topic for stance in stances for each in stance.wants - common})
        wants = {each.topic: str(each) for each in side.stance.wants}
        parts += [wants.get(topic, f"no {topic}") for topic in topics[:TOPICS_MAX]]
        more = len(topics) - TOPICS_MAX
        return ", ".join(parts) + (f" and {more} more topics" if more > 0 else "")


@dataclass(slots=True, eq=False)
class _Standing(Generic[K]):
    """A side while its members come and go. Its members are in the order in which they took the stance."""

    stance: Stance
    #: Ages and ids. A plain dict whose oldest entries leave takes ever longer to find its first one.
    members: OrderedDict[K, tuple[int, str]] = field(default_factory=OrderedDict)

    @property
    def rank(self) -> tuple[int, int]:
        """The smaller, the more it holds."""
        age, _ = next(iter(self.members.values()))
        return -len(self.members), age


class Roll(Generic[K]):
    """The members of a group with their stances. A member's age is since when it has its stance.

    Noting a stance that is known already, or one that all others have too, costs the same for any number of
    members; a verdict costs as much as there are sides.
    """

    def __init__(self) -> None:
        self._sides: dict[Stance, _Standing[K]] = {}
        self._of: dict[K, _Standing[K]] = {}
        self._ages = count()

    def __len__(self) -> int:
        return len(self._of)

    @property
    def is_agreed(self) -> bool:
        """Whether there are no two sides."""
        return len(self._sides) < 2

    @property
    def holding(self) -> Stance | None:
        """The stance that holds; None without members."""
        if not self._sides:
            return None
        return min(self._sides.values(), key=lambda side: side.rank).stance

    def note(self, key: K, client_id: str, stance: Stance) -> bool:
        """Note a member's stance, and return whether it is new or another than before."""
        known = self._of.get(key)
        if known is not None and known.stance == stance:
            return False
        self.drop(key)
        side = self._sides.get(stance)
        if side is None:
            side = self._sides[stance] = _Standing(stance)
        side.members[key] = next(self._ages), client_id
        self._of[key] = side
        return True

    def drop(self, key: K) -> bool:
        """Forget a member, and return whether it was known."""
        side = self._of.pop(key, None)
        if side is None:
            return False
        del side.members[key]
        if not side.members:
            del self._sides[side.stance]
        return True

    def stance_of(self, key: K) -> Stance | None:
        """Return a member's stance."""
        side = self._of.get(key)
        return None if side is None else side.stance

    def keys_of(self, stance: Stance, count_max: int | None = None) -> list[K]:
        """Return the members with a stance, or so many of them, the oldest first."""
        side = self._sides.get(stance)
        return [] if side is None else list(islice(side.members, count_max))

    def conflict(self) -> Disagreement | None:
        """Return who differs, None if nobody does."""
        if self.is_agreed:
            return None
        holding, *others = (_side(each) for each in sorted(self._sides.values(), key=lambda side: side.rank))
        return Disagreement(holding, tuple(others))


def find_conflict(members: Iterable[tuple[str, Stance]]) -> Disagreement | None:
    """Return who of these members differs; they are given by their ids, the oldest first."""
    roll: Roll[int] = Roll()
    for key, (client_id, stance) in enumerate(members):
        roll.note(key, client_id, stance)
    return roll.conflict()


def _side(standing: _Standing[K]) -> Side:
    named = tuple(client_id for _, client_id in islice(standing.members.values(), NAMED_MAX))
    return Side(standing.stance, len(standing.members), named)
