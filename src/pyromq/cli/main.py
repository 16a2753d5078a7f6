"""One program: the servers, and a first producer and consumer for a shell.

This module lists the commands and is the border where errors become their cause, the next step, and an exit
status (`exit_status.py`). What a command needs is imported when it runs: `pyromq up` does not pay for a
progress bar, nor `pyromq produce` for the store.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer

from pyromq.cli import bench as bench_commands
from pyromq.cli import (
    client_commands,
    cluster_commands,
    dashboard_commands,
    delayed_commands,
    dlq_commands,
    doctor_commands,
    group_commands,
    job_commands,
    message_commands,
    output,
    pipeline_commands,
    server_commands,
    store_commands,
    topic_commands,
    torture_commands,
)
from pyromq.cli import top as top_command
from pyromq.cli.admin import commands as admin_commands
from pyromq.cli.asked import asked_of
from pyromq.cli.exit_status import DONE, FAILED, ended_by_errors
from pyromq.cli.options import examples
from pyromq.cli.plain_flags import show_flags_plainly
from pyromq.cli.start import imported
from pyromq.cli.version import installed_version
from pyromq.kernel import describe

STATUS_INTERRUPTED = 130

# What the list of commands is divided into.
START = "Start servers"
MESSAGES = "Messages"
OPERATE = "Look after a cluster"
SPARK = "Data pipelines on Spark"
PROGRAM = "Measure, and this program"

app = typer.Typer(
    name="pyromq",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="RocketMQ in Python: servers that RocketMQ's own clients take for the real one.",
    epilog="First steps: [cyan]pyromq up[/cyan] in one terminal,"
    ' [cyan]pyromq produce hello "Hello, world"[/cyan] and [cyan]pyromq consume hello[/cyan] in another.',
)


def main() -> None:
    """Run the program and end it with its exit status."""
    with border():
        imported()
        asked_of(app, sys.argv[1:])(prog_name="pyromq")


@contextmanager
def border() -> Iterator[None]:
    """End the program with the status of what goes wrong, after saying what."""
    try:
        with ended_by_errors():
            yield
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
    except SystemExit as ended:
        # Typer ends the program itself when a pipe is broken, with status 1.
        if isinstance(ended.__context__, BrokenPipeError) and output.is_reader_gone():
            _end_unread()
        raise
    except OSError as error:
        if isinstance(error, BrokenPipeError) and output.is_reader_gone():
            _end_unread()
        output.complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(STATUS_INTERRUPTED)


def _end_unread() -> NoReturn:
    """End well: whoever read our output has what it wanted, as `head` does."""
    # Nothing is left to be flushed.
    output.forget_standard_output()
    sys.exit(DONE)


def version() -> None:
    """Print the version, and at which speed it runs."""
    output.say(f"pyromq {installed_version()}, {describe()}")


def _version_asked(asked: bool) -> None:  # noqa: FBT001
    if asked:
        version()
        raise typer.Exit


@app.callback()
def options(
    *,
    is_version_asked: Annotated[
        bool, typer.Option("--version", help=version.__doc__, is_eager=True, callback=_version_asked)
    ] = False,
) -> None:
    """Take the options that stand before a command."""


app.command(
    rich_help_panel=START,
    epilog=examples(
        "pyromq up",
        "pyromq up --data ./data --set flushDiskType=SYNC_FLUSH",
        "pyromq up --listen 0.0.0.0 --advertise 10.0.0.5",
        "pyromq up --namesrv-port 0 --broker-port 0 --json",
        "pyromq up --brokers 2 --replicas 2 --sync",
    ),
)(server_commands.up)
app.command(
    rich_help_panel=MESSAGES,
    epilog=examples(
        'pyromq produce hello "Hello, world"',
        "pyromq produce orders --tag paid --key 42 --property city=Oslo '{\"id\": 42}'",
        "pyromq produce reminders 'call back' --delay 90m",
        "pyromq produce load x --count 10000 --rate 500",
        "tail -f app.log | pyromq produce logs",
    ),
)(client_commands.produce)
app.command(
    rich_help_panel=MESSAGES,
    epilog=examples(
        "pyromq consume hello",
        "pyromq consume orders --follow --from last --tags 'paid||sent'",
        "pyromq consume orders --group audit --count 100 --json",
        "pyromq consume orders --from time --time 2026-01-31T12:00:00",
    ),
)(client_commands.consume)
app.command(
    rich_help_panel=START, epilog=examples("pyromq namesrv", "pyromq namesrv -p 9877 --listen 0.0.0.0")
)(server_commands.namesrv)
app.command(
    rich_help_panel=START,
    epilog=examples(
        "pyromq broker -n 127.0.0.1:9876",
        "pyromq broker -c conf/broker.conf -n 'ns1:9876;ns2:9876'",
        "pyromq broker -c conf/broker.conf --check",
        "pyromq broker -n 127.0.0.1:9876 --port 10921 --set brokerName=broker-b",
        "pyromq broker -n ns:9876 --failover etcd://e1:2379,e2:2379,e3:2379 --set brokerRole=SYNC_MASTER",
    ),
)(server_commands.broker)
app.command(
    rich_help_panel=OPERATE,
    epilog=examples(
        "pyromq dashboard -n 127.0.0.1:9876",
        "pyromq dashboard -n 'ns1:9876;ns2:9876' --read-only",
        "PYROMQ_DASHBOARD_PASSWORD=… pyromq dashboard --listen 0.0.0.0 --host-name mq.example.org",
    ),
)(dashboard_commands.dashboard)
app.add_typer(delayed_commands.delayed, name="delayed", rich_help_panel=MESSAGES)
app.add_typer(pipeline_commands.pipeline, name="pipeline", rich_help_panel=SPARK)
store = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Look at a broker's files or back them up, running or not; nothing is changed.",
)
store.command(
    epilog=examples(
        "pyromq store verify ~/.local/share/pyromq",
        "pyromq store verify ./data/broker-a --json",
        "pyromq store verify /home/rocketmq/store -c broker.conf",
    )
)(store_commands.verify)
store.command(
    epilog=examples(
        "pyromq store dump ./data --topic orders --queue 0 --from 100 --to 199",
        "pyromq store dump ./data --topic orders --key 42 --json",
        "pyromq store dump ./data --position 1073741824 --limit 10",
    )
)(store_commands.dump)
store.command(
    epilog=examples(
        "pyromq store backup ./data /backup/broker-a",
        "pyromq store backup /home/rocketmq/store /backup/broker-a --prune -c broker.conf",
        "pyromq store backup ./data ./data-before-upgrade --link",
    )
)(store_commands.backup)
app.add_typer(store, name="store", rich_help_panel=OPERATE)
app.add_typer(dlq_commands.dlq, name="dlq", rich_help_panel=MESSAGES)
app.add_typer(job_commands.job, name="job", rich_help_panel=SPARK)
app.add_typer(bench_commands.bench, name="bench", rich_help_panel=PROGRAM)
app.add_typer(topic_commands.topic, name="topic", rich_help_panel=OPERATE)
app.add_typer(group_commands.group, name="group", rich_help_panel=OPERATE)
app.add_typer(message_commands.message, name="message", rich_help_panel=MESSAGES)
app.add_typer(cluster_commands.cluster, name="cluster", rich_help_panel=OPERATE)
app.add_typer(admin_commands.admin, name="admin", rich_help_panel=OPERATE)
app.command(
    rich_help_panel=OPERATE,
    epilog=examples(
        "pyromq doctor",
        "pyromq doctor -n 'ns1:9876;ns2:9876' --group billing --watch 30",
        "pyromq doctor --only disks --only replicas --json",
        "pyromq doctor --skip clocks || mail -s 'the cluster is not well' ops",
    ),
)(doctor_commands.doctor)
app.command(
    rich_help_panel=OPERATE,
    epilog=examples(
        "pyromq top",
        "pyromq top -n 'ns1:9876;ns2:9876' --interval 5 --rows 30",
        "pyromq top --once --json",
    ),
)(top_command.top)
app.command(
    rich_help_panel=PROGRAM,
    epilog=examples(
        "pyromq torture",
        "pyromq torture --minutes 10 --brokers 2 --replicas 2 --sync --data /mnt/disk --png run.png",
        "pyromq torture --faults kill,pause,full-disk,partition --seed 7",
        "pyromq torture --only transaction,staged --flush sync --access-control --json",
        "pyromq torture --replicas 2 --list-faults",
    ),
)(torture_commands.torture)
app.command(rich_help_panel=PROGRAM, epilog=examples("pyromq version"))(version)
show_flags_plainly(app)
