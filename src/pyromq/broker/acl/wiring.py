"""Gives a broker its access control, and what signs its own requests to other brokers."""

from functools import partial
from pathlib import Path

import msgspec

from pyromq.broker import topic_names
from pyromq.broker.acl.addresses import Addresses
from pyromq.broker.acl.control import AccessControl
from pyromq.broker.parts import Parts
from pyromq.broker.route_facts import BrokerTable
from pyromq.config.settings import BrokerSettings
from pyromq.errors import ConfigError, StoreError
from pyromq.store.store import MessageStore
from pyromq.wire import properties as names
from pyromq.wire.signing import Sign, signer


class _Credentials(msgspec.Struct, rename="camel"):
    access_key: str
    secret_key: str
    security_token: str = ""


def make_access_control(parts: Parts, table: BrokerTable) -> AccessControl | None:
    """Return the access control of a broker, and put it before its table; None where it is off."""
    settings = parts.settings
    if not settings.acl_enable:
        return None
    folder = settings.acl_folder or str(Path(parts.store_settings.store_path_root_dir) / "config")
    control = AccessControl(
        Path(folder),
        parts.clock,
        table=table,
        topic_at=partial(topic_at, parts.store),
        slaves=Addresses([parts.store_settings.ha_allowed_addresses]),
    )
    table.admit = control.admit
    return control


def own_signer(settings: BrokerSettings) -> Sign | None:
    """Return what signs this broker's own requests. Raises ConfigError, which does not show the secret."""
    text = settings.inner_client_authentication_credentials
    if not text:
        return None
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
        record = store.record_at(position)
    except StoreError:
        return ""
    if record is None:
        return None
    if topic_names.is_brokers_own(record.topic):
        return names.decode(record.properties).get(names.REAL_TOPIC, "")
    return record.topic
