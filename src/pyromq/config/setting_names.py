"""The names of settings: RocketMQ's spelling of each, and ours."""

from pyromq.config.field import settings_of
from pyromq.config.grpc_settings import GrpcSettings
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.pop_settings import PopSettings
from pyromq.config.pressure import PressureSettings
from pyromq.config.settings import BrokerSettings, NetSettings, StoreSettings

#: The TLS properties come from `tls.properties` or `-D` in RocketMQ; here they are settings like others. The
#: two sizes are spelt as RocketMQ did before 4.6, and most manuals still do.
RENAMED = {
    "mapedFileSizeCommitLog": "mapped_file_size_commit_log",
    "mapedFileSizeConsumeQueue": "mapped_file_size_consume_queue",
    "tls.server.mode": "tls_server_mode",
    "tls.server.certPath": "tls_server_cert_path",
    "tls.server.keyPath": "tls_server_key_path",
    "tls.server.keyPassword": "tls_server_key_password",
    "tls.server.need.client.auth": "tls_server_need_client_auth",
    "tls.server.authClient": "tls_server_auth_client",
    "tls.server.trustCertPath": "tls_server_trust_cert_path",
    "tls.enable": "use_tls",
    "tls.client.authServer": "tls_client_auth_server",
    "tls.client.trustCertPath": "tls_client_trust_cert_path",
    "tls.client.certPath": "tls_client_cert_path",
    "tls.client.keyPath": "tls_client_key_path",
    "tls.client.keyPassword": "tls_client_key_password",
}

SERVER_CLASSES = (
    BrokerSettings,
    PressureSettings,
    PopSettings,
    GrpcSettings,
    StoreSettings,
    NetSettings,
    NamesrvSettings,
)
#: RocketMQ's spelling → our name, of every setting of a server.
SAME = {setting.key: setting.name for owner in SERVER_CLASSES for setting in settings_of(owner)}
OUR_NAMES = frozenset(SAME.values())


def our_name(key: str) -> str:
    """Return our name of a key: from RocketMQ's spelling, a renamed one, or our own; else the key itself."""
    return SAME.get(key) or RENAMED.get(key) or key
