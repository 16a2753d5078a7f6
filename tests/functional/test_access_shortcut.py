"""Signed requests to a broker with the kernel: they take its way, and nobody gets by there who may not."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from access_stage import (
    ACCOUNTS,
    NOBODY,
    NOBODY_SECRET,
    OPERATOR,
    OPERATOR_SECRET,
    SHOP,
    SHOP_SECRET,
    is_denied,
    signed,
    write_accounts,
)

from pyromq.broker.broker import Broker
from pyromq.codes import RequestCode as Code
from pyromq.codes import ResponseCode, Serializer
from pyromq.config.load import build
from pyromq.config.settings import BrokerProcess
from pyromq.kernel import IS_COMPILED
from pyromq.net.link import Link
from pyromq.net.routes import Answer, Caller
from pyromq.system_names import SCHEDULE, TRANSACTION_HALF
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import batch_body, pull_fields, send_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command

Account = tuple[str, str]
THE_OPERATOR: Account = (OPERATOR, OPERATOR_SECRET)
THE_SHOP: Account = (SHOP, SHOP_SECRET)
THE_NOBODY: Account = (NOBODY, NOBODY_SECRET)

needs_kernel = pytest.mark.skipif(not IS_COMPILED, reason="without the kernel there is no shortcut")


@dataclass
class Guarded:
    """A broker with access control and a connection to it."""

    broker: Broker
    client: WireClient
    folder: Path
    clock: ManualClock
    #: The codes of the requests that Python looked at.
    seen: list[int] = field(default_factory=list)

    def watch(self) -> None:
        """Note what Python looks at from now on."""
        table = self.broker._table
        admit = table.admit
        assert admit is not None

        def noted(link: Link, command: Command) -> Answer | Caller:
            self.seen.append(command.code)
            return admit(link, command)

        table.admit = noted

    async def ask(
        self,
        account: Account | None,
        code: int,
        fields: dict[str, object],
        body: bytes = b"",
        **changes: str,
    ) -> Command:
        """Ask as an account does; `changes` are made behind the signature."""
        ext = signed(code, fields, body, *(account or ("", "")))
        if account is None:
            del ext["AccessKey"], ext["Signature"]
        return await self.client.ask(code, ext | changes, body)

    async def send(self, account: Account | None, topic: str = "orders", **changes: str) -> Command:
        return await self.ask(account, Code.SEND_MESSAGE_V2, send_v2_fields(topic), b"body", **changes)

    async def pull(self, account: Account | None, topic: str = "orders", **changes: str) -> Command:
        fields = pull_fields(topic, "billing", expressionType="TAG")
        return await self.ask(account, Code.PULL_MESSAGE, fields, **changes)

    async def commit(self, account: Account | None, offset: int, **changes: str) -> Command:
        fields = {"consumerGroup": "billing", "topic": "orders", "queueId": 0, "commitOffset": offset}
        return await self.ask(account, Code.UPDATE_CONSUMER_OFFSET, fields, **changes)

    async def progress(self, account: Account | None, **changes: str) -> Command:
        fields = {"consumerGroup": "billing", "topic": "orders", "queueId": 0}
        return await self.ask(account, Code.QUERY_CONSUMER_OFFSET, fields, **changes)

    async def half(self, account: Account, topic: str = "orders", **changes: str) -> dict[str, object]:
        """Send a half, and return the fields of the request that commits it."""
        store = self.broker.store
        offset = store.max_offset(TRANSACTION_HALF, 0)
        properties = {"TRAN_MSG": "true", "PGROUP": "payers"} | changes
        sent = await self.ask(account, Code.SEND_MESSAGE_V2, send_v2_fields(topic, properties), b"pay")
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        [entry] = store.entries(TRANSACTION_HALF, 0, offset, 1)
        ending = {"producerGroup": "payers", "msgId": "id", "tranStateTableOffset": offset}
        return ending | {"commitLogOffset": entry.position, "commitOrRollback": 8}

    async def end(self, account: Account | None, ending: dict[str, object], **changes: str) -> Command:
        return await self.ask(account, Code.END_TRANSACTION, ending, **changes)

    async def send_back(
        self, account: Account | None, topic: str = "orders", group: str = "billing", **changes: str
    ) -> Command:
        """Send the first message of a topic back."""
        [entry] = self.broker.store.entries(topic, 0, 0, 1)
        back = {"offset": entry.position, "group": group, "delayLevel": 0}
        return await self.ask(account, Code.CONSUMER_SEND_MSG_BACK, back, **changes)

    async def teach_again(self) -> None:
        """Let the kernel learn what the shop ends and sends back."""
        # The first makes the topic of the group's retries.
        for _ in range(2):
            assert (await self.send_back(THE_SHOP)).code == ResponseCode.SUCCESS
        await self.teach()
        for _ in range(2):
            ending = await self.half(THE_SHOP)
            assert (await self.end(THE_SHOP, ending)).code == ResponseCode.SUCCESS
        assert (await self.send_back(THE_SHOP)).code == ResponseCode.SUCCESS
        self.seen.clear()

    async def teach(self) -> None:
        """Let the kernel learn what the shop does."""
        for _ in range(3):
            assert (await self.send(THE_SHOP)).code == ResponseCode.SUCCESS
            assert (await self.pull(THE_SHOP)).code == ResponseCode.SUCCESS
            assert (await self.commit(THE_SHOP, 1)).code == ResponseCode.SUCCESS
            assert (await self.progress(THE_SHOP)).code == ResponseCode.SUCCESS
        self.seen.clear()

    @property
    def stored_count(self) -> int:
        return self.broker.store.max_offset("orders", 0)

    @property
    def returned_count(self) -> int:
        """How many messages wait for their first retry."""
        return self.broker.store.max_offset(SCHEDULE, 2)

    async def accounts(self, text: str) -> None:
        """Write other accounts, and return when they hold."""
        before = self.broker._access.rules  # type: ignore[union-attr]
        write_accounts(self.folder, text)
        self.clock.advance(2_000)
        await aeventually(lambda: self.broker._access.rules is not before)  # type: ignore[union-attr]


@pytest.fixture
async def guarded(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Guarded]:
    folder = write_accounts(tmp_path / "conf")
    own = {
        "store_path_root_dir": str(tmp_path / "data"),
        "listen_port": 0,
        "broker_ip1": "127.0.0.1",
        "acl_enable": True,
        "acl_folder": str(folder),
    }
    broker = Broker(build(BrokerProcess, own), clock=clock)
    await broker.start()
    async with WireClient(broker.address) as client:
        made = Guarded(broker, client, folder, clock)
        made.watch()
        await made.teach()
        yield made
    await broker.close()


# It is used -------------------------------------------------------------------------------------------------


@needs_kernel
@pytest.mark.parametrize("serializer", Serializer)
async def test_signed_sends_pulls_commits_and_queries_go_past_python(
    guarded: Guarded, serializer: Serializer
) -> None:
    async with WireClient(guarded.broker.address, serializer=serializer) as guarded.client:
        for _ in range(5):
            assert (await guarded.send(THE_SHOP)).code == ResponseCode.SUCCESS
            assert (await guarded.pull(THE_SHOP)).code == ResponseCode.SUCCESS
            assert (await guarded.commit(THE_SHOP, 2)).code == ResponseCode.SUCCESS
            assert (await guarded.progress(THE_SHOP)).ext == {"offset": "2"}

    assert guarded.seen == []
    assert guarded.stored_count == 8


@needs_kernel
async def test_signed_batches_and_sends_with_long_names_go_past_python(guarded: Guarded) -> None:
    fields = send_v2_fields("orders", {"TAGS": "a"}, batch=True)
    for _ in range(3):
        body = batch_body([b"one", b"two"], {"KEYS": "k"})
        assert (await guarded.ask(THE_SHOP, Code.SEND_BATCH_MESSAGE, fields, body)).code == 0
        assert (await guarded.ask(THE_SHOP, Code.SEND_MESSAGE, send_fields("orders"), b"x")).code == 0

    assert guarded.seen == [Code.SEND_BATCH_MESSAGE, Code.SEND_MESSAGE]
    assert guarded.stored_count == 3 + 9


@needs_kernel
@pytest.mark.parametrize(
    "properties", [{"DELAY": "3"}, {"TIMER_DELAY_SEC": "60"}, {"TRAN_MSG": "true"}], ids=str
)
async def test_signed_messages_that_wait_go_past_python(guarded: Guarded, properties: dict[str, str]) -> None:
    fields = send_v2_fields("orders", properties)
    for _ in range(4):
        answer = await guarded.ask(THE_SHOP, Code.SEND_MESSAGE_V2, fields, b"x")
        assert answer.code == ResponseCode.SUCCESS
    assert guarded.seen == [Code.SEND_MESSAGE_V2]

    spoilt = await guarded.ask(
        THE_SHOP, Code.SEND_MESSAGE_V2, fields, b"x", Signature="AAAAAAAAAAAAAAAAAAAAAAAAAAA="
    )
    assert is_denied(spoilt)
    assert guarded.stored_count == 3


@needs_kernel
async def test_an_account_is_learnt_by_itself(guarded: Guarded) -> None:
    for account in (THE_OPERATOR, THE_OPERATOR, THE_SHOP, THE_NOBODY, THE_NOBODY, THE_OPERATOR):
        await guarded.send(account)

    # Whoever may do everything is learnt like anybody, and whoever may not is asked about each time.
    assert guarded.seen == [Code.SEND_MESSAGE_V2] * 3
    assert guarded.stored_count == 3 + 4


# Nobody gets by ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"Signature": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="},
        {"Signature": ""},
        {"i": "KEYS\x01mine"},
        {"e": "1"},
        {"z": "more"},
        {"AccessKey": OPERATOR},
        {"b": "clicks"},
    ],
    ids=lambda changes: next(iter(changes.items()))[0],
)
async def test_a_send_that_was_changed_on_its_way_is_refused(
    guarded: Guarded, changes: dict[str, str]
) -> None:
    answer = await guarded.send(THE_SHOP, **changes)

    assert is_denied(answer)
    assert "Check signature failed" in (answer.remark or "")
    assert guarded.stored_count == 3


async def test_a_pull_that_was_changed_on_its_way_is_refused(guarded: Guarded) -> None:
    for changes in ({"queueOffset": "1"}, {"Signature": "x"}, {"subscription": "a"}, {"AccessKey": NOBODY}):
        assert is_denied(await guarded.pull(THE_SHOP, **changes))


async def test_another_body_under_the_same_signature_is_refused(guarded: Guarded) -> None:
    fields = signed(Code.SEND_MESSAGE_V2, send_v2_fields("orders"), b"pay 7", *THE_SHOP)
    assert (await guarded.client.ask(Code.SEND_MESSAGE_V2, fields, b"pay 7")).code == ResponseCode.SUCCESS

    assert is_denied(await guarded.client.ask(Code.SEND_MESSAGE_V2, fields, b"pay 8"))
    assert is_denied(await guarded.client.ask(Code.SEND_MESSAGE_V2, fields, b""))


async def test_a_connection_is_not_trusted_for_what_it_sent_before(guarded: Guarded) -> None:
    assert is_denied(await guarded.send(None))
    assert is_denied(await guarded.send(None, AccessKey=SHOP))
    assert is_denied(await guarded.send((SHOP, "another-secret")))
    assert is_denied(await guarded.send(THE_NOBODY))
    assert is_denied(await guarded.pull(None))
    assert is_denied(await guarded.pull(THE_NOBODY))
    assert is_denied(await guarded.commit(THE_NOBODY, 3))
    assert is_denied(await guarded.commit(THE_SHOP, 2, commitOffset="3"))
    assert is_denied(await guarded.progress(None))
    # Any account may ask how far a group is.
    assert (await guarded.progress(THE_NOBODY)).ext == {"offset": "1"}
    assert is_denied(await guarded.send(THE_SHOP, "secrets"))
    assert guarded.stored_count == 3


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE])
async def test_a_send_with_two_topics_is_looked_at_for_the_one_it_is_stored_to(
    guarded: Guarded, code: int
) -> None:
    is_batch = code == Code.SEND_BATCH_MESSAGE
    body = batch_body([b"one"]) if is_batch else b"one"
    for _ in range(3):
        to_secrets = send_v2_fields("secrets", batch=is_batch) | {"topic": "orders"}
        assert is_denied(await guarded.ask(THE_SHOP, code, to_secrets, body))
        to_orders = send_v2_fields("orders", batch=is_batch) | {"topic": "secrets"}
        assert (await guarded.ask(THE_SHOP, code, to_orders, body)).code == ResponseCode.SUCCESS

    assert guarded.broker.store.max_offset("secrets", 0) == 0
    assert guarded.stored_count == 6


async def test_a_send_with_long_names_is_looked_at_for_its_long_topic(guarded: Guarded) -> None:
    for _ in range(3):
        fields = send_fields("secrets") | {"b": "orders"}
        assert is_denied(await guarded.ask(THE_SHOP, Code.SEND_MESSAGE, fields))

    assert guarded.broker.store.max_offset("secrets", 0) == 0


# Accounts that change ---------------------------------------------------------------------------------------


async def test_an_account_that_is_removed_may_nothing_from_then_on(guarded: Guarded) -> None:
    answer = await guarded.ask(THE_OPERATOR, Code.DELETE_ACL_CONFIG, {"accessKey": SHOP})
    assert answer.code == ResponseCode.SUCCESS, answer.remark

    assert is_denied(await guarded.send(THE_SHOP))
    assert is_denied(await guarded.pull(THE_SHOP))
    assert is_denied(await guarded.commit(THE_SHOP, 3))
    assert is_denied(await guarded.progress(THE_SHOP))
    assert guarded.stored_count == 3


async def test_an_account_that_gets_another_secret_is_refused_with_the_one_before(guarded: Guarded) -> None:
    change = {"accessKey": SHOP, "secretKey": "the-next-secret", "topicPerms": "orders=PUB|SUB"}
    answer = await guarded.ask(THE_OPERATOR, Code.UPDATE_AND_CREATE_ACL_CONFIG, change)
    assert answer.code == ResponseCode.SUCCESS, answer.remark

    for _ in range(3):
        assert is_denied(await guarded.send(THE_SHOP))
        assert (await guarded.send((SHOP, "the-next-secret"))).code == ResponseCode.SUCCESS
    assert guarded.stored_count == 6


async def test_a_permission_that_is_taken_away_is_gone_and_given_again_it_is_there(guarded: Guarded) -> None:
    await guarded.accounts(ACCOUNTS.replace("orders=PUB|SUB", "orders=SUB"))
    assert is_denied(await guarded.send(THE_SHOP))
    assert not is_denied(await guarded.pull(THE_SHOP))

    await guarded.accounts(ACCOUNTS.replace("billing=SUB", "billing=DENY"))
    assert not is_denied(await guarded.send(THE_SHOP))
    assert is_denied(await guarded.pull(THE_SHOP))

    await guarded.accounts(ACCOUNTS)
    for _ in range(3):
        assert not is_denied(await guarded.send(THE_SHOP))
        assert not is_denied(await guarded.pull(THE_SHOP))


WHITE = ACCOUNTS.replace("globalWhiteRemoteAddresses:\n", "globalWhiteRemoteAddresses:\n- 127.0.0.*\n")


@needs_kernel
async def test_from_a_white_host_requests_go_past_python_until_it_is_white_no_more(guarded: Guarded) -> None:
    await guarded.accounts(WHITE)
    guarded.seen.clear()
    for _ in range(5):
        assert (await guarded.send(None)).code == ResponseCode.SUCCESS
        assert (await guarded.pull(None)).code == ResponseCode.SUCCESS
    assert guarded.seen == [Code.SEND_MESSAGE_V2]

    await guarded.accounts(ACCOUNTS)

    assert is_denied(await guarded.send(None))
    assert is_denied(await guarded.pull(None))


async def test_what_a_white_host_sent_as_an_account_says_nothing_about_the_account(guarded: Guarded) -> None:
    await guarded.accounts(WHITE)
    for _ in range(3):
        # Its account may not; its address may.
        assert not is_denied(await guarded.send(THE_NOBODY))
        assert not is_denied(await guarded.send(THE_SHOP, "secrets"))

    await guarded.accounts(ACCOUNTS)

    assert is_denied(await guarded.send(THE_NOBODY))
    assert is_denied(await guarded.send(THE_SHOP, "secrets"))


async def test_an_accounts_white_list_saves_the_signature_of_each_request_and_is_no_longer_than_it_stands(
    guarded: Guarded,
) -> None:
    own = f"- accessKey: {SHOP}\n  secretKey: {SHOP_SECRET}\n"
    await guarded.accounts(ACCOUNTS.replace(own, own + "  whiteRemoteAddress: 127.0.0.1\n"))
    for _ in range(3):
        assert not is_denied(await guarded.send(None, AccessKey=SHOP))
        assert not is_denied(await guarded.send(THE_SHOP))
        assert is_denied(await guarded.send(None, AccessKey=SHOP, b="secrets"))
        assert is_denied(await guarded.send(None, AccessKey=NOBODY))

    await guarded.accounts(ACCOUNTS)

    assert is_denied(await guarded.send(None, AccessKey=SHOP))
    assert not is_denied(await guarded.send(THE_SHOP))


# Ends of transactions and send-backs: what they need depends on the message that they name ------------------


@needs_kernel
@pytest.mark.parametrize("serializer", Serializer)
async def test_signed_ends_and_send_backs_go_past_python(guarded: Guarded, serializer: Serializer) -> None:
    await guarded.teach_again()
    stored, returned = guarded.stored_count, guarded.returned_count
    async with WireClient(guarded.broker.address, serializer=serializer) as guarded.client:
        for number in range(5):
            ending = await guarded.half(THE_SHOP)
            ending["commitOrRollback"] = 12 if number == 4 else 8
            assert (await guarded.end(THE_SHOP, ending)).code == ResponseCode.SUCCESS
            assert (await guarded.send_back(THE_SHOP)).code == ResponseCode.SUCCESS

    assert guarded.seen == []
    assert guarded.stored_count == stored + 4
    assert guarded.returned_count == returned + 5


async def test_ends_and_send_backs_of_others_are_refused_each_time(guarded: Guarded) -> None:
    await guarded.teach_again()
    for _ in range(3):
        ending = await guarded.half(THE_SHOP)
        stored, returned = guarded.stored_count, guarded.returned_count
        for account in (THE_NOBODY, None, (SHOP, "another-secret")):
            assert is_denied(await guarded.end(account, ending))
            assert is_denied(await guarded.send_back(account))
        assert is_denied(await guarded.end(THE_SHOP, ending, commitOrRollback="12"))
        assert is_denied(await guarded.send_back(THE_SHOP, delayLevel="1"))
        assert (guarded.stored_count, guarded.returned_count) == (stored, returned)

        # It was not decided by those who may not.
        assert (await guarded.end(THE_SHOP, ending)).code == ResponseCode.SUCCESS
        assert (await guarded.send_back(THE_SHOP)).code == ResponseCode.SUCCESS
        assert (guarded.stored_count, guarded.returned_count) == (stored + 1, returned + 1)


async def test_an_end_is_looked_at_for_the_topic_of_its_half(guarded: Guarded) -> None:
    await guarded.teach_again()
    # What a producer says of the place of its message does not count.
    secret = await guarded.half(THE_OPERATOR, "secrets", REAL_TOPIC="orders")
    own, clicks = await guarded.half(THE_SHOP), await guarded.half(THE_SHOP, "clicks")

    for _ in range(3):
        assert is_denied(await guarded.end(THE_SHOP, secret))
        assert is_denied(await guarded.end(THE_SHOP, own, commitLogOffset=str(secret["commitLogOffset"])))
    assert (await guarded.end(THE_SHOP, own)).code == ResponseCode.SUCCESS
    assert (await guarded.end(THE_SHOP, clicks)).code == ResponseCode.SUCCESS

    assert guarded.broker.store.max_offset("secrets", 0) == 0
    assert (await guarded.end(THE_OPERATOR, secret)).code == ResponseCode.SUCCESS
    assert guarded.broker.store.max_offset("secrets", 0) == 1


async def test_a_send_back_is_looked_at_for_the_topic_of_its_message_and_for_its_group(
    guarded: Guarded,
) -> None:
    await guarded.teach_again()
    for topic, account in (("secrets", THE_OPERATOR), ("clicks", THE_SHOP), ("prices", THE_OPERATOR)):
        assert (await guarded.send(account, topic)).code == ResponseCode.SUCCESS
    returned = guarded.returned_count

    for _ in range(3):
        for topic in ("secrets", "clicks"):
            assert is_denied(await guarded.send_back(THE_SHOP, topic))
        assert is_denied(await guarded.send_back(THE_SHOP, group="auditors"))
        # Who may read a topic may send its messages back.
        assert (await guarded.send_back(THE_SHOP, "prices")).code == ResponseCode.SUCCESS

    assert guarded.returned_count == returned + 3


@needs_kernel
async def test_a_message_that_waits_is_sent_back_for_the_topic_that_it_waits_for(guarded: Guarded) -> None:
    await guarded.teach_again()
    secret, own = await guarded.half(THE_OPERATOR, "secrets"), await guarded.half(THE_SHOP)
    guarded.seen.clear()

    for half, is_own in ((own, True), (secret, False), (own, True), (secret, False), (own, True)):
        back = {"offset": half["commitLogOffset"], "group": "billing", "delayLevel": 0}
        answer = await guarded.ask(THE_SHOP, Code.CONSUMER_SEND_MSG_BACK, back)
        assert is_denied(answer) is not is_own

    # Only its first, of this topic and for orders, was Python's to look at.
    assert guarded.seen == [Code.CONSUMER_SEND_MSG_BACK] * 3


async def test_what_stands_in_a_body_is_no_message(guarded: Guarded) -> None:
    await guarded.teach_again()
    [entry] = guarded.broker.store.entries("orders", 0, 0, 1)
    inner = guarded.broker.store.log.record_bytes(entry.position)
    assert inner is not None
    fields = send_v2_fields("clicks")
    assert (await guarded.ask(THE_SHOP, Code.SEND_MESSAGE_V2, fields, inner)).code == ResponseCode.SUCCESS
    [outer] = guarded.broker.store.entries("clicks", 0, 0, 1)
    returned = guarded.returned_count

    for distance in (0, 1, 88):
        back = {"offset": outer.position + distance, "group": "billing", "delayLevel": 0}
        answer = await guarded.ask(THE_SHOP, Code.CONSUMER_SEND_MSG_BACK, back)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert is_denied(answer) is (distance == 0)
    assert guarded.returned_count == returned


@pytest.mark.parametrize(
    "taken",
    [
        ("orders=PUB|SUB", "orders=DENY"),
        (SHOP_SECRET, "the-next-secret"),
        (f"accessKey: {SHOP}", "accessKey: another-shop"),
    ],
)
async def test_ends_and_send_backs_stop_with_the_permission_and_go_on_with_it(
    guarded: Guarded, taken: tuple[str, str]
) -> None:
    await guarded.teach_again()
    endings = [await guarded.half(THE_SHOP) for _ in range(4)]
    stored, returned = guarded.stored_count, guarded.returned_count
    assert (await guarded.end(THE_SHOP, endings[0])).code == ResponseCode.SUCCESS

    await guarded.accounts(ACCOUNTS.replace(*taken))
    assert is_denied(await guarded.end(THE_SHOP, endings[1]))
    assert is_denied(await guarded.send_back(THE_SHOP))
    assert (guarded.stored_count, guarded.returned_count) == (stored + 1, returned)

    await guarded.accounts(ACCOUNTS)
    for ending in endings[1:]:
        assert (await guarded.end(THE_SHOP, ending)).code == ResponseCode.SUCCESS
        assert (await guarded.send_back(THE_SHOP)).code == ResponseCode.SUCCESS
    assert (guarded.stored_count, guarded.returned_count) == (stored + 4, returned + 3)


async def test_permissions_to_send_and_to_read_are_told_apart(guarded: Guarded) -> None:
    await guarded.teach_again()
    ending = await guarded.half(THE_SHOP)

    await guarded.accounts(ACCOUNTS.replace("orders=PUB|SUB", "orders=SUB"))
    assert is_denied(await guarded.end(THE_SHOP, ending))
    assert (await guarded.send_back(THE_SHOP)).code == ResponseCode.SUCCESS

    await guarded.accounts(ACCOUNTS.replace("orders=PUB|SUB", "orders=PUB"))
    assert (await guarded.end(THE_SHOP, ending)).code == ResponseCode.SUCCESS
    assert is_denied(await guarded.send_back(THE_SHOP))

    await guarded.accounts(ACCOUNTS.replace("billing=SUB", "billing=DENY"))
    assert is_denied(await guarded.send_back(THE_SHOP))
