"""`pyromq bench`: load for any RocketMQ-compatible broker, and a table of the results."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli import options, output
from pyromq.cli.options import examples

if TYPE_CHECKING:
    from pyromq.bench.crowd import CrowdReport
    from pyromq.bench.histogram import LatencyHistogram
    from pyromq.bench.workload import BenchReport, Workload

bench = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Load for any RocketMQ-compatible broker: how many messages a second, and how long each takes.\n\n"
    "The shape of a load is what decides: one request under way on each of many connections (-c 64 -w 1) is"
    " what most clients make, and costs a broker several times as much a message as many on few"
    " (-c 8 -w 64).\n\n"
    "TLS and keys come from the environment, as for all commands: PYROMQ_USE_TLS, PYROMQ_ACCESS_KEY,"
    " PYROMQ_SECRET_KEY.",
    epilog=examples(
        "pyromq bench produce",
        "pyromq bench produce -c 64 -w 16 -s 128 --server-pid 4711",
        "pyromq bench produce --rate 5000 --json",
        "pyromq bench consume --again",
        "pyromq bench roundtrip --rate 1000",
        "pyromq bench delay --level 2",
        "pyromq bench transactions -c 8 -w 16",
        "pyromq bench send-back -t bench",
        "pyromq bench many -c 10000 -T 10000 -G 1000 --server-pid 4711",
    ),
)


DEFAULT_TOPIC = "bench"
LOAD = "Load"

Topic = Annotated[str, typer.Option("-t", "--topic", metavar="TOPIC", help="The topic; created if missing.")]
Connections = Annotated[
    int, typer.Option("-c", "--connections", min=1, metavar="N", help="Connections.", rich_help_panel=LOAD)
]
UnderWay = Annotated[
    int,
    typer.Option(
        "-w",
        "--under-way",
        min=1,
        metavar="N",
        help="Requests under way on each connection.",
        rich_help_panel=LOAD,
    ),
]
Size = Annotated[
    int,
    typer.Option("-s", "--size", min=1, metavar="BYTES", help="Bytes of a body.", rich_help_panel=LOAD),
]
Batch = Annotated[
    int, typer.Option("-b", "--batch", min=1, metavar="N", help="Messages a send.", rich_help_panel=LOAD)
]
Queues = Annotated[
    int,
    typer.Option("-q", "--queues", min=1, metavar="N", help="Queues of the topic, if it is created."),
]
Duration = Annotated[
    float, typer.Option("-d", "--duration", min=0.1, metavar="S", help="Seconds that are measured.")
]
WarmUp = Annotated[
    float, typer.Option("--warm-up", min=0, metavar="S", help="Seconds before, which are not measured.")
]
Count = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Stop after so many messages, all measured, instead of a time."),
]
Processes = Annotated[
    int,
    typer.Option("-p", "--processes", min=1, metavar="N", help="Processes of the generator."),
]
ServerPid = Annotated[
    int | None,
    typer.Option(
        metavar="PID", help="The broker's process, if it is on this machine: its CPU time is told too."
    ),
]


@bench.command(
    epilog=examples(
        "pyromq bench produce -c 1 -w 1",
        "pyromq bench produce -c 64 -w 16 -s 128 -p 2",
        "pyromq bench produce -b 32 --count 320000",
        "pyromq bench produce --rate 5000 -d 30 --json",
        "pyromq bench produce -c 500 -w 1 --keys --server-pid 4711",
        "pyromq bench produce -c 64 -w 1 --binary",
        "pyromq bench produce -c 50 --rate 2000 --idle 5000 --server-pid 4711",
    )
)
def produce(
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    topic: Topic = DEFAULT_TOPIC,
    connections: Connections = 8,
    under_way: UnderWay = 16,
    size: Size = 1024,
    batch: Batch = 1,
    rate: Annotated[
        float | None,
        typer.Option(
            "-r",
            "--rate",
            min=0.1,
            metavar="N",
            help="Messages a second, sent when due whatever became of those before (default: as fast as"
            " answers come). Latency counts from when a message was due.",
            rich_help_panel=LOAD,
        ),
    ] = None,
    queues: Queues = 8,
    keys: Annotated[
        bool,
        typer.Option("--keys", help="Give each message a key of its own.", rich_help_panel=LOAD),
    ] = False,
    binary: Annotated[
        bool,
        typer.Option("--binary", help="Binary headers instead of JSON.", rich_help_panel=LOAD),
    ] = False,
    idle: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Connections in consumer groups that do nothing besides; with --server-pid their memory.",
            rich_help_panel=LOAD,
        ),
    ] = 0,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    count: Count = None,
    processes: Processes = 1,
    server_pid: ServerPid = None,
    as_json: options.Json = False,
) -> None:
    """Send messages and measure until each is acknowledged."""
    from pyromq.bench.workload import LoadKind, Workload
    from pyromq.cli.credentials import client_settings

    workload = Workload(
        kind=LoadKind.PRODUCE,
        topic=topic,
        connections=connections,
        under_way=under_way,
        size=size,
        batch=batch,
        rate=rate,
        queues=queues,
        has_keys=keys,
        is_binary=binary,
        idle=idle,
        warm_up_s=warm_up,
        duration_s=duration,
        count=count,
        processes=processes,
        client=client_settings(),
    )
    _run(workload, name_server, server_pid, is_json=as_json)


@bench.command(
    epilog=examples(
        "pyromq bench transactions",
        "pyromq bench transactions -c 64 -w 1 --server-pid 4711",
    )
)
def transactions(
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    topic: Topic = DEFAULT_TOPIC,
    connections: Connections = 8,
    under_way: UnderWay = 16,
    size: Size = 128,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    count: Count = None,
    processes: Processes = 1,
    server_pid: ServerPid = None,
    as_json: options.Json = False,
) -> None:
    """Send half messages, commit each when it is stored, and measure until the commit is acknowledged."""
    from pyromq.bench.workload import LoadKind, Workload

    workload = Workload(
        kind=LoadKind.TRANSACTION,
        topic=topic,
        connections=connections,
        under_way=under_way,
        size=size,
        warm_up_s=warm_up,
        duration_s=duration,
        count=count,
        processes=processes,
    )
    _run(workload, name_server, server_pid, is_json=as_json)


@bench.command(
    "send-back",
    epilog=examples(
        "pyromq bench send-back --level 1 --count 10000",
    ),
)
def send_back(
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    topic: Annotated[
        str, typer.Option("-t", "--topic", metavar="TOPIC", help="A topic that has messages.")
    ] = DEFAULT_TOPIC,
    connections: Connections = 8,
    under_way: UnderWay = 16,
    level: Annotated[
        int,
        typer.Option(
            "-l", "--level", min=0, max=18, metavar="N", help="The delay level; 0: what the broker chooses."
        ),
    ] = 1,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    count: Count = None,
    processes: Processes = 1,
    server_pid: ServerPid = None,
    as_json: options.Json = False,
) -> None:
    """Send a topic's first messages back, over and over, as a consumer does with what it cannot handle."""
    from pyromq.bench.workload import LoadKind, Workload

    workload = Workload(
        kind=LoadKind.SEND_BACK,
        topic=topic,
        connections=connections,
        under_way=under_way,
        level=level,
        warm_up_s=warm_up,
        duration_s=duration,
        count=count,
        processes=processes,
    )
    _run(workload, name_server, server_pid, is_json=as_json)


