"""Commands that start a server: whole, so that they can be pasted.

A broker tells its settings (25). Each that differs from its default is in the command, so that the broker
starts on the same folder and port, and registers with the same name servers.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pyromq.config.load import settings_by_name
from pyromq.config.settings import BrokerProcess
from pyromq.config.values import write_value

#: Settings that have an option of their own.
_OPTIONS: Final = {
    "namesrvAddr": "-n",
    "listenPort": "--port",
    "bindAddress": "--listen",
    "brokerIP1": "--advertise",
    "failover": "--failover",
}
#: Settings that belong to one machine, and are not for another replica.
OF_ONE_MACHINE: Final = frozenset(
    {
        *("listenPort", "haListenPort", "bindAddress", "brokerIP1", "brokerIP2", "metricsPromExporterPort"),
        *(
            "metricsPromExporterHost",
            "storePathRootDir",
            "storePathCommitLog",
            "haMasterAddress",
            "aclFolder",
        ),
    }
)
#: Settings without which `pyromq store verify` takes a store's files for damaged.
LAYOUT: Final = frozenset({"maxHashSlotNum", "maxIndexNum", "storePathCommitLog", "messageDelayLevel"})
#: A setting that no other RocketMQ has.
_OURS: Final = "heldPullsMax"
_STARS: Final = "***"


def is_ours(settings: Mapping[str, str]) -> bool:
    """Whether settings are those of a PyroMQ broker."""
    return _OURS in settings


def broker_command(
    settings: Mapping[str, str], changes: Mapping[str, str], left_out: Collection[str] = ()
) -> str:
    """Return the command that starts a broker with these settings and changes."""
    words = ["pyromq broker"]
    options, others = [], []
    for key, value in _wanted(settings, changes, left_out):
        if key in _OPTIONS:
            options.append(f"{_OPTIONS[key]} {shlex.quote(value)}")
        else:
            others.append(f"--set {shlex.quote(f'{key}={value}')}")
    return " ".join([*words, *options, *others])


def said_settings(settings: Mapping[str, str], keys: Collection[str]) -> str:
    """Return the options that say those of a broker's settings that are not as by default."""
    said = {key: value for key, value in _wanted(settings, {}, ()) if key in keys}
    return "".join(f" --set {shlex.quote(f'{key}={value}')}" for key, value in said.items())


def hidden_settings(settings: Mapping[str, str]) -> list[str]:
    """Return the settings whose values a broker does not tell, since they are secret."""
    return [key for key, value in settings.items() if _STARS in value]


def _wanted(
    settings: Mapping[str, str], changes: Mapping[str, str], left_out: Collection[str]
) -> Iterator[tuple[str, str]]:
    for setting in settings_by_name(BrokerProcess).values():
        key = setting.key
        if key in changes:
            yield key, changes[key]
            continue
        value = settings.get(key, _STARS)
        # The name and the port are said also where they are the default: a command shows who is started.
        is_said = value != write_value(setting.default) or key in ("listenPort", "brokerName")
        if is_said and key not in left_out and _STARS not in value:
            yield key, value
