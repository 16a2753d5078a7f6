"""Builds the access control of a broker, and the signer of its own requests to other brokers."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pyromq.broker.requests.route_facts import BrokerTable
from pyromq.broker.topics import topic_names
from pyromq.clock import Clock
from pyromq.config.address_patterns import Addresses
from pyromq.config.settings import BrokerProcess, BrokerSettings
from pyromq.errors import ConfigError, StoreError
from pyromq.store.store import MessageStore
from pyromq.wire import properties as names

if TYPE_CHECKING:
    from pyromq.broker.access.control import AccessControl
    from pyromq.wire.signature import Sign


class _Credentials(msgspec.Struct, rename="camel"):
    access_key: str
    secret_key: str
    security_token: str = ""


def make_access_control(
    settings: BrokerProcess, store: MessageStore, clock: Clock, table: BrokerTable
) -> "AccessControl | None":
    """Return the access control of a broker, and put it before its table; None where it is off."""
    if not settings.broker.acl_enable:
        return None
    # Only now: a broker without access control does without it.
    from pyromq.broker.access.control import AccessControl

    folder = settings.broker.acl_folder or str(Path(settings.store.store_path_root_dir) / "config")
    control = AccessControl(
        Path(folder),
        clock,
        table=table,
        topic_at=partial(topic_at, store),
        slaves=Addresses([settings.store.ha_allowed_addresses]),
    )
    table.admit = control.admit
    return control


def own_signer(settings: BrokerSettings) -> "Sign | None":
    """Return what signs this broker's own requests. Raises ConfigError, which does not show the secret."""
    text = settings.inner_client_authentication_credentials
    if not text:
        return None
    # Only now: few brokers sign.
    from pyromq.wire.signature import signer

    try:
        own = msgspec.json.decode(text, type=_Credentials)
    except msgspec.MsgspecError:
        raise ConfigError(
            'innerClientAuthenticationCredentials must be {"accessKey":"…","secretKey":"…"}'
        ) from None
    return signer(own.access_key, own.secret_key, own.security_token)


def topic_at(store: MessageStore, position: int) -> str | None:
    """Return the topic that the message at a position is for; see `needs.TopicAt`."""
    try:
        topics = topics_at(store, position)
    except StoreError:
        return ""
    if topics is None:
        return None
    topic, waits_for = topics
    return waits_for if topic_names.is_brokers_own(topic) else topic


def topics_at(store: MessageStore, position: int) -> tuple[str, str] | None:
    """Return the topic of the message at a position and the one that it waits for; None: no message.

    Whatever `topic_at` says follows from these two. Raises StoreError when the message does not read.
    """
    record = store.record_at(position)
    if record is None:
        return None
    return record.topic, names.decode(record.properties).get(names.REAL_TOPIC, "")
