"""One program: the servers, and a first producer and consumer for a shell.

This module lists the commands and is the border where errors become one line and an exit status: 2 for a
wrong setting or option, 1 for anything else that went wrong. What a command needs is imported when it runs:
`pyromq up` does not pay for a progress bar, nor `pyromq produce` for the store.
"""

import sys
from typing import Annotated

import typer

from pyromq.cli import bench as bench_commands
from pyromq.cli import (
    client_commands,
    cluster_commands,
    dashboard_commands,
    delayed_commands,
    dlq_commands,
    group_commands,
    job_commands,
    message_commands,
    output,
    pipeline_commands,
    server_commands,
    store_commands,
    topic_commands,
)
from pyromq.cli import top as top_command
from pyromq.cli.admin import commands as admin_commands
from pyromq.cli.version import installed_version
from pyromq.errors import ConfigError, PyroError
from pyromq.kernel import describe

STATUS_FAILED = 1
STATUS_MISUSED = 2
STATUS_INTERRUPTED = 130

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
    try:
        app(prog_name="pyromq")
    except ConfigError as error:
        output.complain(str(error))
        sys.exit(STATUS_MISUSED)
    except PyroError as error:
        output.complain(str(error))
        sys.exit(STATUS_FAILED)
    except BrokenPipeError:
        # Whoever read our output has what it wanted, as `head` does; nothing is left to be flushed.
        output.forget_standard_output()
        sys.exit(STATUS_FAILED)
    except OSError as error:
        output.complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(STATUS_FAILED)
    except KeyboardInterrupt:
        sys.exit(STATUS_INTERRUPTED)


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


def _examples(*lines: str) -> str:
    # An empty line makes a paragraph of each; rich would run them together.
    return "\n\n".join(["Examples:", *(f"[cyan]{line}[/cyan]" for line in lines)])


