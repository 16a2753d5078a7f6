"""Access control: Java clients that sign, and the same verdicts from our broker and from Apache's."""

import itertools
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from access_stage import ask_as, is_denied
from harness.missing import unavailable
from harness.program import Event, Program
from harness.servers import Cluster, apache_home, start_apache, start_ours
from harness.toolchains import JVM, Unavailable, java_class, java_classpath, tool

from pyromq import Admin, ClientSettings
from pyromq.codes import RequestCode as Code
from pyromq.testing.waiting import eventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, Subscription, encode_heartbeat

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

PATIENCE_S = 90
SOON = ("-Drocketmq.client.rebalance.waitInterval=1000", "-Drocketmq.client.rebalance.lockInterval=500")

OPERATOR, SHOP, NOBODY = (
    ("the-operator", "12345678"),
    ("web-shop", "web-shops-secret"),
    ("nobody-at-all", "nobodys-secret"),
)
ACCOUNTS = f"""\
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: {OPERATOR[0]}
  secretKey: {OPERATOR[1]}
  whiteRemoteAddress:
  admin: true
- accessKey: {SHOP[0]}
  secretKey: {SHOP[1]}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - orders=PUB|SUB
  - prices=SUB
  - clicks=PUB
  - in-order=PUB|SUB
  groupPerms:
  - billing=SUB
  - packing=SUB
  - accounts_producer=SUB
- accessKey: {NOBODY[0]}
  secretKey: {NOBODY[1]}
"""


@dataclass(frozen=True)
class Guarded:
    """Servers with access control, the folder of their accounts, and whose they are."""

    cluster: Cluster
    folder: Path

    @property
    def broker(self) -> str:
        return self.cluster.brokers["broker-a"]


def start(kind: str, folder: Path, closing: ExitStack) -> Guarded:
    conf = folder / "home" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    if kind == "ours":
        cluster = start_ours(folder, closing, aclEnable="true", aclFolder=str(conf))
    else:
        cluster = start_apache(kind, folder, closing, aclEnable="true")
    return Guarded(cluster, conf)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Guarded]]:
    """Start servers when they are first asked for."""
    running: dict[str, Guarded] = {}
    with ExitStack() as closing:

        def get(kind: str) -> Guarded:
            if kind not in running:
                try:
                    running[kind] = start(kind, tmp_path_factory.mktemp(kind), closing)
                except Unavailable as error:
                    unavailable(error)
                settings = ClientSettings(access_key=OPERATOR[0], secret_key=OPERATOR[1])
                with Admin(running[kind].cluster.name_server, settings) as admin:
                    for topic in ("orders", "prices", "clicks", "secrets", "in-order"):
                        admin.create_topic(topic, queue_count=2)
            return running[kind]

        yield get


# A table of requests ---------------------------------------------------------------------------------------


def sent(topic: str) -> dict[str, object]:
    return {"a": "accounts_producer", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 0, "h": 0}


def sent_v1(topic: str) -> dict[str, object]:
    return {
        "producerGroup": "p",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": 0,
        "sysFlag": 0,
        "bornTimestamp": 0,
        "flag": 0,
    }


def pulled(topic: str, group: str) -> dict[str, object]:
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 1,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
    }


def beaten(group: str, topic: str) -> bytes:
    part = ConsumerPart(group_name=group, subscriptions=[Subscription(topic=topic)])
    return encode_heartbeat(Heartbeat(client_id="table", consumers=[part]))


