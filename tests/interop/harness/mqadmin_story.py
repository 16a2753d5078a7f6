"""The same commands of mqadmin, in the same order, on any cluster: what an operator does in a day.

A step's words have places in braces: `{n}` the name server, `{b}` the broker's address, and what the messages
and members of the story are called.
"""

import itertools
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from harness.mqadmin import Mqadmin, Printed, shape
from harness.servers import Cluster
from pyromq import ConsumeFrom, Message, MessageQueue, Producer, PullConsumer, PushConsumer
from pyromq.testing.waiting import eventually

TOPIC, ORDERED, READERS, SENDERS = "orders", "ordered", "readers", "senders"
MESSAGE_COUNT = 8
WAIT_S = 60
TIMEOUTS_MAX = 3


#: The one line of a broker's status that Apache's has not: `docs/reference/mqadmin.md`.
_OUR_VERSION = re.compile(r"(^|\s)pyromqVersion : \S+$")


class Compared(Enum):
    """What two outputs of a command must have in common besides the exit status."""

    ALL = "all lines in their order"
    LINES = "all lines in any order: Java lists a map by its hashes, and those of one bucket as they came"
    SETTINGS = "the form: which settings there are differs"
    MEMBER = "all but the settings of the member, which is our client on both"
    HEADING = "the heading: which rows there are depends on the moment, as Apache looks every ten seconds"
    FAILURE = "that it fails, whatever the reason"


@dataclass(frozen=True)
class Step:
    """A command with its words, and how it ends."""

    words: str
    #: What one prints that runs for ever, until it is interrupted.
    lines: int = 0
    #: How much of what it prints is compared.
    compared: Compared = Compared.ALL

    @property
    def command(self) -> str:
        """The command's name."""
        return self.words.split()[0]


#: Before there are messages and members.
FIRST = [
    Step("updateTopic -n {n} -c DefaultCluster -t orders -r 4 -w 4"),
    Step("updateTopic -n {n} -b {b} -t ordered -r 2 -w 2 -o true"),
    Step("updateTopic -n {n} -b {b} -t units -r 1 -w 1 -u true -s true"),
    Step("updateSubGroup -n {n} -c DefaultCluster -g readers"),
    Step("updateSubGroup -n {n} -b {b} -g offline -s true -d false -q 2 -r 3 -i 0 -w 1 -a true"),
]

