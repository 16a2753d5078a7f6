"""Acknowledgements of popped messages without Python objects: the compiled kernel between a link and POP.

Where Python acknowledged a message of a queue, the kernel gets what ends messages of that queue, and answers
the next acknowledgements for it. It stops at the first one that is not plain: of a message in order, by a
handle that does not read or is over. What waits for a disk or for replicas is Python's.
"""

from typing import TYPE_CHECKING, Final

from pyromq.broker.pop.pop_door import Pop
from pyromq.broker.requests.answer_parts import binary_parts, json_parts
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import VERSION, Language
from pyromq.net.link import Link

if TYPE_CHECKING:
    from pyromq._kernel.requests.acks import Acks

#: Queues that are known at a time, of all groups; each takes some hundred bytes.
PLACES_MAX: Final = 100_000
#: The kernel compares no longer keys (PLACE_BYTES_MAX in place_keys.pxd).
KEY_BYTES_MAX: Final = 1_024


class FastAcks:
    """Offers received bytes to the kernel, and teaches it queues. `take` is a shortcut of links."""

    def __init__(self, acks: "Acks", pop: Pop, topics: TopicTable) -> None:
        self._acks = acks
        self._pop = pop
        self._topics = topics
        self._revision = topics.revision

    def take(self, links: list[Link]) -> bool:
        """Answer the acknowledgements at the front of what links received; return whether one was."""
        if not self._acks.plan_count or self._forget_if_changed() or not self._pop.may_answer_at_once():
            return False
        return self._acks.answer(links) > 0

    def learn(self, group: str, topic: str, queue_id: int) -> None:
        """Let the kernel have the next acknowledgements for a queue; `topic` is that of the requests."""
        self._forget_if_changed()
        key = f"{group}\0{topic}\0{queue_id}\0"
        if not key.isascii() or len(key) > KEY_BYTES_MAX or key.count("\0") != 3:
            return
        if self._acks.plan_count >= PLACES_MAX:
            self._acks.forget_all()
        ending = self._pop.ending(group, topic, queue_id)
        if ending is not None:
            self._acks.learn(key.encode(), ending)

    def _forget_if_changed(self) -> bool:
        """Forget everything when a topic has changed; return whether one has."""
        if self._revision == self._topics.revision:
            return False
        self._revision = self._topics.revision
        self._acks.forget_all()
        return True


def make_acks() -> "Acks":
    """Return the kernel's part."""
    # Only now: without a compiler there is nothing to import.
    from pyromq._kernel.requests.acks import Acks

    return Acks(
        answer_parts=json_parts(None),
        binary_parts=binary_parts({}),
        language=int(Language.JAVA),
        version=VERSION,
    )
