"""One story of every kind of message, told by a Java client to our servers and to Apache's.

All kinds run side by side, for most of their time is waiting: the third delay level and a first retry take
ten seconds, and a transaction that nobody decides is asked about four times. What becomes of a message is
written in its body (`programs/java/Kinds.java`).
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness import same_bytes, servers
from harness.ledger import Ledger
from harness.observer import Observer
from harness.program import Event, Program
from harness.servers import Cluster
from harness.toolchains import java_class
from pyromq import Admin
from pyromq.testing.waiting import eventually

SERVERS = ("ours", "apache-4.9")
#: Each client's version, and the name that its topics and groups begin with.
CLIENTS = {"4.9.8": "four", "5.5.0": "five"}

#: The first three levels are those of every broker. Retries begin with the third; the next is short here.
DELAYS_MS = {1: 1_000, 2: 5_000, 3: 10_000, 4: 1_000, 5: 2_000}
#: RocketMQ counts the time of a message's own immunity too: that takes two of these.
CHECKS_MAX = 4
SETTINGS: dict[str, str | int] = {
    "messageDelayLevel": " ".join(f"{delay_ms // 1_000}s" for delay_ms in DELAYS_MS.values()),
    "transactionTimeOut": 1_000,
    # Longer than the answer to a check takes on a busy machine: a second check would be another story.
    "transactionCheckInterval": 2_000,
    "transactionCheckMax": CHECKS_MAX,
    "enablePropertyFilter": "true",
}
#: Rebalancing and letting go of queues, sooner than after the 20 s of the defaults.
JAVA = (
    "-Drocketmq.client.rebalance.waitInterval=1000",
    "-Drocketmq.client.rebalance.lockInterval=500",
    "-Drocketmq.client.unlockDelayTimeMills=1000",
)
PATIENCE_S = 90
PROBE_PAUSE_S = 0.25

NO_LIMIT = -1
RETRY_LIMIT = 2
ORDERLY_LIMIT = 1
QUEUES_IN_ORDER = 4
KEYS = ("anna", "bert", "carl", "dora", "emil", "fred", "gina", "hans")
BATCH, BATCH_BYTES_MAX = 5, 4 * 1024 * 1024
LARGE, LARGE_BYTES = 9, 500_000
IMMUNITY_S = 3

RETRIED = ("later/done", "throw/done", "null/done", "later", "soon", "never")
DELAYED = (1, 2, 3, 99)
DECIDED = ("commit", "rollback", "unknown/commit", "unknown/rollback", "unknown/unknown/commit", "unknown")
COMMITTED = frozenset(
    {
        *("commit", "unknown/commit", "unknown/unknown/commit"),
        *("unknown/commit/orphan", "unknown/commit/immune"),
    }
)
TOPICS = (
    "retry",
    "delay",
    "transaction",
    "stuck",
    "tags",
    "collision",
    "sql",
    "request",
    "batch",
    "large",
    "together",
)


@dataclass(repr=False)
class Tale:
    """What one client lived through on one kind of servers."""

    server: str
    prefix: str
    program: Program
    observer: Observer
    #: Where each kind's group stands in each queue of its topic.
    committed: dict[str, dict[int, int | None]] = field(default_factory=dict)
    #: Each round of the orderly group: which members had each queue.
    owners: list[dict[int, set[str]]] = field(default_factory=list)
    #: The bodies of the transactions that are to be committed.
    committing: frozenset[str] = COMMITTED
    #: What the first member of the orderly group was given while it had no other.
    alone: list[Event] = field(default_factory=list)
    sent_in_order: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[str, list[Event]] = field(default_factory=dict)
    #: How many queues each topic of dead letters has.
    dead_queues: dict[str, int] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=lambda: Ledger({}))

    def name(self, kind: str) -> str:
        """Return the topic of a kind."""
        return f"{self.prefix}_{kind}"

    def group(self, kind: str) -> str:
        """Return the group that consumes a kind."""
        return f"{self.prefix}_{kind}_group"

    def consumed(self, *members: str) -> list[Event]:
        """Return what these members were given, in the order in which they were given it."""
        return [event for event in self.program.of("consumed") if event["member"] in members]

    def times(self, member: str) -> list[tuple[str, int]]:
        """Return the bodies that a member was given, each with how often it had been given before; sorted."""
        return sorted((event["body"], event["times"]) for event in self.consumed(member))

    def consumed_in_order(self) -> dict[str, list[str]]:
        """Return what was finished of each key, without what a move of queues repeats."""
        found: dict[str, list[str]] = defaultdict(list)
        for event in self.consumed("order", "order-two"):
            bodies = found[event["properties"]["KEYS"]]
            if event["times"] == event["body"].count("later") and event["body"] not in bodies:
                bodies.append(event["body"])
        return found

    def checked(self) -> list[Event]:
        """Return what the broker asked members of producer groups about."""
        return self.program.of("checked")

    # Telling it

    def join(
        self,
        member: str,
        kind: str,
        order: str = "concurrent",
        *,
        tags: str = "*",
        limit: int = NO_LIMIT,
        together: int = 1,
    ) -> None:
        """Let a member of a kind's group begin."""
        self.program.do("join", member, self.group(kind), self.name(kind), order, tags, limit, together)

    def send(self, kind: str, body: str, **properties: object) -> None:
        """Send a message of a kind."""
        self.program.do("send", self.name(kind), body, *_words(properties))

    def transact(self, member: str, body: str, **properties: object) -> list[Event]:
        """Send a message in a transaction."""
        return self.ask("transact", member, self.name("transaction"), body, *_words(properties))

    def ask(self, *words: object) -> list[Event]:
        """Give a command that sends, and return how its messages were answered."""
        return [event for event in self.program.do(*words) if event["event"] in ("sent", "refused")]

    def wait_for(self, member: str, count: int) -> None:
        """Wait until a member was given so many."""
        self.wait(lambda: len(self.consumed(member)) >= count, f"{count} consumed by {member}")

    def wait_for_stored(self, topic: str, count: int, containing: str = "") -> None:
        """Wait until so many messages, with this text in their properties, are in a topic."""

        def is_there() -> bool:
            found = self.observer.stored(topic)
            return sum(containing in message.properties_text for message in found) >= count

        self.wait(is_there, f"{count} in {topic}")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for anything; say what happened when it does not come."""
        try:
            eventually(condition, PATIENCE_S, what=f"{what} on {self.server}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.program.events}\n{self.program.complaint()}") from None


def _words(properties: dict[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in properties.items()]


def tell_all(folder: Path) -> dict[tuple[str, str], Tale]:
    """Tell the story with each client to each kind of servers, all at once."""
    with ExitStack() as closing, ThreadPoolExecutor() as threads:
        starts = {kind: threads.submit(_start, kind, folder / kind, closing) for kind in SERVERS}
        clusters = {kind: start.result() for kind, start in starts.items()}
        telling = {
            (kind, version): threads.submit(_tell, clusters[kind], version, folder / f"{kind}-{version}")
            for kind in SERVERS
            for version in CLIENTS
        }
        tales = {key: future.result() for key, future in telling.items()}
        for kind in SERVERS:
            records = same_bytes.records(folder / kind / "broker-a" / "store")
            for version, prefix in CLIENTS.items():
                tales[kind, version].ledger = Ledger(records, prefix)
        return tales


def _start(kind: str, folder: Path, closing: ExitStack) -> Cluster:
    folder.mkdir()
    if kind == "ours":
        return servers.start_ours(folder, closing, **SETTINGS)
    return servers.start_apache(kind, folder, closing, **SETTINGS)


def _tell(cluster: Cluster, version: str, folder: Path) -> Tale:
    folder.mkdir()
    command = java_class("Kinds", version, [f"-Duser.home={folder}", *JAVA])
    program = Program([*command, cluster.name_server], folder=folder, env={**os.environ, "HOME": str(folder)})
    tale = Tale(cluster.kind, CLIENTS[version], program, Observer(cluster.name_server))
    try:
        _create_topics(tale, cluster)
        for begin in (_retry, _delay, _transact, _get_stuck, _filter, _request, _batch):
            begin(tale)
        _keep_order(tale)
        _wait_until_all_came(tale)
        assert program.quit() == 0
        for kind in ("retry", "stuck"):
            ((_, tale.dead_queues[kind]),) = tale.observer.queues(f"%DLQ%{tale.group(kind)}").values()
        for kind in ("retry", "delay", "transaction", "stuck", "tags", "batch", "together"):
            committed = tale.observer.committed(tale.group(kind), tale.name(kind))
            tale.committed[kind] = {queue: offset for (_, queue), offset in committed.items()}
    finally:
        program.close()
    return tale


def _create_topics(tale: Tale, cluster: Cluster) -> None:
    with Admin(cluster.name_server) as admin:
        for kind in TOPICS:
            admin.create_topic(tale.name(kind), 1)
        admin.create_topic(tale.name("order"), QUEUES_IN_ORDER)
    for kind in (*TOPICS, "order"):
        eventually(lambda kind=kind: tale.observer.queues(tale.name(kind)), PATIENCE_S)


def _retry(tale: Tale) -> None:
    tale.join("retry", "retry", limit=RETRY_LIMIT)
    for number, body in enumerate(RETRIED):
        tale.send("retry", body, TAGS="red", KEYS=f"key-{number}", note=f"naïve-中文-{number}")


def _delay(tale: Tale) -> None:
    tale.join("delay", "delay")
    for level in DELAYED:
        tale.send("delay", str(level), DELAY=level, TAGS="slow", KEYS=f"level-{level}")


def _transact(tale: Tale) -> None:
    tale.join("transaction", "transaction")
    for member, group in (
        ("anna", "deciding"),
        ("bert", "deciding"),
        ("carl", "leaving"),
        ("dora", "leaving"),
    ):
        tale.program.do("produce", member, tale.name(group), tale.name("transaction"))
    for body in DECIDED:
        tale.transact("anna", body, TAGS="blue", KEYS="account-1")
    (answer,) = tale.transact("anna", "commit/delayed", DELAY=3)
    if answer["event"] == "sent":  # the 5.x client refuses it
        tale.committing |= {"commit/delayed"}
    tale.transact("anna", "unknown/commit/immune", CHECK_IMMUNITY_TIME_IN_SECONDS=IMMUNITY_S)
    # Immune too, so that its sender is gone before anybody is asked.
    tale.transact("carl", "unknown/commit/orphan", CHECK_IMMUNITY_TIME_IN_SECONDS=IMMUNITY_S)
    tale.program.do("dismiss", "carl")


def _get_stuck(tale: Tale) -> None:
    tale.join("stuck", "stuck", "orderly", limit=ORDERLY_LIMIT)
    for body in ("first", "later", "last"):
        tale.send("stuck", body, TAGS="red", KEYS=f"key-{body}")


def _filter(tale: Tale) -> None:
    for body, tag in (("one", "A"), ("soon/done", "A"), ("two", "C"), ("three", "B"), ("four", "a")):
        tale.send("tags", body, TAGS=tag)
    tale.send("tags", "none")
    tale.send("tags", "last", TAGS="B")
    tale.join("tags", "tags", tags="A,||,B")
    # Their hashes are equal: a broker that looks at no more than those sends both.
    for body, tag in (("one", "Aa"), ("other", "BB"), ("last", "Aa")):
        tale.send("collision", body, TAGS=tag)
    tale.join("collision", "collision", tags="Aa")
    for amount in (5, 15, 25, 7):
        tale.send("sql", str(amount), amount=amount)
    tale.send("sql", "none")
    tale.join("sql", "sql", tags="sql:amount,BETWEEN,10,AND,20,OR,amount,=,25")


def _request(tale: Tale) -> None:
    tale.join("request", "request")
    tale.answers["request"] = tale.program.do("request", tale.name("request"), "reply", "KEYS=question")


def _batch(tale: Tale) -> None:
    tale.answers["batch"] = tale.ask("batch", tale.name("batch"), BATCH, 10)
    tale.join("batch", "batch", together=BATCH)
    tale.answers["large"] = tale.ask("batch", tale.name("large"), LARGE, LARGE_BYTES)
    tale.answers["split"] = tale.ask("split", tale.name("large"), LARGE, LARGE_BYTES, BATCH_BYTES_MAX)
    for body in ("one", "soon/done", "three"):
        tale.send("together", body)
    tale.join("together", "together", together=3)


def _keep_order(tale: Tale) -> None:
    """Send to one member, to two, and to the one that is left, each time until the queues are theirs."""
    tale.join("order", "order", "orderly")
    _send_round(tale)
    tale.alone = tale.consumed("order")
    tale.join("order-two", "order", "orderly")
    _send_rounds_until(tale, is_shared)
    tale.program.do("leave", "order-two")
    _send_rounds_until(tale, lambda owners: set().union(*owners.values()) == {"order"})


def is_shared(owners: dict[int, set[str]]) -> bool:
    """Tell whether each of the two members has half of the queues to itself."""
    shares = [sum(members == {member} for members in owners.values()) for member in ("order", "order-two")]
    return shares == [QUEUES_IN_ORDER // 2] * 2


def _send_rounds_until(tale: Tale, is_enough: Callable[[dict[int, set[str]]], bool]) -> None:
    due = time.monotonic()

    def probe() -> bool:
        nonlocal due
        if time.monotonic() < due:
            return False
        owners = _send_round(tale)
        tale.owners.append(owners)
        due = time.monotonic() + PROBE_PAUSE_S
        return is_enough(owners)

    tale.wait(probe, "the queues move as members come and go")


def _send_round(tale: Tale) -> dict[int, set[str]]:
    """Send three messages of each key, of which the second fails twice; return who had which queue."""
    seen = len(tale.consumed("order", "order-two"))
    for word in ("{}", "later/later/{}", "{}"):
        for key in KEYS:
            body = word.format(len(tale.sent_in_order[key]))
            tale.program.do("order", tale.name("order"), key, body)
            tale.sent_in_order[key].append(body)
    wanted = sum(map(len, tale.sent_in_order.values()))
    tale.wait(lambda: sum(map(len, tale.consumed_in_order().values())) == wanted, "a round in order")
    owners: dict[int, set[str]] = defaultdict(set)
    for event in tale.consumed("order", "order-two")[seen:]:
        owners[event["queue"]].add(event["member"])
    return owners


def _wait_until_all_came(tale: Tale) -> None:
    tale.wait_for("delay", len(DELAYED))
    tale.wait_for("tags", 5)
    tale.wait_for("collision", 2)
    tale.wait_for("sql", 2)
    tale.wait_for("batch", BATCH)
    tale.wait_for("together", 6)
    tale.wait_for("stuck", 4)
    tale.wait_for("transaction", len(tale.committing))
    tale.wait_for("retry", 13)
    tale.wait_for_stored(f"%DLQ%{tale.group('stuck')}", 1)
    tale.wait_for_stored(f"%DLQ%{tale.group('retry')}", 3)
    tale.wait_for_stored("TRANS_CHECK_MAX_TIME_TOPIC", 1, containing=tale.name("transaction"))
