import pytest

from pyromq.config.live import as_properties, changed
from pyromq.config.settings import BrokerProcess, NetSettings
from pyromq.errors import ConfigError


def test_settings_are_shown_under_rocketmqs_names_and_in_its_spelling() -> None:
    shown = as_properties(BrokerProcess())

    assert shown["brokerName"] == "broker-a"
    assert shown["autoCreateTopicEnable"] == "true"
    assert shown["flushDiskType"] == "ASYNC_FLUSH"
    assert shown["mappedFileSizeCommitLog"] == "1073741824"


def test_secrets_are_shown_as_stars_when_there_is_one() -> None:
    without = as_properties(BrokerProcess())
    with_one = as_properties(BrokerProcess(net=NetSettings(tls_server_key_password="hunter2")))

    assert without["tlsServerKeyPassword"] == ""
    assert with_one["tlsServerKeyPassword"] == "******"


def test_a_live_setting_changes_and_the_old_settings_stay_as_they_were() -> None:
    before = BrokerProcess()

    after = changed(before, {"brokerPermission": "4", "fileReservedTime": "1"})

    assert (after.broker.broker_permission, after.store.file_reserved_time) == (4, 1)
    assert before.broker.broker_permission == 6


def test_a_setting_that_needs_a_restart_does_not_change() -> None:
    with pytest.raises(ConfigError, match="listenPort cannot change while this runs"):
        changed(BrokerProcess(), {"listenPort": "1"})


def test_an_unknown_key_and_a_bad_value_are_both_named() -> None:
    with pytest.raises(ConfigError, match=r"(?s)did you mean brokerPermission\?.*expected a whole number"):
        changed(BrokerProcess(), {"brokerPermision": "4", "fileReservedTime": "long"})


def test_a_name_without_effect_is_accepted() -> None:
    assert changed(BrokerProcess(), {"sendMessageThreadPoolNums": "4"}) == BrokerProcess()
