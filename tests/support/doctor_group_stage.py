"""A group to be examined: a topic, members that do as the test says, and `pyromq doctor` as it is typed."""

import json
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from push_stage import FIRST, QUICK, own
from typer.testing import CliRunner, Result

import pyromq
from pyromq import Message, ReceivedMessage
from pyromq.cli.main import app
from pyromq.model import MessageQueue
from pyromq.testing.waiting import eventually

#: Seconds that the doctor watches, unless a test says otherwise.
WATCH_S = 0.2

Finding = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What the doctor said."""

    status: int
    findings: list[Finding]
    could_not: list[str]

    def of(self, check: str) -> list[Finding]:
        """Return what one check found."""
        return [one for one in self.findings if one["check"] == check]


class Third:
    """A listener that reads one message of three, however slow its machine is, until it may read all."""

    def __init__(self) -> None:
        self.may_hurry = threading.Event()
        self._sent_count = 0
        self._may_read = threading.Semaphore(0)

    def sent(self) -> None:
        """Note that a message was sent."""
        self._sent_count += 1
        if self._sent_count % 3 == 0:
            self._may_read.release()

    def __call__(self, _message: ReceivedMessage) -> None:
        while not self.may_hurry.is_set() and not self._may_read.acquire(timeout=0.05):
            pass


@dataclass(slots=True)
class GroupStage:
    """One topic and one group of a cluster."""

    name_server: str
    topic: str
    group: str
    closing: ExitStack
    producer: pyromq.Producer
    admin: pyromq.Admin
    consumers: list[pyromq.PushConsumer] = field(default_factory=list)
    #: Seconds within which a finding must come, or go.
    patience_s: float = 60

    def member(
        self,
        instance: str,
        listener: Callable[..., object] = lambda _message: None,
        *,
        tags: str = "*",
        sql: str | None = None,
        **more: Any,
    ) -> pyromq.PushConsumer:
        """Start a member of the group under an instance name, until the end of the test."""
        consumer = pyromq.PushConsumer(
            self.group, self.name_server, listener=listener, instance_name=instance, **QUICK | FIRST | more
        )
        consumer.subscribe(self.topic, tags, sql=sql)
        self.consumers.append(consumer)
        return self.closing.enter_context(consumer)

    def send(self, count: int, **more: Any) -> None:
        """Send messages to the topic."""
        for number in range(count):
            self.producer.send(Message(self.topic, b"%d" % number, **more))

    @contextmanager
    def sending(self, queue: MessageQueue, after_each: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Send messages to one queue, one after the other, until the end of the block."""
        is_over = threading.Event()

        def send() -> None:
            while not is_over.wait(0.01):
                self.producer.send(Message(self.topic, b"next"), queue=queue)
                after_each()

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            is_over.set()
            sender.join()

    def settled(self, queue_count: int) -> None:
        """Wait until the members have so many queues, together."""
        eventually(lambda: sum(len(own(each, self.topic)) for each in self.consumers) == queue_count)

    def has_read(self, count: int, timeout_s: float = 60) -> None:
        """Wait until brokers know that the group has read so many messages of the topic."""

        def is_there() -> bool:
            queues = self.admin.group_progress(self.group, self.topic).queues
            return sum(one.consumer_offset for one in queues.values()) == count

        eventually(is_there, timeout_s)

    def typed(self, *words: str) -> Result:
        """Type a command of `pyromq`."""
        return CliRunner().invoke(app, [*words, "-n", self.name_server])

    def ask(self, *words: str, watch_s: float = WATCH_S) -> Diagnosis:
        """Have the group examined, with further words of the command."""
        ended = self.typed("doctor", "-g", self.group, "--watch", str(watch_s), "--json", *words)
        assert ended.exit_code in (0, 1), ended.output + repr(ended.exception)
        said = json.loads(ended.stdout)
        assert said["well"] == (ended.exit_code == 0)
        return Diagnosis(ended.exit_code, said["findings"], said["could_not"])

    def found(self, check: str, *, watch_s: float = WATCH_S, severity: str | None = None) -> Finding:
        """Have the group examined until a check finds just one thing, so bad if that matters; return it."""

        def look() -> Finding | None:
            findings = self.ask("--only", check, watch_s=watch_s).of(check)
            is_it = len(findings) == 1 and severity in (None, findings[0]["severity"])
            return findings[0] if is_it else None

        return eventually(look, self.patience_s, what=f"one finding of {check}")

    def is_cured(self, check: str) -> None:
        """Wait until a check finds nothing any more, not even a note."""
        eventually(
            lambda: not self.ask("--only", check).of(check), self.patience_s, what=f"no finding of {check}"
        )

    def obey(self, finding: Finding, *changed: tuple[str, str]) -> None:
        """Run the commands of an advice as they are pasted, with words replaced; each must end well."""
        for line in finding["do"].splitlines():
            if line.startswith("pyromq "):
                for old, new in changed:
                    line = line.replace(old, new)
                ended = CliRunner().invoke(app, shlex.split(line)[1:])
                assert ended.exit_code in (0, 3), line + ended.output + repr(ended.exception)


@contextmanager
def group_stage(name_server: str, topic: str, queues: int = 4) -> Iterator[GroupStage]:
    """Create a topic, and give a group for it."""
    with ExitStack() as closing:
        admin = closing.enter_context(pyromq.Admin(name_server))
        admin.create_topic(topic, queue_count=queues)
        producer = closing.enter_context(pyromq.Producer("senders", name_server))
        yield GroupStage(name_server, topic, f"g-{topic}", closing, producer, admin)
