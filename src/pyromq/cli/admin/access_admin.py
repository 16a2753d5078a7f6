"""Commands of `pyromq admin` for accounts (ACL). A secret is never printed."""

from typing import Annotated

import typer

from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    Broker,
    Cluster,
    Json,
    NameServer,
    exactly_one_place,
    is_true,
    true_or_false,
)
from pyromq.cli.admin.command_runs import operating, order
from pyromq.cli.exit_status import FAILED
from pyromq.cli.options import examples
from pyromq.cli.views.listing import Listing

AccessKey = Annotated[str, typer.Option("-a", "--accessKey", metavar="NAME", help="The account.")]


def update_acl_config(
    *,
    access_key: AccessKey,
    secret_key: Annotated[
        str,
        typer.Option(
            "-s",
            "--secretKey",
            metavar="SECRET",
            envvar="PYROMQ_NEW_SECRET_KEY",
            show_envvar=True,
            help="Its secret; in the environment others do not see it.",
        ),
    ],
    broker: Broker = None,
    cluster: Cluster = None,
    white: Annotated[
        str | None,
        typer.Option("-w", "--whiteRemoteAddress", metavar="IP", help="Addresses that need no signature."),
    ] = None,
    topic_perm: Annotated[
        str | None,
        typer.Option("-i", "--defaultTopicPerm", metavar="PERM", help="DENY, PUB, SUB or PUB|SUB."),
    ] = None,
    group_perm: Annotated[
        str | None,
        typer.Option("-u", "--defaultGroupPerm", metavar="PERM", help="DENY, PUB, SUB or PUB|SUB."),
    ] = None,
    topic_perms: Annotated[
        str | None, typer.Option("-t", "--topicPerms", metavar="TOPIC=PERM,…", help="As a=DENY,b=SUB.")
    ] = None,
    group_perms: Annotated[
        str | None, typer.Option("-g", "--groupPerms", metavar="GROUP=PERM,…", help="As a=DENY,b=SUB.")
    ] = None,
    is_admin: Annotated[str, true_or_false("-m", "--admin", help="Whether it may do all.")] = "false",
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Add an account or change it, on one broker or on all of a cluster."""
    exactly_one_place(broker, cluster)
    from pyromq.client.plans.admin.account_plans import AccountChange

    account = AccountChange(
        access_key=access_key,
        secret_key=secret_key,
        white_remote_address=white,
        admin=is_true(is_admin),
        default_topic_perm=topic_perm,
        default_group_perm=group_perm,
        topic_perms=topic_perms,
        group_perms=group_perms,
    )
    order(
        name_server,
        lambda admin: admin.update_account(account, cluster=cluster, address=broker),
        said="create or update plain access config to {} success.",
        is_json=as_json,
        access_key=access_key,
    )


def delete_acl_config(
    *,
    access_key: AccessKey,
    broker: Broker = None,
    cluster: Cluster = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Remove an account, on one broker or on all of a cluster."""
    exactly_one_place(broker, cluster)
    order(
        name_server,
        lambda admin: admin.delete_account(access_key, cluster=cluster, address=broker),
        said="delete plain access config account from {} success.",
        is_json=as_json,
        access_key=access_key,
    )


def update_global_white_addr(
    *,
    addresses: Annotated[
        str,
        typer.Option(
            "-g", "--globalWhiteRemoteAddresses", metavar="IP,…", help="As 10.10.103.*,192.168.0.*."
        ),
    ],
    path: Annotated[
        str | None, typer.Option("-p", "--aclFileFullPath", metavar="FILE", help="The brokers' file.")
    ] = None,
    broker: Broker = None,
    cluster: Cluster = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Change the addresses that need no signature, on one broker or on all of a cluster."""
    exactly_one_place(broker, cluster)
    order(
        name_server,
        lambda admin: admin.update_white_addresses(addresses, path=path, cluster=cluster, address=broker),
        said="update global white remote addresses to {} success.",
        is_json=as_json,
    )


def cluster_acl_config_version(
    *,
    broker: Broker = None,
    cluster: Cluster = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show how often brokers' account files were changed, and when last.

    Status 1: a broker does not say, because its access control is off.
    """
    exactly_one_place(broker, cluster)
    with operating(name_server) as admin:
        found = admin.access_versions(cluster=cluster, address=broker)
    Listing(
        (
            ("#Cluster Name", "cluster"),
            ("#Broker Name", "broker"),
            ("#Broker Addr", "address"),
            ("#AclFilePath", "file"),
            ("#AclConfigVersionNum", "version"),
            ("#AclLastUpdateTime", "last_update_ms"),
        ),
        [
            {
                "cluster": one.place.cluster,
                "broker": one.place.broker_name,
                "address": one.place.address,
                "file": path,
                "version": version.counter,
                "last_update_ms": version.timestamp,
            }
            for one in found
            for path, version in sorted(one.files.items())
        ],
        warnings=[f"{one.place.address}: {one.failure}" for one in found if one.failure is not None],
    ).show(is_json=as_json)
    if any(one.failure is not None for one in found):
        raise typer.Exit(FAILED)


def add_access_commands(admin: typer.Typer) -> None:
    """Add the commands to `pyromq admin`."""
    for name, command, lines in (
        (
            "updateAclConfig",
            update_acl_config,
            (
                "PYROMQ_NEW_SECRET_KEY=… pyromq admin updateAclConfig -c DefaultCluster -a shop"
                " -t 'orders=PUB|SUB'",
            ),
        ),
        ("deleteAclConfig", delete_acl_config, ("pyromq admin deleteAclConfig -c DefaultCluster -a shop",)),
        (
            "updateGlobalWhiteAddr",
            update_global_white_addr,
            ("pyromq admin updateGlobalWhiteAddr -c DefaultCluster -g '10.0.0.*'",),
        ),
        (
            "clusterAclConfigVersion",
            cluster_acl_config_version,
            ("pyromq admin clusterAclConfigVersion -c DefaultCluster",),
        ),
    ):
        admin.command(name, epilog=examples(*lines))(command)
