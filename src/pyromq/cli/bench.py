"""`pyromq bench`: load for any RocketMQ-compatible broker, and a table of what came of it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli import options, output

if TYPE_CHECKING:
    from pyromq.bench.histogram import Histogram
    from pyromq.bench.workload import Report, Workload

DEFAULT_TOPIC = "bench"
LOAD = "Load"

Topic = Annotated[
    str, typer.Option("-t", "--topic", metavar="TOPIC", help="The topic; created with 8 queues if missing.")
]
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
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    count: Count = None,
    processes: Processes = 1,
    server_pid: ServerPid = None,
    as_json: options.Json = False,
) -> None:
    """Send messages and measure until each is acknowledged."""
    from pyromq.bench.workload import Kind, Workload

    workload = Workload(
        kind=Kind.PRODUCE,
        topic=topic,
        connections=connections,
        under_way=under_way,
        size=size,
        batch=batch,
        rate=rate,
        warm_up_s=warm_up,
        duration_s=duration,
        count=count,
        processes=processes,
    )
    _run(workload, name_server, server_pid, is_json=as_json)


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
    from pyromq.bench.workload import Kind, Workload

    workload = Workload(
        kind=Kind.CONSUME,
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
    duration: Duration = 5.0,
    warm_up: WarmUp = 1.0,
    count: Count = None,
    processes: Processes = 1,
    server_pid: ServerPid = None,
    as_json: options.Json = False,
) -> None:
    """Send at a rate, read with held pulls, and measure from the time a message was due to its arrival."""
    from pyromq.bench.workload import Kind, Workload

    workload = Workload(
        kind=Kind.ROUNDTRIP,
        topic=topic,
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


def _run(workload: "Workload", name_server: str, server_pid: int | None, *, is_json: bool) -> None:
    from pyromq.bench.run import run

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


def table(report: "Report") -> list[list[str]]:
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
        rows.append(["send to arrival", _latency(tally.deliveries)])
    if work.kind == "roundtrip":
        rows.append(["arrived", f"{tally.delivered_in_all:,} of {tally.messages_in_all:,}"])
    if work.rate is not None:
        rows.append(["left late", f"{tally.late_ns / 1e6:.1f} ms at most"])
    if tally.refused:
        said = ", ".join(f"{number:,} × code {code}" for code, number in sorted(tally.refused.items()))
        rows.append(["refused", said])
    if report.server is not None:
        rows.append(["server", _server(report)])
    rows.append(["generator", f"{report.generator_share:.0%} of {work.processes} core(s)"])
    return rows


def _description(work: "Workload") -> str:
    parts: list[Any] = [f"{work.connections} connections × {work.under_way} under way"]
    parts.append(f"{work.pull} a pull" if work.kind == "consume" else f"{work.size} B")
    if work.batch > 1:
        parts.append(f"batches of {work.batch}")
    if work.rate is not None:
        parts.append(f"{work.rate:,g}/s")
    return ", ".join(parts)


def _latency(histogram: "Histogram") -> str:
    from pyromq.bench.workload import PERCENTILES

    figures = [f"p{percent:g} {histogram.percentile(percent) / 1e3:.2f}" for percent in PERCENTILES]
    return " · ".join([*figures, f"max {histogram.highest_us / 1e3:.2f} ms"])


def _server(report: "Report") -> str:
    server = report.server
    assert server is not None
    share = f"{server.cpu_s / report.tally.wall_s:.2f} cores, " if report.tally.wall_s else ""
    each = report.per_cpu_second
    work = f"{each:,.0f} messages per CPU second, " if each else ""
    return f"{share}{work}{server.rss_bytes / 2**20:.0f} MiB resident"
