"""The greeting that a server prints when it is ready: short, and with the next command to type."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyromq.cli.output import columns, paint, say
from pyromq.config.choices import FlushDiskType
from pyromq.config.settings import BrokerProcess
from pyromq.kernel import describe

#: Listening there means listening on every address of the machine.
OPEN_ADDRESSES = ("0.0.0.0", "::")


def greet_up(
    process: BrokerProcess,
    *,
    version: str,
    name_server: str,
    broker: str,
    sdks: str | None = None,
    dashboard: str | None = None,
    metrics: str | None = None,
) -> None:
    """Print the start-up screen of `pyromq up`; `sdks` is what users of RocketMQ 5's SDKs are told."""
    settings = process.broker
    rows = [
        ("name server", name_server),
        ("broker", f"{broker}   {settings.broker_name} in {settings.broker_cluster_name}"),
        ("data", f"{process.store.store_path_root_dir}   {_safety(process)}"),
        ("speed", describe()),
        (
            "open to",
            _open_to(settings.bind_address),
        ),
    ]
    steps = [
        ("send one", f'pyromq produce -n {name_server} hello "Hello, world"'),
        ("read it", f"pyromq consume -n {name_server} hello"),
        ("your program", f"name server address {name_server}, nothing else to change"),
    ]
    if sdks is not None:
        steps.append(("RocketMQ 5 SDKs", sdks))
    if dashboard is not None:
        steps.append(("look at it", dashboard))
    if metrics is not None:
        steps.append(("metrics", metrics))
    width = max(len(label) for label, _ in rows + steps)
    say("")
    say(f"  {paint(f'PyroMQ {version}', 'bold')} is ready")
    say("")
    _print_table(rows, width, "dim")
    say("")
    _print_table(steps, width, "cyan")
    say("")
    say(paint("  Ctrl-C stops it; messages stay.", "dim"))
    say("")


def _open_to(bind_address: str) -> str:
    if bind_address in OPEN_ADDRESSES:
        return "every machine that reaches this one"
    if bind_address.startswith("127.") or bind_address in ("", "::1", "localhost"):
        return "this machine only (--listen opens it)"
    return f"every machine that reaches {bind_address}"


def greet_cluster(
    brokers: Sequence[Mapping[str, Any]],
    *,
    version: str,
    name_server: str,
    data: str,
    dashboard: str | None = None,
) -> None:
    """Print the start-up screen of a whole cluster."""
    say("")
    say(f"  {paint(f'PyroMQ {version}', 'bold')}: {len(brokers)} brokers are ready")
    say("")
    say(f"  name server {name_server}, data in {data}, {describe()}")
    say("")
    rows = [["broker", "replica", "role", "address", "pid", "folder"]]
    rows += [
        [
            broker["name"],
            str(broker["number"]),
            broker["role"],
            broker["broker"],
            str(broker["pid"]),
            Path(broker["data"]).name,
        ]
        for broker in brokers
    ]
    for line in columns(rows):
        say(f"    {line}")
    say("")
    steps = [
        ("send one", f'pyromq produce -n {name_server} hello "Hello, world"'),
        ("read it", f"pyromq consume -n {name_server} hello"),
        ("who is there", f"pyromq admin clusterList -n {name_server}"),
    ]
    if dashboard is not None:
        steps.append(("look at it", dashboard))
    _print_table(steps, max(len(label) for label, _ in steps), "cyan")
    say("")
    say(paint("  Ctrl-C stops all; messages stay. Kill one by its pid to see what the others do.", "dim"))
    say("")


def _safety(process: BrokerProcess) -> str:
    if process.store.flush_disk_type == FlushDiskType.SYNC_FLUSH:
        return "(a send is answered when the disk has it)"
    return "(synced to disk in the background)"


def _print_table(rows: list[tuple[str, str]], width: int, style: str) -> None:
    for label, text in rows:
        say(f"  {paint(label.ljust(width), style)}  {text}")