@bench.command(
    epilog=examples(
        "pyromq bench consume",
        "pyromq bench consume -t orders --again -d 30 --pull 64",
    )
)
def consume(
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    topic: Topic = DEFAULT_TOPIC,
    connections: Connections = 8,
    under_way: UnderWay = 1,
    pull: Annotated[
        int, typer.Option(min=1, metavar="N", help="Messages a pull, at most.", rich_help_panel=LOAD)
    ] = 32,
    again: Annotated[
        bool, typer.Option("--again", help="At a queue's end begin anew, until the time is over.")
    ] = False,
    duration: Duration = 5.0,
    warm_up: WarmUp = 0.0,
    processes: Processes = 1,
    server_pid: ServerPid = None,
    as_json: options.Json = False,
) -> None:
    """Read a topic from its first message to its end, or until the time is over."""
    from pyromq.bench.workload import LoadKind, Workload

    workload = Workload(
        kind=LoadKind.CONSUME,
        topic=topic,
        connections=connections,
        under_way=under_way,
        pull=pull,
        is_repeated=again,
        warm_up_s=warm_up,
        duration_s=duration,
        processes=processes,
    )
    _run(workload, name_server, server_pid, is_json=as_json)


@bench.command(
    epilog=examples(
        "pyromq bench roundtrip",
        "pyromq bench roundtrip --rate 5000 -p 2 -d 30",
        "pyromq bench roundtrip --readers 64 -q 64 -t woken",
    )
)
def roundtrip(
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    topic: Topic = DEFAULT_TOPIC,
    connections: Connections = 4,
    under_way: UnderWay = 64,
    size: Size = 1024,
    rate: Annotated[
        float, typer.Option("-r", "--rate", min=0.1, metavar="N", help="Messages a second.")
    ] = 1_000,
    readers: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Connections that hold pulls, each its share of the queues (default: one).",
            rich_help_panel=LOAD,
        ),
    ] = 0,
    queues: Queues = 8,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    count: Count = None,
    processes: Processes = 1,
    server_pid: ServerPid = None,
    as_json: options.Json = False,
) -> None:
    """Send at a rate, read with held pulls, and measure from the time a message was due to its arrival."""
    from pyromq.bench.workload import LoadKind, Workload

    workload = Workload(
        kind=LoadKind.ROUNDTRIP,
        topic=topic,
        readers=readers,
        queues=queues,
        connections=connections,
        under_way=under_way,
        size=size,
        rate=rate,
        warm_up_s=warm_up,
        duration_s=duration,
        count=count,
        processes=processes,
    )
    _run(workload, name_server, server_pid, is_json=as_json)