def queried(topic: str) -> dict[str, object]:
    return {"topic": topic, "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1}


def committed(group: str, topic: str) -> dict[str, object]:
    return {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": 0}


TOPICS = ("orders", "prices", "clicks", "secrets")
Row = tuple[str, int, dict[str, object], bytes]
TABLE: list[Row] = [
    *[(f"send to {topic}", Code.SEND_MESSAGE_V2, sent(topic), b"x") for topic in TOPICS],
    *[(f"send (10) to {topic}", Code.SEND_MESSAGE, sent_v1(topic), b"x") for topic in TOPICS],
    ("send to %RETRY%accounts_producer", Code.SEND_MESSAGE_V2, sent("%RETRY%accounts_producer"), b"x"),
    ("send a trace", Code.SEND_MESSAGE_V2, sent("RMQ_SYS_TRACE_TOPIC"), b"x"),
    *[(f"pull {topic}", Code.PULL_MESSAGE, pulled(topic, "billing"), b"") for topic in TOPICS],
    ("pull as another group", Code.PULL_MESSAGE, pulled("orders", "others"), b""),
    ("pull %RETRY%billing", Code.PULL_MESSAGE, pulled("%RETRY%billing", "billing"), b""),
    ("pull %RETRY%others", Code.PULL_MESSAGE, pulled("%RETRY%others", "billing"), b""),
    ("pull %DLQ%billing", Code.PULL_MESSAGE, pulled("%DLQ%billing", "billing"), b""),
    *[(f"query {topic}", Code.QUERY_MESSAGE, queried(topic), b"") for topic in TOPICS],
    *[
        (f"query {topic} by id", Code.QUERY_MESSAGE, {**queried(topic), "_UNIQUE_KEY_QUERY": True}, b"")
        for topic in TOPICS
    ],
    *[(f"heartbeat for {topic}", Code.HEART_BEAT, {}, beaten("billing", topic)) for topic in TOPICS],
    ("heartbeat of another group", Code.HEART_BEAT, {}, beaten("others", "orders")),
    *[
        (f"{code.name} as {group}", code, {"consumerGroup": group, "clientID": "table"}, b"")
        for code in (Code.UNREGISTER_CLIENT, Code.GET_CONSUMER_LIST_BY_GROUP)
        for group in ("billing", "others")
    ],
    ("commit", Code.UPDATE_CONSUMER_OFFSET, committed("billing", "orders"), b""),
    ("commit as another group", Code.UPDATE_CONSUMER_OFFSET, committed("others", "orders"), b""),
    ("commit in another topic", Code.UPDATE_CONSUMER_OFFSET, committed("billing", "secrets"), b""),
    (
        "send back as another group",
        Code.CONSUMER_SEND_MSG_BACK,
        {"group": "others", "offset": 1 << 40, "delayLevel": 1},
        b"",
    ),
    ("ask for the settings", Code.GET_BROKER_CONFIG, {}, b""),
    ("change a setting", Code.UPDATE_BROKER_CONFIG, {}, b"brokerPermission=6\n"),
    (
        "make a topic",
        Code.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": "made",
            "defaultTopic": "TBW102",
            "readQueueNums": 1,
            "writeQueueNums": 1,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        },
        b"",
    ),
    ("make a group", Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"made"}'),
    ("remove a topic", Code.DELETE_TOPIC_IN_BROKER, {"topic": "made"}, b""),
    ("remove a group", Code.DELETE_SUBSCRIPTIONGROUP, {"groupName": "made"}, b""),
    ("ask where a queue ends", Code.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0}, b""),
    ("what nobody knows", 9999, {}, b""),
]
SIGNERS = {
    "the operator": OPERATOR,
    "the shop": SHOP,
    "nobody": NOBODY,
    "a stranger": ("a-stranger", "strangers-secret"),
    "a thief": (OPERATOR[0], "a-wrong-secret"),
}


async def verdicts(address: str) -> dict[tuple[str, str], str]:
    found = {}
    async with WireClient(address) as client:
        for (who, account), (what, code, fields, body) in itertools.product(SIGNERS.items(), TABLE):
            answer = await ask_as(client, account, code, fields, body)
            found[who, what] = said(answer.remark) if is_denied(answer) else "passed"
        for what, code, fields, body in TABLE:
            answer = await client.ask(code, fields, body)
            found["without a signature", what] = said(answer.remark) if is_denied(answer) else "passed"
    return found


def said(remark: str | None) -> str:
    """Return why something is refused: without Java's line of source, and which of several names is first."""
    return re.sub(r", org\.apache\..*| for (topic|group):.*", "", remark or "")


async def test_our_broker_and_apaches_come_to_the_same_verdicts(guarded: Callable[[str], Guarded]) -> None:
    ours = await verdicts(guarded("ours").broker)
    apaches = await verdicts(guarded("apache-4.9").broker)

    assert len(ours) == len(TABLE) * (len(SIGNERS) + 1)
    assert ours == apaches


# Java's own clients ----------------------------------------------------------------------------------------


@pytest.fixture(params=["ours", "apache-4.9"])
def servers(request: pytest.FixtureRequest, guarded: Callable[[str], Guarded]) -> Guarded:
    """Ours, and Apache's to calibrate the program."""
    return guarded(request.param)


@pytest.fixture
def java(servers: Guarded, tmp_path: Path) -> Iterator[Program]:
    """Clients of 4.9.8 with AclClientRPCHook."""
    try:
        command = java_class("Accounts", "4.9.8", [f"-Duser.home={tmp_path}", *SOON], jars="server-4.9")
    except Unavailable as error:
        unavailable(error)
    program = Program([*command, servers.cluster.name_server], folder=tmp_path, env=dict(os.environ))
    yield program
    program.close()


