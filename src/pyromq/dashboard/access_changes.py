"""Accounts that a page creates, changes and deletes, and the addresses that need none.

Each broker of a cluster keeps its own accounts, slaves too, so each is told, and what each said comes back.
A secret is typed for every change, for brokers take none without it; it is in no answer, error or log.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.client.plans.admin.account_plans import AccountChange
from pyromq.client.plans.admin.scaling_plans import ServerReply
from pyromq.config.account_rules import check_keys, check_resources
from pyromq.config.address_patterns import Addresses
from pyromq.dashboard.changes import flag, text_of
from pyromq.dashboard.picture import Picture
from pyromq.errors import ConfigError

#: Lines of permissions that an account may get here.
LINES_MAX: Final = 1_000
_WORDS: Final = ("", "DENY", "PUB", "SUB", "PUB|SUB")

Order = Mapping[str, Any]
Shown = dict[str, Any]


async def put_account(asker: Asker, picture: Picture, order: Order) -> list[Shown]:
    """Create an account, or change it, on all brokers of a cluster.

    `anew` deletes it first: brokers take no order that leaves an account without the lines that it has.
    """
    name = text_of(order, "name")
    _check_not_own(asker, name)
    account = _account(name, order)
    cluster = _cluster(picture, order)
    if not flag(order, "anew", default=False):
        return _said(picture, await asker.admin.update_account(account, cluster=cluster))
    results = []
    for one in await asker.admin.delete_account(name, cluster=cluster):
        if one.failure is not None:
            results.append(one)
            continue
        results += [
            ServerReply(one.address, failure=again.failure and f"it is deleted there now: {again.failure}")
            for again in await asker.admin.update_account(account, address=one.address)
        ]
    return _said(picture, results)


async def delete_account(asker: Asker, picture: Picture, order: Order) -> list[Shown]:
    """Delete an account on all brokers of a cluster."""
    name = text_of(order, "name")
    _check_not_own(asker, name)
    return _said(picture, await asker.admin.delete_account(name, cluster=_cluster(picture, order)))


async def put_white_list(asker: Asker, picture: Picture, order: Order) -> list[Shown]:
    """Change the addresses that need no account, on all brokers of a cluster."""
    addresses = _texts(order, "addresses")
    for one in addresses:
        _check_address(one)
    told = await asker.admin.update_white_addresses(",".join(addresses), cluster=_cluster(picture, order))
    return _said(picture, told)


def _account(name: str, order: Order) -> AccountChange:
    secret = order.get("secret")
    if not isinstance(secret, str):
        raise ConfigError("say the secret: brokers take no change of an account without it")
    if secret != secret.strip():
        raise ConfigError("the secret begins or ends with a blank, which a file of accounts does not keep")
    check_keys(name, secret)
    topics, groups = _texts(order, "topicPerms"), _texts(order, "groupPerms")
    for line in (*topics, *groups):
        if "," in line:
            raise ConfigError(f"{line!r} has a comma, which parts lines here; make a line for each name")
    check_resources(topics)
    check_resources(groups)
    white = str(order.get("white") or "").strip()
    if white:
        # An account's addresses are one text, commas and braces within.
        Addresses([white])
    return AccountChange(
        access_key=name,
        secret_key=secret,
        white_remote_address=white,
        admin=flag(order, "isAdmin", default=False),
        default_topic_perm=_word(order, "topicPerm"),
        default_group_perm=_word(order, "groupPerm"),
        topic_perms=",".join(topics) if topics else None,
        group_perms=",".join(groups) if groups else None,
    )


def _check_not_own(asker: Asker, name: str) -> None:
    if name == asker.account:
        raise ConfigError(
            f"this dashboard itself asks as {name}, and would be shut out half-way: use another "
            "administrator's account, or `pyromq admin`"
        )


def _check_address(text: str) -> None:
    if "," in text or "{" in text:
        raise ConfigError(f"{text!r} is a list; make a line for each address")
    Addresses([text])


def _cluster(picture: Picture, order: Order) -> str | None:
    name = order.get("cluster") or None
    known = {broker.cluster for broker in picture.brokers}
    if name is not None and name not in known:
        raise ConfigError(f"there is no cluster {name!r}; there are {', '.join(sorted(known)) or 'none'}")
    return name


def _word(order: Order, name: str) -> str | None:
    word = order.get(name) or ""
    if word not in _WORDS:
        raise ConfigError(f"{name} is DENY, PUB, SUB or PUB|SUB, not {word!r}")
    return word or None


def _texts(order: Order, name: str) -> list[str]:
    values = order.get(name) or []
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ConfigError(f"{name} is a list of texts")
    if len(values) > LINES_MAX:
        raise ConfigError(f"{name} has {len(values):,} lines, more than the {LINES_MAX:,} of one order")
    return [one.strip() for one in values if one.strip()]


def _said(picture: Picture, told: Sequence[ServerReply]) -> list[Shown]:
    names = {
        broker.address: broker.name if broker.is_master else f"{broker.broker_name}, slave {broker.broker_id}"
        for broker in picture.brokers
    }
    return [{"who": names.get(one.address, one.address), "failure": one.failure} for one in told]
