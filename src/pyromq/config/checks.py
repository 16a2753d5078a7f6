"""Checks between settings, made once all of them are known."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyromq.config.choices import BrokerRole, TlsServerMode
from pyromq.config.settings import KIB, BrokerSettings, NetSettings, StoreSettings

#: What a record and a frame hold besides the body: header fields, the topic and 32 KiB of properties.
ENVELOPE_BYTES = 64 * KIB


@dataclass(frozen=True, slots=True)
class SettingConflict:
    """Settings that do not go together, and why."""

    names: tuple[str, ...]
    reason: str


def conflicts(
    *,
    broker: BrokerSettings | None = None,
    store: StoreSettings | None = None,
    net: NetSettings | None = None,
) -> list[SettingConflict]:
    """List what does not go together among the parts that a process has."""
    found: list[SettingConflict] = []
    if broker is not None:
        found += _of_broker(broker)
    if store is not None:
        found += _of_store(store)
    if net is not None:
        found += _of_net(net)
    if (
        store is not None
        and net is not None
        and net.frame_bytes_max < store.max_message_size + ENVELOPE_BYTES
    ):
        reason = f"a frame of {net.frame_bytes_max} bytes cannot carry a body of {store.max_message_size}"
        found.append(SettingConflict(("frame_bytes_max", "max_message_size"), reason))
    return found


def _of_broker(broker: BrokerSettings) -> Iterator[SettingConflict]:
    is_slave = broker.broker_role == BrokerRole.SLAVE
    if is_slave and broker.broker_id == 0:
        yield SettingConflict(("broker_id", "broker_role"), "a slave needs a brokerId above 0")
    if not is_slave and broker.broker_id != 0:
        yield SettingConflict(
            ("broker_id", "broker_role"), "a master's brokerId is 0; set brokerRole=SLAVE for a slave"
        )


def _of_store(store: StoreSettings) -> Iterator[SettingConflict]:
    if "," in store.store_path_commit_log:
        # RocketMQ spreads the files over several folders then (MultiPathMappedFileQueue.java).
        yield SettingConflict(
            ("store_path_commit_log",),
            "several folders for one log are not supported; move its files into one folder, whose name has"
            " no comma, and name that",
        )
    if store.mapped_file_size_commit_log < store.max_message_size + ENVELOPE_BYTES:
        yield SettingConflict(
            ("mapped_file_size_commit_log", "max_message_size"),
            f"a file of {store.mapped_file_size_commit_log} bytes cannot hold"
            f" a body of {store.max_message_size} with its envelope of {ENVELOPE_BYTES}",
        )
    if store.disk_space_clean_forcibly_ratio > store.disk_space_warning_level_ratio:
        yield SettingConflict(
            ("disk_space_clean_forcibly_ratio", "disk_space_warning_level_ratio"),
            "files must go before sends are refused",
        )


def _of_net(net: NetSettings) -> Iterator[SettingConflict]:
    if net.write_buffer_low_water_mark > net.write_buffer_high_water_mark:
        yield SettingConflict(
            ("write_buffer_low_water_mark", "write_buffer_high_water_mark"),
            "the low mark is above the high one",
        )
    if bool(net.tls_server_cert_path) != bool(net.tls_server_key_path):
        yield SettingConflict(
            ("tls_server_cert_path", "tls_server_key_path"), "a certificate and its key go together"
        )
    if net.tls_server_mode == TlsServerMode.ENFORCING and not net.tls_server_cert_path:
        yield SettingConflict(
            ("tls_server_mode", "tls_server_cert_path"), "TLS is required, but there is no certificate"
        )
