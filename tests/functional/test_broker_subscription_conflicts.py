"""What the broker does about members of one group that subscribe differently."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pyromq import aio
from pyromq.codes import PullFlag, RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import heartbeat_body, pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.connection_bodies import ConsumerConnections, decode_consumer_connections
from pyromq.wire.bodies.heartbeat_bodies import MessageModel
from pyromq.wire.bodies.lock_bodies import decode_consumer_ids
from pyromq.wire.command import Command

GROUP = "readers"
GRACE_MS = 60_000
DIFFERENCE = "client c3: orders tags paid; 2 others: orders *"


class Stage:
    """A broker, and members by their ids."""

    def __init__(self, cluster: Cluster, clock: ManualClock, closing: AsyncExitStack) -> None:
        self.clock = clock
        self._address = cluster.broker_addresses[0]
        self._closing = closing
        self._clients: dict[str, WireClient] = {}

    async def client(self, client_id: str) -> WireClient:
        if client_id not in self._clients:
            client = WireClient(self._address)
            self._clients[client_id] = await self._closing.enter_async_context(client)
        return self._clients[client_id]

    async def beat(
        self,
        client_id: str,
        tags: str = "*",
        *,
        version: int = 1,
        topics: dict[str, str] | None = None,
        model: MessageModel = MessageModel.CLUSTERING,
    ) -> Command:
        client = await self.client(client_id)
        wanted = topics or {"orders": tags}
        body = heartbeat_body(client_id, GROUP, wanted, version=version, model=model)
        return await client.ask(RequestCode.HEART_BEAT, None, body)

    async def differ(self) -> None:
        for client_id in ("c1", "c2"):
            await self.beat(client_id)
        await self.beat("c3", "paid")

    async def pull(self, client_id: str, version: int = 1) -> Command:
        client = await self.client(client_id)
        fields = pull_fields("orders", GROUP, sysFlag=0, subscription="", subVersion=version)
        return await client.ask(RequestCode.PULL_MESSAGE, fields)

    async def connections(self) -> ConsumerConnections:
        client = await self.client("operator")
        answer = await client.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": GROUP})
        assert answer.code == ResponseCode.SUCCESS
        return decode_consumer_connections(answer.body)

    async def members(self) -> list[str]:
        client = await self.client("operator")
        answer = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
        return sorted(decode_consumer_ids(answer.body))

    async def warnings(self, client_id: str) -> list[str]:
        client = await self.client(client_id)
        names = [
            (push.ext or {})["consumerGroup"]
            for push in client.pushed
            if push.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        ]
        return [name for name in names if name != GROUP]

    async def send(self) -> None:
        client = await self.client("sender")
        for tag in ("paid", "sent"):
            fields = send_v2_fields("orders", {"TAGS": tag, "UNIQ_KEY": tag})
            answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x")
            assert answer.code == ResponseCode.SUCCESS


@pytest.fixture
async def stage(cluster: Cluster, clock: ManualClock) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as closing:
        yield Stage(cluster, clock, closing)


@pytest.fixture
async def strict(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Stage]:
    async with (
        Cluster(data_dir=tmp_path, clock=clock, reject_inconsistent_subscription=True) as cluster,
        AsyncExitStack() as closing,
    ):
        yield Stage(cluster, clock, closing)


@pytest.mark.row("MM-11")
async def test_a_lasting_difference_is_told_to_all_members_in_words_that_java_clients_log(
    stage: Stage,
) -> None:
    await stage.differ()
    stage.clock.advance(GRACE_MS)
    for client_id in ("c1", "c2", "c3"):
        (text,) = await aeventually(lambda name=client_id: stage.warnings(name))
        assert text.startswith(f"{GROUP} (WARNING: ")
        assert DIFFERENCE in text


@pytest.mark.row("MM-11")
async def test_a_lasting_difference_is_in_the_log_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.differ()
    for _ in range(5):
        stage.clock.advance(GRACE_MS)
        await stage.differ()
    await aeventually(lambda: stage.warnings("c1"))
    assert [record.message for record in caplog.records if DIFFERENCE in record.message] == [
        f"members of group {GROUP} subscribe differently, so messages may be lost: {DIFFERENCE}; let all "
        "members of the group subscribe to the same (docs/howto/subscriptions.md)"
    ]


async def test_the_answers_to_heartbeats_say_it_for_as_long_as_it_lasts(stage: Stage) -> None:
    await stage.differ()
    assert (await stage.beat("c1")).remark is None
    stage.clock.advance(GRACE_MS)
    await aeventually(lambda: stage.warnings("c1"))

    answer = await stage.beat("c1")
    assert answer.code == ResponseCode.SUCCESS
    assert DIFFERENCE in (answer.remark or "")

    await stage.beat("c3")
    assert (await stage.beat("c1")).remark is None


async def test_operators_are_told_by_the_list_of_members(stage: Stage) -> None:
    await stage.differ()
    since = stage.clock.now_ms()
    assert (await stage.connections()).conflict is None
    stage.clock.advance(GRACE_MS)
    await aeventually(lambda: stage.warnings("c1"))

    conflict = (await stage.connections()).conflict

    assert conflict is not None
    assert (conflict.difference, conflict.since, conflict.refused) == (DIFFERENCE, since, [])


@pytest.mark.row("MM-10")
async def test_members_with_the_same_many_topics_are_no_conflict(stage: Stage) -> None:
    topics = {"orders": "*", "payments": "a||b", "%RETRY%readers": "*"}
    for client_id in ("c1", "c2"):
        await stage.beat(client_id, topics=topics, version=len(client_id))
    stage.clock.advance(GRACE_MS)
    await stage.beat("c1", topics=dict(reversed(topics.items())), version=5)
    connections = await stage.connections()
    assert connections.conflict is None
    assert set(connections.subscriptions) == set(topics)


@pytest.mark.row("MM-11")
async def test_the_newest_subscription_holds_for_all_as_in_4_9(stage: Stage) -> None:
    await stage.beat("c1", "*", version=1)
    await stage.beat("c2", "paid", version=2)
    await stage.beat("c1", "*", version=1)
    assert (await stage.connections()).subscriptions["orders"].sub_string == "paid"


async def test_the_smaller_side_is_refused_by_its_heartbeat_and_is_not_in_the_group(strict: Stage) -> None:
    for client_id in ("c1", "c2"):
        assert (await strict.beat(client_id)).code == ResponseCode.SUCCESS

    answer = await strict.beat("c3", "paid")

    assert answer.code == ResponseCode.NO_PERMISSION
    assert DIFFERENCE in (answer.remark or "")
    assert await strict.members() == ["c1", "c2"]


async def test_operators_see_who_is_refused(strict: Stage) -> None:
    await strict.differ()
    strict.clock.advance(1_000)
    conflict = await aeventually(lambda: _conflict_of(strict))
    (refused,) = conflict.refused
    assert (refused.client_id, refused.subscriptions) == ("c3", ["orders tags paid"])


async def _conflict_of(stage: Stage):
    return (await stage.connections()).conflict


async def test_a_refused_member_does_not_change_what_the_others_get(strict: Stage) -> None:
    await strict.send()
    await strict.differ()
    await strict.beat("c3", "paid", version=9)
    pulled = await strict.pull("c1")
    assert pulled.code == ResponseCode.SUCCESS
    assert pulled.ext is not None
    assert pulled.ext["nextBeginOffset"] == "2"


async def test_pulls_of_a_refused_member_are_refused_with_the_difference(strict: Stage) -> None:
    await strict.send()
    await strict.differ()
    # The second one is answered by what was learnt of the first, where a kernel learns.
    for _ in range(2):
        assert (await strict.pull("c1")).code == ResponseCode.SUCCESS
        answer = await strict.pull("c3")
        assert answer.code == ResponseCode.NO_PERMISSION
        assert DIFFERENCE in (answer.remark or "")


async def test_pulls_that_were_learnt_are_refused_once_their_member_is(strict: Stage) -> None:
    await strict.send()
    for client_id in ("c1", "c2", "c3"):
        await strict.beat(client_id)
    for _ in range(3):
        assert (await strict.pull("c3")).code == ResponseCode.SUCCESS
    await strict.beat("c3", "paid")
    assert (await strict.pull("c3")).code == ResponseCode.NO_PERMISSION


async def test_a_held_pull_of_a_member_that_is_refused_meanwhile_is_answered_with_the_reason(
    strict: Stage,
) -> None:
    await strict.send()
    for client_id in ("c1", "c2", "c3"):
        await strict.beat(client_id)
    client = await strict.client("c3")
    fields = pull_fields(
        "orders",
        GROUP,
        queueOffset=2,
        sysFlag=int(PullFlag.SUSPEND),
        suspendTimeoutMillis=15_000,
        subVersion=1,
    )
    held = client.begin(RequestCode.PULL_MESSAGE, fields)
    await strict.beat("c3", "paid")
    await strict.send()
    answer = await held
    assert answer.code == ResponseCode.NO_PERMISSION
    assert DIFFERENCE in (answer.remark or "")


async def test_a_member_that_has_to_go_and_those_who_stay_are_told(strict: Stage) -> None:
    for client_id in ("c1", "c2", "c3"):
        await strict.beat(client_id)
    # What c1 was told so far is there before the answer to its next heartbeat.
    await strict.beat("c1")
    told = len((await strict.client("c1")).pushed)

    await strict.beat("c3", "paid")

    (text,) = await aeventually(lambda: strict.warnings("c3"))
    assert DIFFERENCE in text
    client = await strict.client("c1")
    await aeventually(lambda: len(client.pushed) > told)


async def test_when_the_refused_become_the_most_their_filter_holds_even_if_it_is_older(
    strict: Stage,
) -> None:
    await strict.beat("c1", "*", version=9)
    await strict.beat("c2", "paid", version=1)
    assert await strict.members() == ["c1"]

    assert (await strict.beat("c3", "paid", version=1)).code == ResponseCode.SUCCESS

    assert await strict.members() == ["c2", "c3"]
    assert (await strict.connections()).subscriptions["orders"].sub_string == "paid"
    assert (await strict.beat("c1", "*", version=9)).code == ResponseCode.NO_PERMISSION


async def test_when_those_who_hold_hang_up_the_refused_take_their_place(strict: Stage) -> None:
    await strict.beat("c1")
    await strict.beat("c2", "paid")
    await (await strict.client("c1")).close()
    await aeventually(lambda: _are(strict, ["c2"]))


async def _are(stage: Stage, members: list[str]) -> bool:
    return await stage.members() == members


async def test_a_refused_client_that_hangs_up_is_forgotten(strict: Stage) -> None:
    await strict.differ()
    strict.clock.advance(1_000)
    await aeventually(lambda: _conflict_of(strict))
    await (await strict.client("c3")).close()
    await aeventually(lambda: _is_quiet(strict))


async def _is_quiet(stage: Stage) -> bool:
    return (await stage.connections()).conflict is None


async def test_a_client_is_let_into_its_other_groups(strict: Stage) -> None:
    await strict.differ()
    client = await strict.client("c3")
    body = heartbeat_body("c3", "others", {"orders": "paid"}, producer_group="senders")
    assert (await client.ask(RequestCode.HEART_BEAT, None, body)).code == ResponseCode.SUCCESS


async def test_a_member_with_another_model_is_refused(strict: Stage) -> None:
    await strict.beat("c1")
    answer = await strict.beat("c2", model=MessageModel.BROADCASTING)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "client c2: BROADCASTING; client c1: CLUSTERING" in (answer.remark or "")


async def test_operators_are_told_why_a_member_does_not_say_what_it_does(
    cluster: Cluster, stage: Stage
) -> None:
    await stage.beat("c1")
    client = await stage.client("c1")
    client.on_push = lambda push: (
        Command(ResponseCode.SYSTEM_ERROR, remark="too old for that")
        if push.code == RequestCode.GET_CONSUMER_RUNNING_INFO
        else None
    )
    async with aio.Admin(cluster.namesrv_address) as admin:
        status = await admin.consumer_status(GROUP)
    (member,) = status.members
    assert (member.connection.client_id, member.state) == ("c1", None)
    assert "too old for that" in (member.failure or "")
    assert status.is_consistent