app.command(
    epilog=_examples(
        "pyromq up",
        "pyromq up --data ./data --set flushDiskType=SYNC_FLUSH",
        "pyromq up --listen 0.0.0.0 --advertise 10.0.0.5",
        "pyromq up --namesrv-port 0 --broker-port 0 --json",
        "pyromq up --brokers 2 --replicas 2 --sync",
    )
)(server_commands.up)
app.command(
    epilog=_examples(
        'pyromq produce hello "Hello, world"',
        "pyromq produce orders --tag paid --key 42 --property city=Oslo '{\"id\": 42}'",
        "pyromq produce reminders 'call back' --delay 90m",
        "pyromq produce load x --count 10000 --rate 500",
        "tail -f app.log | pyromq produce logs",
    )
)(client_commands.produce)
app.command(
    epilog=_examples(
        "pyromq consume hello",
        "pyromq consume orders --follow --from last --tags 'paid||sent'",
        "pyromq consume orders --group audit --count 100 --json",
        "pyromq consume orders --from time --time 2026-01-31T12:00:00",
    )
)(client_commands.consume)
app.command(epilog=_examples("pyromq namesrv", "pyromq namesrv -p 9877 --listen 0.0.0.0"))(
    server_commands.namesrv
)
app.command(
    epilog=_examples(
        "pyromq broker -n 127.0.0.1:9876",
        "pyromq broker -c conf/broker.conf -n 'ns1:9876;ns2:9876'",
        "pyromq broker -n 127.0.0.1:9876 --port 10921 --set brokerName=broker-b",
        "pyromq broker -n ns:9876 --failover etcd://e1:2379,e2:2379,e3:2379 --set brokerRole=SYNC_MASTER",
    )
)(server_commands.broker)
app.command(
    epilog=_examples(
        "pyromq dashboard -n 127.0.0.1:9876",
        "pyromq dashboard -n 'ns1:9876;ns2:9876' --read-only",
        "PYROMQ_DASHBOARD_PASSWORD=… pyromq dashboard --listen 0.0.0.0 --host-name mq.example.org",
    )
)(dashboard_commands.dashboard)
delayed = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Messages that wait for their time: list them, look at one, take one back.",
)
delayed.command(
    "list",
    epilog=_examples(
        "pyromq delayed list",
        "pyromq delayed list orders --from +1h --to +2h",
        "pyromq delayed list orders --key 42",
        "pyromq delayed list orders --all --json",
    ),
)(delayed_commands.list_waiting)
delayed.command(epilog=_examples("pyromq delayed show 7F00000100010CA5D2F80000002A0001 --json"))(
    delayed_commands.show
)
delayed.command(
    epilog=_examples(
        "pyromq delayed recall 7F00000100010CA5D2F80000002A0001",
        "pyromq delayed list orders --all --json | jq -r .recall_handle | pyromq delayed recall -",
    )
)(delayed_commands.recall)
app.add_typer(delayed, name="delayed")
pipeline = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Pipelines on Spark, from a topic through SQL to topics and tables: begin, check, run.",
)
pipeline.command(epilog=_examples("pyromq pipeline init orders", "pyromq pipeline init orders/pipeline.yml"))(
    pipeline_commands.init
)
pipeline.command(epilog=_examples("pyromq pipeline check orders", "pyromq pipeline check orders.yml --json"))(
    pipeline_commands.check
)
pipeline.command(
    epilog=_examples(
        "pyromq pipeline run orders",
        "pyromq pipeline run orders.yml --once --create-topics",
        "pyromq pipeline run orders.yml --master spark://host:7077 --conf spark.executor.memory=2g",
        "pyromq pipeline run orders --remote sc://host:15002",
    )
)(pipeline_commands.run)
app.add_typer(pipeline, name="pipeline")
store = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Look at a broker's files, running or not; nothing is changed.",
)
store.command(
    epilog=_examples(
        "pyromq store verify ~/.local/share/pyromq",
        "pyromq store verify ./data/broker-a --json",
        "pyromq store verify /home/rocketmq/store -c broker.conf",
    )
)(store_commands.verify)
store.command(
    epilog=_examples(
        "pyromq store dump ./data --topic orders --queue 0 --from 100 --to 199",
        "pyromq store dump ./data --topic orders --key 42 --json",
        "pyromq store dump ./data --position 1073741824 --limit 10",
    )
)(store_commands.dump)
app.add_typer(store, name="store")
dlq = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Dead letters, which groups gave up: list them, look at one, replay them.",
)
dlq.command(
    "list",
    epilog=_examples(
        "pyromq dlq list",
        "pyromq dlq list billing --since 2h --tag paid",
        "pyromq dlq list billing --limit 0 --json > dead.jsonl",
    ),
)(dlq_commands.list_letters)
dlq.command(epilog=_examples("pyromq dlq show billing 7F00000113B1251A69D744DD51240000"))(dlq_commands.show)
dlq.command(
    epilog=_examples(
        "pyromq dlq replay billing --key 42 --dry-run",
        "pyromq dlq replay billing --since 2026-01-31T12:00:00 --tag 'paid||sent' --rate 50",
        "pyromq dlq replay billing --all --yes --json",
        "pyromq dlq replay billing --topic orders --to-topic",
    )
)(dlq_commands.replay)
app.add_typer(dlq, name="dlq")
job = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Whole topics with Spark: archive, verify, replay, mirror; each goes on where it was stopped.",
)
job.command(
    epilog=_examples(
        "pyromq job archive orders payments --to /data/archive",
        "pyromq job archive orders --to /data/archive --follow --interval 15m",
        "pyromq job archive orders --to /data/archive --master spark://HOST:7077 --json",
    )
)(job_commands.archive)
job.command(
    epilog=_examples(
        "pyromq job verify /data/archive",
        "pyromq job verify /data/archive --files-only --json",
    )
)(job_commands.verify)
job.command(
    epilog=_examples(
        "pyromq job replay --archive /archive --topic orders --to again --where \"tags = 'x'\" --dry-run",
        "pyromq job replay --archive /data/archive --topic orders --since 7d --to orders-again --rate 500",
        "pyromq job replay --dlq billing --where \"properties['city'] = 'Oslo'\" --to-origin",
    )
)(job_commands.replay)
job.command(
    epilog=_examples(
        "pyromq job mirror orders --from ns-a:9876 --to ns-b:9876 --group mirror-b",
        "pyromq job mirror orders payments --from ns-a:9876 --to ns-b:9876 --once",
    )
)(job_commands.mirror)
app.add_typer(job, name="job")
bench = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Load for any RocketMQ-compatible broker: how many messages a second, and how long each takes.",
    epilog=_examples(
        "pyromq bench produce",
        "pyromq bench produce -c 64 -w 16 -s 128 --server-pid 4711",
        "pyromq bench produce --rate 5000 --json",
        "pyromq bench consume --again",
        "pyromq bench roundtrip --rate 1000",
        "pyromq bench delay --level 2",
        "pyromq bench many -c 10000 -T 10000 -G 1000 --server-pid 4711",
    ),
)
bench.command(
    epilog=_examples(
        "pyromq bench produce -c 1 -w 1",
        "pyromq bench produce -c 64 -w 16 -s 128 -p 2",
        "pyromq bench produce -b 32 --count 320000",
        "pyromq bench produce --rate 5000 -d 30 --json",
    )
)(bench_commands.produce)
bench.command(
    epilog=_examples(
        "pyromq bench consume",
        "pyromq bench consume -t orders --again -d 30 --pull 64",
    )
)(bench_commands.consume)
bench.command(
    epilog=_examples(
        "pyromq bench roundtrip",
        "pyromq bench roundtrip --rate 5000 -p 2 -d 30",
    )
)(bench_commands.roundtrip)
bench.command(
    epilog=_examples(
        "pyromq bench delay",
        "pyromq bench delay --level 3 --rate 10000 --count 100000",
        "pyromq bench delay --timer-ms 1500 --json",
    )
)(bench_commands.delay)
bench.command(
    epilog=_examples(
        "pyromq bench many",
        "pyromq bench many -c 10000 -T 10000 -Q 8 -G 1000 --server-pid 4711",
    )
)(bench_commands.many)
app.add_typer(bench, name="bench")
app.add_typer(topic_commands.topic, name="topic")
app.add_typer(group_commands.group, name="group")
app.add_typer(message_commands.message, name="message")
app.add_typer(cluster_commands.cluster, name="cluster")
app.add_typer(admin_commands.admin, name="admin")
app.command(
    epilog=_examples(
        "pyromq top",
        "pyromq top -n 'ns1:9876;ns2:9876' --interval 5 --rows 30",
        "pyromq top --once --json",
    )
)(top_command.top)
app.command()(version)