def send(java: Program, how: str, topic: str, body: str) -> Event:
    """Send as the shop; a broker that is busy is asked again."""
    tries: list[Event] = []

    def is_sent() -> bool:
        tries.append(one(java.do(*SHOP, how, topic, body)))
        return tries[-1]["event"] == "sent"

    eventually(is_sent, PATIENCE_S, what=f"{body} is sent, after {tries}")
    return tries[-1]


def one(events: list[Event]) -> Event:
    return next(event for event in events if event["event"] in ("sent", "found", "refused"))


def test_java_sends_consumes_retries_and_commits_with_an_account_that_may(java: Program) -> None:
    for how, body in (("send", "plain"), ("send", "again"), ("batch", "batched"), ("transact", "committed")):
        send(java, how, "orders", body)

    java.do(*SHOP, "join", "billing", "orders", "concurrently")

    eventually(
        lambda: bodies(java, "billing") >= {"plain", "again", "batched", "committed"},
        PATIENCE_S,
        what="all come",
    )
    assert any(event["times"] == 1 for event in java.of("consumed") if event["body"] == "again")


def test_java_consumes_in_order_with_locks(java: Program) -> None:
    send(java, "send", "in-order", "first")

    java.do(*SHOP, "join", "packing", "in-order", "orderly")

    eventually(lambda: "first" in bodies(java, "packing"), PATIENCE_S, what="it comes")


def bodies(java: Program, group: str) -> set[str]:
    return {event["body"] for event in java.of("consumed") if event["group"] == group}


@pytest.mark.parametrize("how", ["send", "transact"])
def test_java_is_refused_what_its_account_may_not(java: Program, how: str) -> None:
    refused = one(java.do(*SHOP, how, "secrets", "no"))

    assert "No default permission for topic:secrets" in refused["says"]


def test_java_is_refused_with_a_wrong_secret(java: Program) -> None:
    refused = one(java.do(SHOP[0], "a-wrong-secret", "send", "orders", "no"))

    assert "Check signature failed for accessKey=web-shop" in refused["says"]


def test_java_finds_a_message_by_its_ids_and_its_key(java: Program, servers: Guarded) -> None:
    sending = send(java, "send", "orders", "to-be-found")

    assert one(java.do(*SHOP, "view", "orders", sending["offsetId"])) == {"event": "found", "count": 1}
    if servers.cluster.is_apache:
        # Its broker leaves a field out of the signature that its client signs.
        return

    def is_found(how: str, name: str) -> bool:
        return one(java.do(*SHOP, how, "orders", name)) == {"event": "found", "count": 1}

    eventually(lambda: is_found("query", "key-to-be-found"), PATIENCE_S, what="the key is found")
    assert is_found("view", sending["id"])


# mqadmin ---------------------------------------------------------------------------------------------------


@pytest.fixture
def mqadmin(tmp_path: Path) -> Callable[..., str]:
    """Apache's tools of 4.9.8, which sign as their file tools.yml says."""
    try:
        classpath = java_classpath("server-4.9")
    except Unavailable as error:
        unavailable(error)
    environment = apache_home(tmp_path)
    conf = tmp_path / "home/conf"
    (conf / "logback_tools.xml").write_text('<configuration><root level="OFF"/></configuration>')
    (conf / "tools.yml").write_text(f"accessKey: {OPERATOR[0]}\nsecretKey: '{OPERATOR[1]}'\n")

    def run(*words: str) -> str:
        ended = subprocess.run(
            [
                *(tool("java"), *JVM, f"-Duser.home={tmp_path}", f"-Drocketmq.home.dir={tmp_path / 'home'}"),
                *("-cp", classpath, "org.apache.rocketmq.tools.command.MQAdminStartup", *words),
            ],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return ended.stdout + ended.stderr

    return run


def test_mqadmin_changes_accounts_and_white_lists(servers: Guarded, mqadmin: Callable[..., str]) -> None:
    where = ("-b", servers.broker)
    file = servers.folder / "plain_acl.yml"

    added = mqadmin(
        *("updateAclConfig", *where, "-a", "by-mqadmin", "-s", "by-mqadmins-secret"),
        *("-t", "orders=PUB", "-g", "billing=SUB", "-u", "DENY", "-m", "false"),
    )
    assert "create or update plain access config" in added
    assert "by-mqadmin" in file.read_text()
    versions = mqadmin("clusterAclConfigVersion", *where)
    assert "get broker's plain access config version success" in versions
    assert "broker-a" in versions
    assert "success" in mqadmin("updateGlobalWhiteAddr", *where, "-g", "10.10.103.*,192.168.0.*")
    assert "192.168.0.*" in file.read_text()
    assert "success" in mqadmin("deleteAccessConfig", *where, "-a", "by-mqadmin")
    assert "by-mqadmin" not in file.read_text()
