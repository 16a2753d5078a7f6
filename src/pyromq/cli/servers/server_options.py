"""The options of the commands that serve: `up`, `namesrv`, `broker`."""

from dataclasses import dataclass
from pathlib import Path

from pyromq.cli.plain_options import (
    ASSIGNMENTS,
    CONFIG_FILE,
    JSON,
    LOG_LEVEL,
    READY_FILE,
    SETTINGS,
    LogLevel,
    PlainOption,
    field_of,
    option,
)
from pyromq.config.field import PORT_MAX

CLUSTER = "A cluster on this machine"

LISTEN = PlainOption(
    ("--listen",),
    metavar="ADDRESS",
    help="Address to listen on (default 127.0.0.1); 0.0.0.0 opens it to all.",
)
ADVERTISE = PlainOption(
    ("--advertise",), metavar="ADDRESS", help="Address that clients are told to connect to."
)
FOLDER = PlainOption(
    ("--data",), metavar="DIR", help="Folder for all data (default: pyromq in your data folder)."
)
PRINT_SETTINGS = PlainOption(
    ("--print-settings",), help="Print each setting and where it came from, and stop.", panel=SETTINGS
)
CHECK = PlainOption(
    ("--check",),
    help="List the given settings that have no effect here, and stop; status 1 if one would change what "
    "is promised (durability, limits, security).",
    panel=SETTINGS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The options of `pyromq up`."""

    data: Path | None = field_of(FOLDER)
    listen: str | None = field_of(LISTEN)
    advertise: str | None = field_of(ADVERTISE)
    namesrv_port: int | None = option(
        "--namesrv-port",
        metavar="N",
        least=0,
        most=PORT_MAX,
        help="The name server's port (default 9876); 0: a free one.",
    )
    broker_port: int | None = option(
        "--broker-port", metavar="N", help="The broker's port (default 10911); 0: a free one."
    )
    broker_name: str | None = option(
        "--broker-name", metavar="NAME", help="The broker's name (default broker-a)."
    )
    cluster_name: str | None = option(
        "--cluster-name", metavar="NAME", help="The cluster's name (default DefaultCluster)."
    )
    dashboard_port: int | None = option(
        "--dashboard-port",
        metavar="N",
        least=0,
        most=PORT_MAX,
        help="The dashboard's port (default 9870 if it is free, with the extra); 0: a free one.",
    )
    no_dashboard: bool = option("--no-dashboard", default=False, help="Start no dashboard.")
    brokers: str = option(
        "--brokers",
        default="1",
        metavar="N|auto",
        help="Brokers, each with its share; auto: one for each core, with all topics on all of them.",
        panel=CLUSTER,
    )
    replicas: int = option(
        "--replicas",
        default=1,
        metavar="N",
        least=1,
        most=9,
        help="Copies of each broker: a master, and slaves.",
        panel=CLUSTER,
    )
    sync: bool = option("--sync", default=False, help="Answer a send when a slave has it too.", panel=CLUSTER)
    failover: str | None = option(
        "--failover",
        metavar="etcd://HOST:PORT",
        help="Where it is decided who is master; without it the first replica is.",
        panel=CLUSTER,
    )
    config: Path | None = field_of(CONFIG_FILE)
    assignments: list[str] | None = field_of(ASSIGNMENTS)
    settings_only: bool = field_of(PRINT_SETTINGS, default=False)
    as_json: bool = field_of(JSON, default=False)
    ready_file: Path | None = field_of(READY_FILE)
    log_level: LogLevel = field_of(LOG_LEVEL, default=LogLevel.WARNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvOptions:
    """The options of `pyromq namesrv`."""

    port: int | None = option("-p", "--port", metavar="N", help="Port (default 9876); 0: a free one.")
    listen: str | None = field_of(LISTEN)
    data: Path | None = field_of(FOLDER)
    config: Path | None = field_of(CONFIG_FILE)
    assignments: list[str] | None = field_of(ASSIGNMENTS)
    settings_only: bool = field_of(PRINT_SETTINGS, default=False)
    check_only: bool = field_of(CHECK, default=False)
    as_json: bool = field_of(JSON, default=False)
    ready_file: Path | None = field_of(READY_FILE)
    log_level: LogLevel = field_of(LOG_LEVEL, default=LogLevel.INFO)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """The options of `pyromq broker`."""

    name_server: str | None = option(
        "-n", "--namesrv", metavar="HOST:PORT", help="Name servers to register with, joined by semicolons."
    )
    port: int | None = option("--port", metavar="N", help="Port (default 10911); 0: a free one.")
    failover: str | None = option(
        "--failover",
        metavar="ETCD",
        help="Let etcd decide who of the brokers of this name is master: etcd://HOST:2379,… .",
    )
    listen: str | None = field_of(LISTEN)
    advertise: str | None = field_of(ADVERTISE)
    data: Path | None = field_of(FOLDER)
    config: Path | None = field_of(CONFIG_FILE)
    assignments: list[str] | None = field_of(ASSIGNMENTS)
    settings_only: bool = option(
        "-p",
        "--print-settings",
        default=False,
        help="Print each setting and where it came from, and stop.",
        panel=SETTINGS,
    )
    check_only: bool = field_of(CHECK, default=False)
    as_json: bool = field_of(JSON, default=False)
    ready_file: Path | None = field_of(READY_FILE)
    log_level: LogLevel = field_of(LOG_LEVEL, default=LogLevel.INFO)
    until_stdin_ends: bool = option("--until-stdin-ends", default=False, is_hidden=True)
