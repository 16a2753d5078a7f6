"""A cluster with something in it, and `pyromq` as it is typed."""

import json
from dataclasses import dataclass
from typing import Any

from typer.testing import CliRunner, Result

from pyromq import Admin, Message, Producer, PullConsumer
from pyromq.cli.main import app
from pyromq.model import MessageQueue, SendResult


@dataclass(frozen=True, slots=True)
class AdminStage:
    """Types commands against a name server, ours or Apache's."""

    name_server: str

    def run(self, *words: str) -> Result:
        """Run a command of `pyromq`; one that ends by an error of ours has its status all the same."""
        return CliRunner().invoke(app, [*words, "-n", self.name_server])

    def admin(self, *words: str) -> Result:
        """Run a command of `pyromq admin`."""
        return self.run("admin", *words)

    def records(self, *words: str) -> list[dict[str, Any]]:
        """Return what a command says in JSON; it must end well."""
        ended = self.run(*words, "--json")
        assert ended.exit_code == 0, ended.output + repr(ended.exception)
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def fill(self, topic: str, count: int = 16, queues: int = 2) -> list[SendResult]:
        """Create a topic and send messages with keys k0, k1, … and the tags a and b in turn."""
        with Admin(self.name_server) as admin:
            admin.create_topic(topic, queues)
        with Producer("senders", self.name_server) as producer:
            return [
                producer.send(Message(topic, f"body {at}".encode(), tags="ab"[at % 2], keys=[f"k{at}"]))
                for at in range(count)
            ]

    def commit(self, topic: str, group: str, offset: int) -> None:
        """Let a group be at an offset of each queue."""
        with PullConsumer(group, self.name_server) as consumer:
            for queue in consumer.queues(topic):
                consumer.commit(queue, offset)

    def progress(self, topic: str, group: str) -> dict[MessageQueue, int | None]:
        """Return where a group is in each queue."""
        with PullConsumer(group, self.name_server) as consumer:
            return {queue: consumer.committed(queue) for queue in consumer.queues(topic)}
