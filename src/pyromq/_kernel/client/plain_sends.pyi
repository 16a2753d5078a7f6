from collections.abc import Sequence
from typing import Any, Final

from pyromq.client.producer.queue_choice import RoundRobin
from pyromq.client.route_cache import RouteCache
from pyromq.model import MessageQueue
from pyromq.net.awaited import AnswerPlace
from pyromq.wire.marks import Parts
from pyromq.wire.message_id import UniqueIds
from pyromq.wire.signing_key import SigningKey

OPAQUE: Final = 1
BORN: Final = 2
FLAG: Final = 3
PROPERTIES: Final = 4
SIGNATURE: Final = 5
MESSAGE_ID: Final = 6
KEYS: Final = 7
TAGS: Final = 8
VALUES: Final = 9
VALUES_MAX: Final = 24

class Shape:
    def __init__(self, plain: Parts, json: Parts) -> None: ...

class Lane:
    queue: MessageQueue
    wire_queue: MessageQueue
    address: str
    def __init__(
        self,
        queue: MessageQueue,
        wire_queue: MessageQueue,
        address: str,
        header: Parts,
        signed: Parts | None,
    ) -> None: ...

class PlainSend:
    answer: Any
    give_up_at: float
    timeout_s: float
    lane: Lane
    opaque: int
    frame: bytes | None
    message_id: str
    link: Any

class PlainSends:
    shape_count: int
    def __init__(
        self,
        message_type: type,
        result_type: type,
        sent: object,
        default_region: str,
        *,
        routes: RouteCache,
        links: dict[str, Any],
        ids: UniqueIds,
        key: SigningKey | None,
        body_bytes_max: int,
    ) -> None: ...
    def learn_topic(self, topic: str, lanes: Sequence[Lane], turns: RoundRobin, revision: int) -> None: ...
    def learn_shape(self, names: tuple[str, ...], has_keys: bool, has_tags: bool, shape: Shape) -> None: ...
    def knows_topic(self, topic: str) -> bool: ...
    def knows_shape(self, names: tuple[str, ...], has_keys: bool, has_tags: bool) -> bool: ...
    def begin(
        self, message: object, answer: AnswerPlace, now_ms: int, give_up_at: float, timeout_s: float
    ) -> PlainSend | None: ...
    def take_answers(self, links: Sequence[Any]) -> bool: ...