@bench.command(
    epilog=examples(
        "pyromq bench delay",
        "pyromq bench delay --level 3 --rate 10000 --count 100000",
        "pyromq bench delay --timer-ms 1500 --json",
    )
)
def delay(
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    topic: Topic = DEFAULT_TOPIC,
    connections: Connections = 4,
    under_way: UnderWay = 64,
    size: Size = 128,
    level: Annotated[
        int,
        typer.Option(
            "-l",
            "--level",
            min=1,
            max=18,
            metavar="N",
            help="The delay level: 1 is 1 s, 2 is 5 s … 18 is 2 h.",
        ),
    ] = 1,
    timer_ms: Annotated[
        int | None,
        typer.Option(min=1, metavar="MS", help="Any delay instead of a level, as brokers of 5.x know it."),
    ] = None,
    rate: Annotated[
        float, typer.Option("-r", "--rate", min=0.1, metavar="N", help="Messages a second.")
    ] = 1_000,
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    count: Count = None,
    processes: Processes = 1,
    server_pid: ServerPid = None,
    as_json: options.Json = False,
) -> None:
    """Send delayed messages at a rate, and measure how long after its time is due each arrives."""
    from pyromq.bench.workload import LoadKind, Workload
    from pyromq.config.settings import StoreSettings
    from pyromq.store.delay_levels import parse_delay_levels
    from pyromq.wire import properties

    levels = parse_delay_levels(StoreSettings().message_delay_level)
    text = {properties.DELAY: str(level)}
    if timer_ms is not None:
        text = {properties.TIMER_DELAY_MS: str(timer_ms)}
    workload = Workload(
        kind=LoadKind.DELAY,
        topic=topic,
        connections=connections,
        under_way=under_way,
        size=size,
        rate=rate,
        warm_up_s=warm_up,
        duration_s=duration,
        count=count,
        processes=processes,
        properties="\x02".join(f"{name}\x01{value}" for name, value in text.items()),
        delay_s=(timer_ms or levels[level]) / 1e3,
    )
    _run(workload, name_server, server_pid, is_json=as_json)


@bench.command(
    epilog=examples(
        "pyromq bench many",
        "pyromq bench many -c 10000 -T 10000 -Q 8 -G 1000 --server-pid 4711",
    )
)
def many(
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    topic: Annotated[
        str, typer.Option("-t", "--topic", metavar="TOPIC", help="What the topics' names begin with.")
    ] = "many",
    connections: Annotated[
        int, typer.Option("-c", "--connections", min=0, metavar="N", help="Connections that do nothing.")
    ] = 1_000,
    topics: Annotated[int, typer.Option("-T", "--topics", min=1, metavar="N", help="Topics.")] = 1_000,
    queues: Annotated[int, typer.Option("-Q", "--queues", min=1, metavar="N", help="Queues of each.")] = 8,
    groups: Annotated[
        int, typer.Option("-G", "--groups", min=0, metavar="N", help="Groups that the connections are in.")
    ] = 100,
    senders: Annotated[
        int, typer.Option(min=1, metavar="N", help="Connections that send.", rich_help_panel=LOAD)
    ] = 8,
    under_way: UnderWay = 64,
    size: Size = 128,
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="How often each is measured.")] = 3,
    duration: Duration = 2.0,
    warm_up: WarmUp = 0.5,
    server_pid: ServerPid = None,
    as_json: options.Json = False,
) -> None:
    """Open many connections, create many topics, and measure what they cost a send and the memory."""
    from pyromq.bench.crowd import Crowd, run_many
    from pyromq.bench.workload import LoadKind, Workload

    crowd = Crowd(
        topic=topic, connections=connections, topics=topics, queues=queues, groups=groups, rounds=rounds
    )
    workload = Workload(
        kind=LoadKind.PRODUCE,
        topic=f"{topic}-alone",
        connections=senders,
        under_way=under_way,
        size=size,
        warm_up_s=warm_up,
        duration_s=duration,
    )
    report = run_many(crowd, workload, name_server=name_server, server_pid=server_pid, say=output.note)
    if as_json:
        output.say_json(report.as_record())
        return
    for line in output.columns(_crowd_table(report)):
        output.say(line)


