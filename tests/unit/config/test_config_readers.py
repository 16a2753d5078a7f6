from pathlib import Path

import pytest

from pyromq.config.field import settings_of
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import BrokerSettings, ClientSettings, NetSettings, StoreSettings

SOURCES = Path(__file__).parents[3] / "src"
#: Only shown: RocketMQ's tools may ask for it.
SHOWN_ONLY = {"product_env_name"}
#: Read by the command that serves: the pages are there before the server is, and between two roles.
OF_THE_PROCESS = {"health_port", "health_host"}


@pytest.mark.parametrize(
    "owner",
    [BrokerSettings, StoreSettings, NetSettings, NamesrvSettings, ClientSettings],
    ids=lambda o: o.__name__,
)
def test_every_setting_has_a_reader(owner: type[object]) -> None:
    # Without one it belongs among RocketMQ's names that have no effect here, which are warned about.
    # A command that shows a setting is no reader of it.
    code = "\n".join(
        path.read_text()
        for path in SOURCES.rglob("*.py")
        if not {"config", "cli"} & set(path.relative_to(SOURCES).parts[:-1])
    )

    unread = [setting.name for setting in settings_of(owner) if f".{setting.name}" not in code]

    assert set(unread) <= SHOWN_ONLY | OF_THE_PROCESS
    serving = (SOURCES / "pyromq/cli/servers/broker_servers.py").read_text()
    assert all(f".{name}" in serving for name in OF_THE_PROCESS)
