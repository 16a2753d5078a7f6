"""Commands of `pyromq admin` that write a cluster down as JSON files."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pyromq.cli import output
from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    Broker,
    Cluster,
    Json,
    NameServer,
    TheCluster,
    exactly_one_place,
)
from pyromq.cli.admin.command_runs import operating
from pyromq.cli.options import examples
from pyromq.errors import ConfigError

Folder = Annotated[
    Path, typer.Option("-f", "--filePath", metavar="DIR", help="The folder that the file is written to.")
]
DEFAULT_FOLDER = Path("/tmp/rocketmq/export")


def export_metadata(
    *,
    broker: Broker = None,
    cluster: Cluster = None,
    folder: Folder = DEFAULT_FOLDER,
    only_topics: Annotated[bool, typer.Option("-t", "--topic", help="Only topics.")] = False,
    only_groups: Annotated[bool, typer.Option("-g", "--subscriptionGroup", help="Only groups.")] = False,
    with_special: Annotated[
        bool, typer.Option("-s", "--specialTopic", help="Retry and dead-letter topics as well.")
    ] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Write the topics and groups of a broker or a cluster to a file."""
    exactly_one_place(broker, cluster)
    if only_topics and only_groups:
        raise ConfigError("-t is only topics, -g is only groups; for both leave both out")
    from pyromq.cli.views.export_views import metadata

    with operating(name_server) as admin:
        found = metadata(
            admin,
            admin.brokers(cluster=cluster, address=broker),
            only_topics=only_topics,
            only_groups=only_groups,
            with_special=with_special,
        )
    name = "topic.json" if only_topics else "subscriptionGroup.json" if only_groups else "metadata.json"
    _write(folder / name, found, is_json=as_json)


def export_configs(
    *,
    cluster: TheCluster,
    folder: Folder = DEFAULT_FOLDER,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Write the settings of a cluster's masters that matter for planning to a file."""
    from pyromq.cli.views.export_views import configs

    with operating(name_server) as admin:
        count = len([one for one in name_server.replace(",", ";").split(";") if one.strip()])
        found = configs(admin, cluster, count)
    _write(folder / "configs.json", found, is_json=as_json)


def export_metrics(
    *,
    cluster: TheCluster,
    folder: Folder = DEFAULT_FOLDER,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Write what goes through a cluster, and how large it is, to a file."""
    from pyromq.cli.views.export_views import metrics

    with operating(name_server) as admin:
        found = metrics(admin, cluster)
    _write(folder / "metrics.json", found, is_json=as_json)


def _write(path: Path, found: dict[str, Any], *, is_json: bool) -> None:
    if is_json:
        output.say_json(found)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    output.say(f"export {path} success")


def add_export_commands(admin: typer.Typer) -> None:
    """Add the commands to `pyromq admin`."""
    for name, command, lines in (
        (
            "exportMetadata",
            export_metadata,
            (
                "pyromq admin exportMetadata -c DefaultCluster -f ./export",
                "pyromq admin exportMetadata --json",
            ),
        ),
        ("exportConfigs", export_configs, ("pyromq admin exportConfigs -c DefaultCluster -f ./export",)),
        ("exportMetrics", export_metrics, ("pyromq admin exportMetrics -c DefaultCluster --json",)),
    ):
        admin.command(name, epilog=examples(*lines))(command)
