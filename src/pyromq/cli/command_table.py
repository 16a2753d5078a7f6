"""The commands of `pyromq`: where each is defined, and its place in the help.

A module is imported when its command runs, or when the whole program is asked for its help: `pyromq up` does
not pay for a progress bar, nor `pyromq produce` for the store.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

# Parts of the list of commands.
START = "Start servers"
MESSAGES = "Messages"
OPERATE = "Look after a cluster"
SPARK = "Data pipelines on Spark"
PROGRAM = "Measure, and this program"


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command, or a group of commands: the object of its name in a module."""

    name: str
    module: str
    panel: str
    #: The dataclass of its options, in the same module, if it can be started without typer.
    options: str | None = None
    examples: tuple[str, ...] = ()

    def load(self) -> Any:
        """Import the command: a function, or a typer program for a group."""
        return getattr(self._module(), self.name)

    def load_options(self) -> Any:
        """Import the class of its options; None where only typer reads them."""
        return None if self.options is None else getattr(self._module(), self.options)

    def _module(self) -> Any:
        return import_module(self.module)


COMMANDS = (
    CommandEntry(
        "up",
        "pyromq.cli.servers.server_commands",
        START,
        "UpOptions",
        (
            "pyromq up",
            "pyromq up --data ./data --set flushDiskType=SYNC_FLUSH",
            "pyromq up --listen 0.0.0.0 --advertise 10.0.0.5",
            "pyromq up --namesrv-port 0 --broker-port 0 --json",
            "pyromq up --brokers 2 --replicas 2 --sync",
        ),
    ),
    CommandEntry(
        "produce",
        "pyromq.cli.messages.client_commands",
        MESSAGES,
        examples=(
            'pyromq produce hello "Hello, world"',
            "pyromq produce orders --tag paid --key 42 --property city=Oslo '{\"id\": 42}'",
            "pyromq produce reminders 'call back' --delay 90m",
            "pyromq produce load x --count 10000 --rate 500",
            "tail -f app.log | pyromq produce logs",
        ),
    ),
    CommandEntry(
        "consume",
        "pyromq.cli.messages.client_commands",
        MESSAGES,
        examples=(
            "pyromq consume hello",
            "pyromq consume orders --follow --from last --tags 'paid||sent'",
            "pyromq consume orders --group audit --count 100 --json",
            "pyromq consume orders --from time --time 2026-01-31T12:00:00",
        ),
    ),
    CommandEntry(
        "namesrv",
        "pyromq.cli.servers.server_commands",
        START,
        "NamesrvOptions",
        ("pyromq namesrv", "pyromq namesrv -p 9877 --listen 0.0.0.0"),
    ),
    CommandEntry(
        "broker",
        "pyromq.cli.servers.server_commands",
        START,
        "BrokerOptions",
        (
            "pyromq broker -n 127.0.0.1:9876",
            "pyromq broker -c conf/broker.conf -n 'ns1:9876;ns2:9876'",
            "pyromq broker -c conf/broker.conf --check",
            "pyromq broker -n 127.0.0.1:9876 --port 10921 --set brokerName=broker-b",
            "pyromq broker -n ns:9876 --failover etcd://e1:2379,e2:2379,e3:2379 --set brokerRole=SYNC_MASTER",
        ),
    ),
    CommandEntry(
        "run",
        "pyromq.cli.service.run_commands",
        MESSAGES,
        examples=(
            "pyromq run billing:app",
            "pyromq run shop.billing:app -n 127.0.0.1:9876 --workers 4 --metrics-port 5558",
            "pyromq run billing:app --reload",
        ),
    ),
    CommandEntry(
        "dashboard",
        "pyromq.cli.servers.dashboard_commands",
        OPERATE,
        examples=(
            "pyromq dashboard -n 127.0.0.1:9876",
            "pyromq dashboard -n 'ns1:9876;ns2:9876' --read-only",
            "PYROMQ_DASHBOARD_PASSWORD=… pyromq dashboard --listen 0.0.0.0 --host-name mq.example.org",
        ),
    ),
    CommandEntry("delayed", "pyromq.cli.messages.delayed_commands", MESSAGES),
    CommandEntry("pipeline", "pyromq.cli.spark.pipeline_commands", SPARK),
    CommandEntry("store", "pyromq.cli.store_commands", OPERATE),
    CommandEntry("dlq", "pyromq.cli.messages.dlq_commands", MESSAGES),
    CommandEntry("job", "pyromq.cli.spark.job_commands", SPARK),
    CommandEntry("bench", "pyromq.cli.watch.bench", PROGRAM),
    CommandEntry("topic", "pyromq.cli.topic_commands", OPERATE),
    CommandEntry("group", "pyromq.cli.group_commands", OPERATE),
    CommandEntry("message", "pyromq.cli.messages.message_commands", MESSAGES),
    CommandEntry("cluster", "pyromq.cli.cluster_commands", OPERATE),
    CommandEntry("admin", "pyromq.cli.admin.commands", OPERATE),
    CommandEntry(
        "doctor",
        "pyromq.cli.watch.doctor_commands",
        OPERATE,
        examples=(
            "pyromq doctor",
            "pyromq doctor -n 'ns1:9876;ns2:9876' --group billing --watch 30",
            "pyromq doctor --production",
            "pyromq doctor --only disks --only replicas --json",
            "pyromq doctor --skip clocks || mail -s 'the cluster is not well' ops",
        ),
    ),
    CommandEntry(
        "top",
        "pyromq.cli.watch.top",
        OPERATE,
        examples=(
            "pyromq top",
            "pyromq top -n 'ns1:9876;ns2:9876' --interval 5 --rows 30",
            "pyromq top --once --json",
        ),
    ),
    CommandEntry(
        "torture",
        "pyromq.cli.torture.torture_commands",
        PROGRAM,
        examples=(
            "pyromq torture",
            "pyromq torture --minutes 10 --brokers 2 --replicas 2 --sync --data /mnt/disk --png run.png",
            "pyromq torture --faults kill,pause,full-disk,partition --seed 7",
            "pyromq torture --only transaction,staged --flush sync --access-control --json",
            "pyromq torture --replicas 2 --list-faults",
        ),
    ),
    CommandEntry(
        "health",
        "pyromq.cli.health_commands",
        OPERATE,
        examples=(
            "pyromq health",
            "pyromq health 10.0.0.5:5560 --live",
            "pyromq health http://127.0.0.1:5557/health/ready --json",
        ),
    ),
    CommandEntry(
        "version",
        "pyromq.cli.version",
        PROGRAM,
        "VersionOptions",
        ("pyromq version", "pyromq version --json"),
    ),
)


def entry_of(name: str) -> CommandEntry | None:
    """Return the command of a name, if there is one."""
    return next((each for each in COMMANDS if each.name == name), None)
