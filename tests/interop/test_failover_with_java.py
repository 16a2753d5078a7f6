"""Clients of Java and of ours, in order, while their master is killed and later replaced by hand.

The group is ours and elects its master by etcd; the name server is ours or Apache's. The clients ask it every
second, where Java's default is every 30: so long a Java producer would wait after the switch. An application
that wants order sends a message again until it is acknowledged, and then the next.
"""

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from harness.missing import unavailable
from harness.observer import Observer, Stored
from harness.replicas import APACHE, BROKER, OURS, Log
from harness.servers import PYROMQ
from harness.switching import PATIENCE_S, JavaClients, PythonClients, Read, Sent, SwitchingGroup
from harness.toolchains import Unavailable

from pyromq import Admin
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

TOPIC, QUEUES = "switched", 4
#: Acknowledged messages of each producer that tell that it goes on.
ENOUGH = 100
Clients = JavaClients | PythonClients


@dataclass
class Story:
    """What the clients and the brokers said."""

    ports: list[int] = field(default_factory=list)
    """Of the masters, in turn."""
    sent: dict[str, list[Sent]] = field(default_factory=dict)
    read: dict[str, list[Read]] = field(default_factory=dict)
    stored: list[Stored] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)
    ids_at_the_end: dict[int, str] = field(default_factory=dict)


@pytest.fixture(scope="module", params=[OURS, APACHE], ids=["our name server", "Apache's name server"])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The story, told once for each name server."""
    with ExitStack() as closing:
        try:
            folder = tmp_path_factory.mktemp("switched")
            group = SwitchingGroup(folder, closing, name_server=request.param)
            java = JavaClients.start(folder / "java", group.name_server)
        except Unavailable as error:
            unavailable(error)
        closing.callback(java.close)
        python = PythonClients(group.name_server)
        closing.callback(python.close)
        group.start()
        yield tell(group, [java, python])


def tell(group: SwitchingGroup, clients: list[Clients]) -> Story:
    """Kill the master, let it come back, and make it master again by hand."""
    story = Story()
    observer = Observer(group.name_server)
    with Admin(group.name_server) as admin:
        admin.create_topic(TOPIC, QUEUES)
    eventually(lambda: observer.queues(TOPIC), PATIENCE_S, what="the topic has a route")
    for each in clients:
        each.consume(TOPIC)
        each.produce(TOPIC, QUEUES)
    first = group.master()
    story.ports.append(wait_for_sends(clients, first.address))
    first.kill()
    second = group.wait_for_another(first)
    story.ports.append(wait_for_sends(clients, second.address))
    first.start()
    group.wait_until_whole()
    switch_to(first.address, group.name_server)
    assert group.wait_for_another(second) is first
    story.ports.append(wait_for_sends(clients, first.address))
    group.wait_until_whole()
    for each in clients:
        each.rest()
    story.sent = {each.name: list(each.sent) for each in clients}
    acknowledged = {(one.queue, one.offset) for sent in story.sent.values() for one in sent}
    for each in clients:
        eventually(
            lambda each=each: {(one.queue, one.offset) for one in each.read} >= acknowledged,
            PATIENCE_S,
            what=f"{each.name} has read all",
        )
    story.read = {each.name: list(each.read) for each in clients}
    story.stored = observer.stored(TOPIC)
    story.ids_at_the_end = observer.replicas(BROKER)
    story.logs = eventually(lambda: equal_logs(group), PATIENCE_S, what="the replicas' logs are equal")
    return story


def wait_for_sends(clients: list[Clients], address: str) -> int:
    """Wait until each producer has sent enough, from now on, to one broker; return the broker's port."""
    port = int(address.rpartition(":")[2])
    before = {each.name: len(each.sent) for each in clients}
    for each in clients:
        eventually(
            lambda each=each: sum(one.port == port for one in each.sent[before[each.name] :]) >= ENOUGH,
            PATIENCE_S,
            what=f"{each.name} sends to {address}",
        )
    return port


def switch_to(address: str, name_server: str) -> None:
    """Make a replica the master by hand."""
    command = [*PYROMQ, "admin", "switchMaster", "-b", BROKER, "-t", address, "-n", name_server]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def equal_logs(group: SwitchingGroup) -> list[Log]:
    """Return the replicas' logs if they are the same."""
    logs = [replica.log() for replica in group.replicas]
    return logs if all(log == logs[0] for log in logs) else []


def by_queue(stored: list[Stored]) -> dict[int, list[str]]:
    """Return the texts of each queue, in order."""
    found: dict[int, list[str]] = defaultdict(list)
    for one in sorted(stored, key=lambda one: (one.queue, one.offset)):
        found[one.queue].append(one.body.decode())
    return found


def numbers(bodies: list[str], sender: str) -> list[int]:
    """Return the numbers of one sender's messages."""
    return [int(body.rpartition("-")[2]) for body in bodies if body.startswith(f"{sender}-")]


SENDERS = pytest.mark.parametrize("client", ["java", "python"])


@SENDERS
@pytest.mark.row("HA-09")
def test_a_producer_goes_on_at_each_new_master(story: Story, client: str) -> None:
    masters = [one.port for one in story.sent[client]]
    assert set(masters) == set(story.ports)
    assert story.ports[0] == story.ports[2] != story.ports[1]


@SENDERS
def test_nothing_that_was_acknowledged_is_lost_or_moved(story: Story, client: str) -> None:
    stored = {(one.queue, one.offset): one.body.decode() for one in story.stored}
    missing = [one for one in story.sent[client] if stored.get((one.queue, one.offset)) != one.body]
    assert not missing


@SENDERS
def test_messages_of_one_producer_stay_in_order(story: Story, client: str) -> None:
    orders = [numbers(bodies, client) for bodies in by_queue(story.stored).values()]

    assert any(orders)
    assert orders == [sorted(order) for order in orders]


@SENDERS
def test_a_consumer_reads_every_queue_without_a_gap(story: Story, client: str) -> None:
    read = {(one.queue, one.offset): one.body for one in story.read[client]}
    stored = {(one.queue, one.offset): one.body.decode() for one in story.stored}
    assert {place: body for place, body in stored.items() if place not in read} == {}
    assert {place: body for place, body in read.items() if stored[place] != body} == {}


@SENDERS
def test_a_consumer_reads_in_order_and_an_offset_never_has_two_texts(story: Story, client: str) -> None:
    first: dict[tuple[int, int], str] = {}
    for one in story.read[client]:
        assert first.setdefault((one.queue, one.offset), one.body) == one.body
    for queue in range(QUEUES):
        offsets = [offset for number, offset in first if number == queue]
        assert offsets == sorted(offsets)


def test_the_name_server_knows_the_new_master_and_its_slave(story: Story) -> None:
    assert len(story.ids_at_the_end) == 2
    assert int(story.ids_at_the_end[0].rpartition(":")[2]) == story.ports[-1]


def test_the_replicas_logs_are_equal_byte_for_byte(story: Story) -> None:
    one, other = story.logs
    assert one.data
    assert one == other
