"""The name server's own settings."""

from dataclasses import dataclass
from typing import Final

from pyromq.config.choices import MetricsExporterType
from pyromq.config.field import PORT_MAX, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvSettings:
    """The name server's own settings."""

    listen_port: int = setting(9876, "TCP port; 0 takes a free one.", at_most=PORT_MAX)
    bind_address: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 opens it to all.", form="host")
    kv_config_path: str = setting("", "File that keeps the KV table; empty: a file in the data folder.")
    config_store_path: str = setting(
        "", "File that keeps settings changed by updateNamesrvConfig; empty: they last until the stop."
    )
    order_message_enable: bool = setting(
        False, "Add the ordered-topic configuration of the KV table to routes.", live=True
    )
    product_env_name: str = setting("center", "Environment's name; only handed out.", live=True)
    scan_not_active_broker_interval: int = setting(
        5_000, "Milliseconds between looks for brokers that fell silent.", at_least=1
    )
    broker_channel_expired_time: int = setting(
        120_000, "Milliseconds of silence after which a broker is dropped. Ours.", at_least=1
    )
    metrics_exporter_type: MetricsExporterType = setting(
        MetricsExporterType.DISABLE, "PROM serves metrics to Prometheus over HTTP; DISABLE does not."
    )
    metrics_prom_exporter_port: int = setting(
        5556, "TCP port of the metrics; 0 takes a free one.", at_most=PORT_MAX
    )
    metrics_prom_exporter_host: str = setting(
        "127.0.0.1", "Address that metrics are served on; 0.0.0.0 opens them to all.", form="host"
    )
    health_port: int = setting(
        0,
        "TCP port of the health pages alone, /health/live and /health/ready; 0: none. Ours.",
        at_most=PORT_MAX,
    )
    health_host: str = setting(
        "127.0.0.1", "Address that they are served on; 0.0.0.0 opens them to all. Ours.", form="host"
    )
    config_black_list: str = setting(
        "configBlackList;configStorePath;kvConfigPath",
        "Settings that updateNamesrvConfig may not change, joined by semicolons.",
    )


NAMESRV_UNCHANGED: Final = NamesrvSettings()
