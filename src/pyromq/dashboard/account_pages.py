"""The accounts of brokers with access control: who may do what. Secrets are neither asked for nor shown."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.codes import RequestCode
from pyromq.dashboard.picture import Picture
from pyromq.errors import PyroError, ServerFailed
from pyromq.wire.bodies.body import read_object

#: Accounts that a page lists; the rest is counted.
SHOWN_MAX: Final = 500

Shown = dict[str, Any]


async def accounts(asker: Asker, picture: Picture) -> Shown:
    """Return each account with the brokers that have it so, and what each broker says of access control."""
    said = await asyncio.gather(*(_ask(asker, broker) for broker in picture.masters))
    rows = merged(said)
    return {
        "brokers": [
            {name: one[name] for name in ("broker", "cluster", "address", "failure", "count", "white")}
            for one in said
        ],
        "clusters": sorted({broker.cluster for broker in picture.brokers}),
        "own": asker.account,
        "rows": rows[:SHOWN_MAX],
        "total": len(rows),
    }


async def _ask(asker: Asker, broker: BrokerSnapshot) -> Shown:
    shown: Shown = {
        "broker": broker.name,
        "cluster": broker.cluster,
        "address": broker.address,
        "failure": None,
    }
    found: list[Any] = []
    white: list[str] = []
    try:
        answer = await asker.ask(broker.address, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
        body = read_object(answer.body)
        found, white = list(body.get("plainAccessConfigs") or []), list(body.get("globalWhiteAddrs") or [])
    except ServerFailed as error:
        # Without access control Apache's brokers fail at this question, and ours say so.
        shown["failure"] = (
            error.remark if "aclEnable" in error.remark else f"off, or it cannot be asked: {error.remark}"
        )
    except PyroError as error:
        shown["failure"] = str(error)
    return {**shown, "count": len(found), "white": white, "accounts": found}


def merged(said: Iterable[Mapping[str, Any]]) -> list[Shown]:
    """Return the accounts by name; one that brokers have in different forms stands there in each of them."""
    rows: dict[tuple[str, ...], Shown] = {}
    for one in said:
        for account in one["accounts"]:
            shown = _account(account)
            key = tuple(map(str, shown.values()))
            rows.setdefault(key, {**shown, "brokers": []})["brokers"].append(one["broker"])
    names = [row["name"] for row in rows.values()]
    for row in rows.values():
        row["differs"] = names.count(row["name"]) > 1
    return sorted(rows.values(), key=lambda row: (row["name"], row["brokers"]))


def _account(account: Mapping[str, Any]) -> Shown:
    # Field by field: a broker before 4.9.8 sends the secret too, and it goes no further.
    return {
        "name": str(account.get("accessKey", "")),
        "isAdmin": account.get("admin") is True,
        "white": str(account.get("whiteRemoteAddress") or ""),
        "topicPerm": str(account.get("defaultTopicPerm") or ""),
        "groupPerm": str(account.get("defaultGroupPerm") or ""),
        "topicPerms": [str(one) for one in account.get("topicPerms") or ()],
        "groupPerms": [str(one) for one in account.get("groupPerms") or ()],
    }