STEPS = [
    # The cluster
    Step("clusterList -n {n}"),
    Step("clusterList -n {n} -m"),
    Step("brokerStatus -n {n} -b {b}"),
    Step("brokerStatus -n {n} -c DefaultCluster"),
    Step("brokerConsumeStats -n {n} -b {b}"),
    Step("brokerConsumeStats -n {n} -b {b} -o true"),
    Step("statsAll -n {n} -t orders"),
    Step("getBrokerConfig -n {n} -b {b}", compared=Compared.SETTINGS),
    Step("getBrokerConfig -n {n} -c DefaultCluster", compared=Compared.SETTINGS),
    Step("updateBrokerConfig -n {n} -b {b} -k fileReservedTime -v 48"),
    Step("updateBrokerConfig -n {n} -c DefaultCluster -k autoCreateTopicEnable -v false"),
    Step("getNamesrvConfig -n {n}", compared=Compared.SETTINGS),
    Step("updateNamesrvConfig -n {n} -k orderMessageEnable -v true"),
    Step("updateKvConfig -n {n} -s SPACE -k key -v value"),
    Step("deleteKvConfig -n {n} -s SPACE -k key"),
    # Topics
    Step("topicList -n {n}", compared=Compared.LINES),
    Step("topicList -n {n} -c", compared=Compared.LINES),
    Step("topicRoute -n {n} -t orders"),
    Step("topicRoute -n {n} -t orders -l"),
    Step("topicRoute -n {n} -t nowhere"),
    Step("topicStatus -n {n} -t orders"),
    Step("topicClusterList -n {n} -t orders"),
    Step("updateTopicPerm -n {n} -b {b} -t ordered -p 4"),
    Step("updateTopicPerm -n {n} -c DefaultCluster -t ordered -p 6"),
    Step("updateOrderConf -n {n} -t ordered -m put -v broker-a:2"),
    Step("updateOrderConf -n {n} -t ordered -m get"),
    Step("updateOrderConf -n {n} -t ordered -m delete"),
    Step("wipeWritePerm -n {n} -b broker-a"),
    Step("addWritePerm -n {n} -b broker-a"),
    Step("allocateMQ -n {n} -t orders -i 10.0.0.1,10.0.0.2"),
    # Messages
    Step("queryMsgById -n {n} -i {offset_id}"),
    Step("queryMsgById -n {n} -i {offset_id} -g readers -d {client}"),
    Step("queryMsgByKey -n {n} -t orders -k key-1"),
    Step("queryMsgByKey -n {n} -t orders -k nothing"),
    Step("queryMsgByUniqueKey -n {n} -t orders -i {unique_id}"),
    Step("queryMsgByUniqueKey -n {n} -t orders -i {unique_id} -g readers -d {client}"),
    Step("queryMsgByUniqueKey -n {n} -t orders -i {unique_id} -a"),
    Step("queryMsgByOffset -n {n} -t orders -b broker-a -i 0 -o 0"),
    Step("queryCq -n {n} -t orders -q 0 -i 0 -c 2 -b {b}"),
    Step("queryCq -n {n} -t orders -q 0 -i 0 -c 2 -b {b} -g readers"),
    Step("queryCq -n {n} -t orders -q 0 -i 0 -c 2 -b {b} -g nobody"),
    Step("queryCq -n {n} -t orders -q 9 -i 0 -c 2 -b {b}"),
    Step("printMsg -n {n} -t orders -d true"),
    Step("printMsgByQueue -n {n} -t orders -a broker-a -i 0 -p true -d true -f true"),
    Step("sendMessage -n {n} -t orders -p hello -k sent-key -c sent-tag"),
    Step("sendMessage -n {n} -t orders -p hello -b broker-a -i 1"),
    Step("sendMessage -n {n} -t orders -p hello -k traced-key -m true"),
    Step("queryMsgTraceById -n {n} -i {traced_id}"),
    Step("consumeMessage -n {n} -t orders -b broker-a -i 0 -o 0 -c 1 -g taking"),
    Step("sendMsgStatus -n {n} -b broker-a -s 16 -c 2"),
    Step("checkMsgSendRT -n {n} -t orders -a 2 -s 16"),
    Step("clusterRT -n {n} -c DefaultCluster -a 2 -s 16 -i 60", lines=2),
    # Producers and consumers
    Step("producer -n {n} -b {b}"),
    Step("producerConnection -n {n} -t orders -g senders"),
    Step("producerConnection -n {n} -t orders -g nobody"),
    Step("consumerConnection -n {n} -g readers", compared=Compared.LINES),
    Step("consumerConnection -n {n} -g readers -b {b}", compared=Compared.LINES),
    Step("consumerConnection -n {n} -g nobody"),
    Step("consumerProgress -n {n} -g readers"),
    Step("consumerProgress -n {n} -g readers -s true"),
    Step("consumerProgress -n {n}"),
    Step("consumerStatus -n {n} -g readers -i {client}", compared=Compared.MEMBER),
    Step("consumerStatus -n {n} -g readers -i {client} -b {b}", compared=Compared.MEMBER),
    Step("getConsumerConfig -n {n} -g offline"),
    Step("cloneGroupOffset -n {n} -s offline -d cloned -t orders -o true"),
    Step("resetOffsetByTime -n {n} -g offline -t orders -s 0"),
    Step("resetOffsetByTime -n {n} -g readers -t orders -s -1"),
    Step("resetOffsetByTime -n {n} -g readers -t orders -s {begin} -f true"),
    Step("skipAccumulatedMessage -n {n} -g readers -t orders"),
    Step("skipAccumulatedMessage -n {n} -g offline -t orders -f true"),
    Step("statsAll -n {n} -a", compared=Compared.HEADING),
    # Access control, which is off
    Step("clusterAclConfigVersion -n {n} -b {b}", compared=Compared.FAILURE),
    Step("updateAclConfig -n {n} -b {b} -a somebody -s 12345678 -m false", compared=Compared.FAILURE),
    Step("updateGlobalWhiteAddr -n {n} -b {b} -g 10.0.0.*", compared=Compared.FAILURE),
    Step("deleteAclConfig -n {n} -b {b} -a nobody", compared=Compared.FAILURE),
    # Files
    Step("exportMetadata -n {n} -c DefaultCluster -f {out}"),
    Step("exportMetadata -n {n} -b {b} -t -f {out}"),
    Step("exportConfigs -n {n} -c DefaultCluster -f {out}"),
    Step("exportMetrics -n {n} -c DefaultCluster -f {out}"),
    Step("cleanExpiredCQ -n {n} -b {b}"),
    Step("cleanExpiredCQ -n {n} -c DefaultCluster"),
    Step("deleteExpiredCommitLog -n {n} -b {b}"),
    Step("cleanUnusedTopic -n {n} -b {b}"),
    Step("cleanUnusedTopic -n {n} -c DefaultCluster"),
    # The end
    Step("deleteSubGroup -n {n} -b {b} -g cloned -r true"),
    Step("deleteSubGroup -n {n} -c DefaultCluster -g offline"),
    Step("deleteTopic -n {n} -c DefaultCluster -t ordered"),
    Step("topicList -n {n}", compared=Compared.LINES),
    Step("startMonitoring -n {n}"),
]