def _crowd_table(report: "CrowdReport") -> list[list[str]]:
    crowd, record = report.crowd, report.as_record()
    rows = [
        ["many", f"{crowd.connections:,} idle connections, {crowd.groups:,} groups"],
        ["", f"{crowd.topics:,} topics with {crowd.queues} queues each"],
        ["before", f"{record['rate_alone']:,.0f} messages/s to one topic"],
        ["to one topic", f"{record['rate_to_one']:,.0f} messages/s"],
        ["to all topics", f"{record['rate_to_all']:,.0f} messages/s, {report.ratio:.0%} of that"],
    ]
    if report.server_bytes is not None:
        rows += [
            ["a connection", f"{(report.connection_bytes or 0) / 1024:.2f} KiB"],
            ["a queue", f"{(report.queue_bytes or 0) / 1024:.2f} KiB"],
            ["server", f"{report.server_bytes / 2**20:.0f} MiB without mapped files"],
        ]
    return rows


def _run(workload: "Workload", name_server: str, server_pid: int | None, *, is_json: bool) -> None:
    from pyromq.bench.bench_run import run

    report = run(workload, name_server=name_server, server_pid=server_pid)
    if is_json:
        output.say_json(report.as_record())
        return
    for line in output.columns(table(report)):
        output.say(line)
    if report.is_generator_busy:
        output.warn(
            f"the generator used {report.generator_share:.0%} of its core{'s' * (workload.processes > 1)}:"
            " the broker may be faster than this. More --processes may help."
        )


def table(report: "BenchReport") -> list[list[str]]:
    """Return the rows for people: a name and what is to be said of it."""
    work, tally = report.workload, report.tally
    rows = [
        [str(work.kind), _description(work)],
        ["messages", f"{tally.messages:,} in {tally.wall_s:.2f} s"],
        ["rate", f"{report.rate:,.0f} messages/s"],
    ]
    if tally.requests.count:
        rows.append(["a request", _latency(tally.requests)])
    if tally.deliveries.count:
        rows.append(["due to arrival" if work.delay_s else "send to arrival", _latency(tally.deliveries)])
    if work.delay_s:
        rows.append(["too early", f"{tally.early_ns / 1e6:.2f} ms at most"])
    if work.kind.is_followed:
        rows.append(["arrived", f"{tally.delivered_in_all:,} of {tally.messages_in_all:,}"])
    if work.rate is not None:
        rows.append(["left late", f"{tally.late_ns / 1e6:.1f} ms at most"])
    if tally.refused:
        said = ", ".join(f"{number:,} × {_code(code)}" for code, number in sorted(tally.refused.items()))
        rows.append(["refused", said])
    if report.server is not None:
        rows.append(["server", _server(report)])
    if report.idle_bytes is not None:
        rows.append(["an idle connection", f"{report.idle_bytes / 1024:.2f} KiB of the server"])
    rows.append(
        [
            "generator",
            f"{report.generator_share:.0%} of {work.processes} core(s), {report.generator_us:.2f} µs/message",
        ]
    )
    return rows


def _description(work: "Workload") -> str:
    parts: list[Any] = [f"{work.connections} connections × {work.under_way} under way"]
    parts.append(f"{work.pull} a pull" if work.kind == "consume" else f"{work.size} B")
    if work.batch > 1:
        parts.append(f"batches of {work.batch}")
    said = {
        "keys": work.has_keys,
        "binary headers": work.is_binary,
        "signed": bool(work.client.access_key),
        "TLS": work.client.use_tls,
        f"{work.idle:,} idle connections": work.idle > 0,
        f"{work.readers} readers": work.readers > 0,
    }
    parts += [text for text, is_so in said.items() if is_so]
    if work.rate is not None:
        parts.append(f"{work.rate:,g}/s")
    if work.delay_s:
        parts.append(f"due {work.delay_s:g} s later")
    return ", ".join(parts)


def _code(code: int) -> str:
    from pyromq.codes import ResponseCode

    try:
        return f"code {code} ({ResponseCode(code).name})"
    except ValueError:
        return f"code {code}"


def _latency(histogram: "LatencyHistogram") -> str:
    from pyromq.bench.workload import PERCENTILES

    figures = [f"p{percent:g} {histogram.percentile(percent) / 1e3:.2f}" for percent in PERCENTILES]
    return " · ".join([*figures, f"max {histogram.highest_us / 1e3:.2f} ms"])


def _server(report: "BenchReport") -> str:
    server = report.server
    assert server is not None
    share = f"{server.cpu_s / report.tally.wall_s:.2f} cores, " if report.tally.wall_s else ""
    each = report.per_cpu_second
    work = f"{each:,.0f} messages per CPU second, " if each else ""
    return f"{share}{work}{server.rss_bytes / 2**20:.0f} MiB resident"
