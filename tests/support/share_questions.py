"""One story of an operator of RocketMQ 5, told by hand to any broker: types of topics, shares of queues.

What each request is answered is kept without what differs from run to run; `golden/shares_5.5.0.json` is what
Apache's 5.5.0 answered.
"""

from typing import Any

from pop_questions import Told, masked

from pyromq.codes import RequestCode
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, encode_heartbeat
from pyromq.wire.bodies.pop_bodies import AssignmentQuestion, encode_assignment_question
from pyromq.wire.java_json import dumps, loads

TOPIC, GROUP = "shared", "sharers"
VERSION = 513


def _create(topic: str, attributes: str | None = None) -> Told:
    fields: Told = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 2,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    return fields if attributes is None else fields | {"attributes": attributes}


def _mode(mode: str = "POP", topic: str = TOPIC, group: str = GROUP, shared: int = 0) -> bytes:
    return dumps({"consumerGroup": group, "mode": mode, "popShareQueueNum": shared, "topic": topic})


class ShareStory:
    """A client that tells the story; `told` has the answers by the names of its steps."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self.told: dict[str, Told] = {}

    async def step(self, name: str, code: int, fields: Told | None = None, body: bytes = b"") -> None:
        """Ask, and keep what was answered."""
        answer = await self._client.ask(code, fields, body)
        # What 5.5.0 remarks of a success is a constant without meaning, and 4.9.8 has none.
        remark = masked(answer.remark) if answer.code else None
        self.told[name] = {"code": answer.code, "remark": remark, "body": _shown(answer.body)}

    async def tell(self) -> None:
        """Tell the whole story."""
        await self._types()
        await self._modes()
        await self._shares()

    async def _types(self) -> None:
        update, config = RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.GET_TOPIC_CONFIG
        for name, text in (
            ("created with an attribute to remove", "-message.type"),
            ("created with an unknown attribute", "+colour=red"),
            ("created with a value without a sign", "message.type=FIFO"),
            ("created with a name only", "message.type"),
            ("created with one attribute twice", "+message.type=FIFO,+message.type=DELAY"),
            ("created as mixed", "+message.type=MIXED"),
            ("created", "+message.type=FIFO"),
        ):
            await self.step(name, update, _create(TOPIC, text))
        await self.step("its configuration", config, {"topic": TOPIC})
        for name, text in (
            ("removed what is not there", "-reserve.time"),
            ("changed what never changes", "+queue.type=SimpleCQ"),
            ("changed with signs in the name", "++message.type=FIFO"),
            ("changed and removed at once", "+message.type=DELAY,-message.type"),
            ("kept for too short", "+reserve.time=-2"),
            ("changed", "+message.type=DELAY,+reserve.time=24"),
        ):
            await self.step(name, update, _create(TOPIC, text))
        await self.step("its new configuration", config, {"topic": TOPIC})
        await self.step("changed by a client of 4.9", update, _create(TOPIC))
        await self.step("its configuration after that", config, {"topic": TOPIC})

    async def _modes(self) -> None:
        put, show = RequestCode.SET_MESSAGE_REQUEST_MODE, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE
        await self.step("the mode of an unknown topic", put, None, _mode(topic="nowhere"))
        await self.step("the mode of a retry topic", put, None, _mode(topic=f"%RETRY%{GROUP}"))
        await self.step("no modes", show)
        await self.step("a mode", put, None, _mode(shared=3))
        await self.step("one mode", show)
        await self.step("another mode", put, None, _mode("PULL"))

    async def _shares(self) -> None:
        await self._share("a share of nobody's group", GROUP)
        beat = Heartbeat(client_id="me", consumers=[ConsumerPart(group_name=GROUP)])
        assert (await self._client.ask(RequestCode.HEART_BEAT, None, encode_heartbeat(beat))).code == 0

        async def is_routed() -> bool:
            await self._share("a share by pulling", GROUP)
            return "messageQueueAssignments" in self.told["a share by pulling"]["body"]

        # The broker may not have asked the name server yet.
        await aeventually(is_routed, 60)
        await self._share("a share of a stranger", GROUP, client_id="somebody")
        await self._share("a share by an unknown strategy", GROUP, strategy_name="MINE")
        await self._share("a share of a broadcasting group", GROUP, message_model="BROADCASTING")
        await self._client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, None, _mode())
        await self._share("a share by popping", GROUP)
        await self._share("a share of a stranger by popping", GROUP, client_id="somebody")

    async def _share(self, name: str, group: str, **more: str) -> None:
        question = AssignmentQuestion(**{"topic": TOPIC, "consumer_group": group, "client_id": "me", **more})
        await self.step(name, RequestCode.QUERY_ASSIGNMENT, None, encode_assignment_question(question))


def _shown(body: bytes) -> Any:
    if not body:
        return None
    value = loads(body)
    if isinstance(value.get("messageQueueAssignments"), list):
        # Apache's come from a HashSet.
        value["messageQueueAssignments"].sort(key=lambda each: each["messageQueue"]["queueId"])
    return value


async def tell_shares(broker: str) -> dict[str, Told]:
    """Tell the story to the broker at an address, and return the answers by the names of its steps."""
    async with WireClient(broker, version=VERSION) as client:
        story = ShareStory(client)
        await story.tell()
        return story.told