#: On brokers with access control.
ACCESS = [
    Step("clusterAclConfigVersion -n {n} -c DefaultCluster"),
    Step("updateAclConfig -n {n} -b {b} -a somebody -s 12345678 -w 10.0.0.1 -i DENY -u SUB -m false"),
    Step("updateAclConfig -n {n} -b {b} -a somebody -s 87654321 -t orders=PUB|SUB,other=DENY -g readers=SUB"),
    Step("updateAclConfig -n {n} -c DefaultCluster -a another-one -s another-secret -m true"),
    # Apache's reason for this one repeats the secret, and for the next one names its classes.
    Step("updateAclConfig -n {n} -b {b} -a short -s 1", compared=Compared.FAILURE),
    Step(
        "updateAclConfig -n {n} -b {b} -a somebody -s 87654321 -t orders=EVERYTHING",
        compared=Compared.FAILURE,
    ),
    Step("updateGlobalWhiteAddr -n {n} -b {b} -g 10.0.0.*,192.168.1.1"),
    Step("updateGlobalWhiteAddr -n {n} -c DefaultCluster -g 10.0.0.*"),
    Step("deleteAclConfig -n {n} -b {b} -a somebody"),
    Step("deleteAclConfig -n {n} -b {b} -a somebody"),
    Step("deleteAclConfig -n {n} -c DefaultCluster -a another-one"),
    Step("clusterAclConfigVersion -n {n} -c DefaultCluster"),
    Step("topicList -n {n}", compared=Compared.LINES),
    Step("clusterList -n {n}"),
    Step("updateTopic -n {n} -b {b} -t orders -r 1 -w 1"),
]
#: Who signs the commands, where brokers have access control; the files are Apache's.
_OPERATOR = "accessKey: operator\nsecretKey: operator-secret\n"
_ACCOUNTS = "accounts:\n- accessKey: operator\n  secretKey: operator-secret\n  admin: true\n"

_MEMBERS_SETTING = re.compile(r"[a-z]\w+ :")
_TIMED_OUT = re.compile(r"Remoting(Timeout|Connect|SendRequest)Exception")
_SENT_ID = re.compile(r"broker-a\s+\d+\s+SEND_OK\s+([0-9A-F]{32})")


def tell(cluster: Cluster, mqadmin: Mqadmin, folder: Path) -> dict[str, Printed]:
    """Run all commands on a cluster that is new, and return what each printed by its words."""
    places = {"n": cluster.name_server, "b": cluster.brokers["broker-a"], "out": str(folder / "exported")}
    told: dict[str, Printed] = {}
    _run(FIRST, mqadmin, places, told)
    places["begin"] = str(int(time.time() * 1000))
    with members(cluster, places):
        _run(STEPS, mqadmin, places, told)
    for path in sorted((folder / "exported").iterdir()):
        told[f"exported {path.name}"] = Printed("0", path.read_text())
    return told


def write_accounts(folder: Path) -> Path:
    """Write the accounts of a broker and the operator's, and return the folder for the broker's settings."""
    conf = folder / "home" / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "plain_acl.yml").write_text(_ACCOUNTS)
    (conf / "tools.yml").write_text(_OPERATOR)
    return conf


