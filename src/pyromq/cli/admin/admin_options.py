"""Options that commands of `pyromq admin` share, under mqadmin's names."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli import options
from pyromq.cli.credentials import client_settings
from pyromq.cli.times import past_ms
from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyromq.client.sync.admin import Admin

DEFAULT_NAME_SERVER = options.DEFAULT_NAME_SERVER
Json = options.Json

NameServer = Annotated[
    str,
    typer.Option(
        "-n",
        "--namesrvAddr",
        "--namesrv",
        metavar="HOST:PORT",
        envvar="NAMESRV_ADDR",
        help="Name servers, joined by semicolons.",
    ),
]
Watch = Annotated[
    float | None,
    typer.Option("--watch", metavar="SECONDS", min=0.1, help="Look again so often, until interrupted."),
]


def completed_topics(context: typer.Context, incomplete: str) -> list[str]:
    """Return the topics whose names begin so, for the shell; RocketMQ's own only if asked for."""
    from pyromq.system_names import is_users_topic

    found = _asked(context, lambda admin: admin.topics())
    return [name for name in found if name.startswith(incomplete) and (incomplete or is_users_topic(name))]


def completed_groups(context: typer.Context, incomplete: str) -> list[str]:
    """Return the groups whose names begin so, for the shell; RocketMQ's own only if asked for."""
    from pyromq.system_names import is_users_group

    found = _asked(context, _groups)
    return [name for name in found if name.startswith(incomplete) and (incomplete or is_users_group(name))]


def _groups(admin: "Admin") -> list[str]:
    tables = admin.all_group_configs().values()
    return sorted({name for table in tables for name in table.subscription_group_table})


def _asked(context: typer.Context, ask: "Callable[[Admin], list[str]]") -> list[str]:
    from pyromq.client.sync.admin import Admin
    from pyromq.errors import PyroError

    name_server = context.params.get("name_server") or DEFAULT_NAME_SERVER
    try:
        with Admin(name_server, client_settings(mq_client_api_timeout=1_000)) as admin:
            return ask(admin)
    except PyroError:
        # A completion says nothing rather than why.
        return []


Topic = Annotated[
    str,
    typer.Option(
        "-t",
        "--topic",
        metavar="TOPIC",
        help="The topic.",
        show_default=False,
        autocompletion=completed_topics,
    ),
]
ConsumerGroup = Annotated[
    str,
    typer.Option(
        "-g",
        "--group",
        "--groupName",
        "--consumerGroup",
        metavar="GROUP",
        help="The consumer group.",
        show_default=False,
        autocompletion=completed_groups,
    ),
]
OneBroker = Annotated[
    str,
    typer.Option(
        "-b",
        "--brokerAddr",
        "--broker",
        metavar="HOST:PORT",
        help="The broker's address.",
        show_default=False,
        callback=options.one_address,
    ),
]
Broker = Annotated[
    str | None,
    typer.Option(
        "-b",
        "--brokerAddr",
        metavar="HOST:PORT",
        help="This broker only.",
        show_default=False,
        callback=options.one_address,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "-c", "--clusterName", "--cluster", metavar="NAME", help="This cluster's brokers.", show_default=False
    ),
]
BrokerName = Annotated[
    str, typer.Option("-b", "--brokerName", metavar="NAME", help="The broker's name.", show_default=False)
]
TheCluster = Annotated[str, typer.Option("-c", "--clusterName", metavar="NAME", help="The cluster.")]
QueueId = Annotated[int, typer.Option("-i", "--queueId", metavar="ID", min=0, help="The queue.")]
TheTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=completed_topics)]
TheGroup = Annotated[
    str, typer.Argument(metavar="GROUP", help="The consumer group.", autocompletion=completed_groups)
]


def true_or_false(*names: str, help: str) -> Any:
    """Return an option that takes true or false, as mqadmin's do; `is_true` reads it."""
    return typer.Option(*names, metavar="true|false", help=help)


def is_true(text: str) -> bool:
    """Return what Java's Boolean.parseBoolean does."""
    return text.strip().lower() == "true"


def exactly_one_place(broker: str | None, cluster: str | None) -> None:
    """Raise ConfigError unless one of both is said."""
    if (broker is None) == (cluster is None):
        raise ConfigError("say where: -b HOST:PORT for one broker, or -c NAME for all masters of a cluster")


def moment(text: str, option: str) -> int:
    """Return milliseconds since 1970: mqadmin's `yyyy-MM-dd#HH:mm:ss:SSS` and `now`, ours, or a number."""
    text = text.strip()
    if text == "now":
        return round(datetime.now().timestamp() * 1_000)
    try:
        return round(datetime.strptime(text, "%Y-%m-%d#%H:%M:%S:%f").timestamp() * 1_000)
    except ValueError:
        return past_ms(text, option)
