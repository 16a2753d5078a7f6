"""Measure how long a consumer that started before its topic existed waits for the first message.

    .venv/bin/python bench/first_message.py          # about 3 minutes; only prints

Three brokers are measured at once: ours, 4.9 and 5.5. Members start, each of a group of its own and for a
topic of its own that is not there. Then the first message of each topic is sent, one every few seconds, so
that the members' own intervals are met at different moments, and it is measured until its member has it.
"Known" groups had a member before, so that the broker has their retry topic and the member finds the broker;
"new" groups had none. All clients have their default settings.
"""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know how to start servers, and Java's clients

from harness import servers  # noqa: E402
from harness.clients import CLIENTS  # noqa: E402
from harness.servers import Cluster  # noqa: E402

import pyromq  # noqa: E402
from pyromq import Admin, ConsumeFrom, Message  # noqa: E402
from pyromq.testing.waiting import eventually  # noqa: E402

KINDS = ("ours", "apache-4.9", "apache-5")
JAVA = ("java-4.9.8", "java-5.5.0")
MEMBERS, PAUSE_S, PATIENCE_S = 5, 4.1, 90


def start(kind: str, folder: Path, closing: ExitStack) -> Cluster:
    """Start a name server and a broker."""
    folder.mkdir()
    if kind == "ours":
        return servers.start_ours(folder, closing)
    return servers.start_apache(kind, folder, closing)


def of_java(cluster: Cluster, client: str, folder: Path) -> dict[str, list[float]]:
    """Return the waiting times of Java's members, of known groups and of new ones."""
    folder.mkdir()
    program = CLIENTS[client].start(folder, cluster.name_server)
    short = client.replace(".", "_")
    try:
        with Admin(cluster.name_server) as admin:
            admin.create_topic("there", 1)
        for at in range(MEMBERS):
            program.do("join", f"before-{at}", f"{short}-known-{at}", "there", "concurrently", "*")
        time.sleep(2)
        for at in range(MEMBERS):
            program.do("leave", f"before-{at}")
        for at in range(MEMBERS):
            for how in ("known", "new"):
                name = f"{short}-{how}-{at}"
                program.do("join", f"member-{how}-{at}", name, f"topic-{name}", "concurrently", "*")
        return first_messages(
            cluster, short, lambda topic: any(one["topic"] == topic for one in program.of("consumed"))
        )
    finally:
        program.close()


def of_python(cluster: Cluster) -> dict[str, list[float]]:
    """Return the waiting times of our own client's members; all their groups are new."""
    got: set[str] = set()
    with ExitStack() as closing:
        for at in range(MEMBERS):
            for how in ("known", "new"):
                name = f"python-{how}-{at}"
                consumer = pyromq.PushConsumer(
                    name,
                    cluster.name_server,
                    listener=lambda message: got.add(message.topic),
                    consume_from=ConsumeFrom.FIRST_OFFSET,
                )
                consumer.subscribe(f"topic-{name}")
                closing.enter_context(consumer)
        time.sleep(20)
        return first_messages(cluster, "python", lambda topic: topic in got)


def first_messages(cluster: Cluster, client: str, is_there) -> dict[str, list[float]]:
    """Send the first message of each topic, and wait for it."""
    waited: dict[str, list[float]] = {"known": [], "new": []}
    with (
        pyromq.Producer(f"first-{client}", cluster.name_server) as producer,
        ThreadPoolExecutor(20) as threads,
    ):
        waiting = []
        for at in range(MEMBERS):
            for how in waited:
                topic = f"topic-{client}-{how}-{at}"
                producer.send(Message(topic, b"0" * 4))
                waiting.append((how, threads.submit(_wait, topic, is_there, time.monotonic())))
            time.sleep(PAUSE_S)
        for how, future in waiting:
            waited[how].append(future.result())
    return waited


def _wait(topic: str, is_there, began: float) -> float:
    eventually(lambda: is_there(topic), PATIENCE_S, what=f"the first message of {topic}")
    return time.monotonic() - began


def main() -> None:
    """Measure, and print medians."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        ExitStack() as closing,
        ThreadPoolExecutor(20) as threads,
    ):
        folder = Path(temporary)
        clusters = {kind: start(kind, folder / kind, closing) for kind in KINDS}
        found = {}
        for kind, cluster in clusters.items():
            for client in JAVA:
                found[client, kind] = threads.submit(of_java, cluster, client, folder / f"{kind}-{client}")
            found["python", kind] = threads.submit(of_python, cluster)
        for (client, kind), future in found.items():
            try:
                waited = future.result()
            except Exception as error:  # noqa: BLE001  the other rows are worth printing
                print(f"{client:12} {kind:12} failed: {error}")
                continue
            for how, seconds in waited.items():
                shown = " ".join(f"{one:5.1f}" for one in sorted(seconds))
                print(
                    f"{client:12} {kind:12} {how:6} median {median(seconds):5.1f} s   ({shown})", flush=True
                )


if __name__ == "__main__":
    main()