def tell_access(cluster: Cluster, mqadmin: Mqadmin) -> dict[str, Printed]:
    """Run the commands of access control on a cluster that has it, as its operator."""
    told: dict[str, Printed] = {}
    places = {"n": cluster.name_server, "b": cluster.brokers["broker-a"]}
    _run(ACCESS, mqadmin, places, told)
    return told


def _run(steps: list[Step], mqadmin: Mqadmin, places: dict[str, str], told: dict[str, Printed]) -> None:
    for each in steps:
        words = each.words.format(**places).split()
        printed = told[_once(told, each.words)] = _patiently(each, words, mqadmin)
        if each.command == "sendMessage" and (found := _SENT_ID.search(printed.text)):
            places["traced_id"] = found[1]


def _patiently(step: Step, words: list[str], mqadmin: Mqadmin) -> Printed:
    """Run a command, once more if a busy machine did not answer within mqadmin's five seconds."""
    printed = mqadmin.run(*words, lines=step.lines)
    for _ in range(TIMEOUTS_MAX):
        if step.compared is Compared.FAILURE or not _TIMED_OUT.search(printed.text):
            break
        printed = mqadmin.run(*words, lines=step.lines)
    return printed


def compared(words: str, printed: Printed) -> tuple[str, list[str]]:
    """Return what is compared of what a step, or an export, printed: the exit status, and lines."""
    lines = [line for line in shape(printed.text) if not _OUR_VERSION.search(line)]
    if printed.status == "running":
        ended = next((at for at, line in enumerate(lines) if "Exception" in line), len(lines))
        lines = lines[:ended]
    how = next(
        (each.compared for each in (*FIRST, *STEPS, *ACCESS) if each.words == words.partition(" #")[0]), None
    )
    if how is Compared.LINES:
        lines = sorted(lines)
    elif how is Compared.SETTINGS:
        lines = sorted({re.sub(r"^\w+ =.*", "KEY = VALUE", line) for line in lines})
    elif how is Compared.MEMBER:
        lines = [line for line in lines if line.startswith("PROP_") or not _MEMBERS_SETTING.match(line)]
    elif how in (Compared.HEADING, Compared.FAILURE):
        lines = lines[:1]
    return printed.status, lines


def read_record(path: Path) -> dict[str, Printed]:
    """Return what a real cluster's commands printed, by their words."""
    recorded = json.loads(path.read_text())
    return {words: Printed(*printed) for words, printed in recorded.items()}


def write_record(path: Path, told: dict[str, Printed]) -> None:
    """Keep what a real cluster's commands printed."""
    recorded = {words: [printed.status, printed.text] for words, printed in told.items()}
    path.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


def _once(told: dict[str, Printed], words: str) -> str:
    """Return the words, with a number when they come again."""
    again = (f"{words} #{number}" for number in itertools.count(2))
    return next(key for key in itertools.chain([words], again) if key not in told)


@contextmanager
def members(cluster: Cluster, places: dict[str, str]) -> Iterator[None]:
    """Send the messages, have a group read them and another fall behind, and stay."""
    read: list[str] = []
    with (
        Producer(SENDERS, cluster.name_server) as producer,
        PushConsumer(
            READERS,
            cluster.name_server,
            listener=lambda message: read.append(message.keys),
            consume_from=ConsumeFrom.FIRST_OFFSET,
            persist_consumer_offset_interval=200,
        ) as consumer,
        PullConsumer("offline", cluster.name_server) as offline,
    ):
        consumer.subscribe(TOPIC, "*")
        queues = sorted(offline.queues(TOPIC))
        for number in range(MESSAGE_COUNT):
            sent = producer.send(
                Message(TOPIC, f"body {number}".encode(), tags="paid", keys=f"key-{number}"),
                queue=queues[number % len(queues)],
            )
            if number == 1:
                places |= {"offset_id": sent.offset_message_id, "unique_id": sent.message_id}
        for queue in queues:
            offline.commit(queue, 1)
        eventually(lambda: len(read) >= MESSAGE_COUNT, WAIT_S, what="everything is read")
        _wait_for_progress(cluster, queues)
        places["client"] = consumer.client_id
        yield


def _wait_for_progress(cluster: Cluster, queues: list[MessageQueue]) -> None:
    with PullConsumer(READERS, cluster.name_server) as looking:
        eventually(
            lambda: all(looking.committed(queue) == looking.max_offset(queue) for queue in queues),
            WAIT_S,
            what="the group's progress is known",
        )
