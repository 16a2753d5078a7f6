import pytest

from pyromq.config.field import settings_of
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.rocketmq import APACHE_NAMES, NO_EFFECT, REFUSED, Meaning, meaning_of
from pyromq.config.setting_names import OUR_NAMES, RENAMED, SAME, our_name
from pyromq.config.settings import BrokerSettings, NetSettings, StoreSettings


def test_each_of_rocketmqs_names_is_ours_or_without_effect_and_never_both() -> None:
    assert SAME.keys() | NO_EFFECT >= APACHE_NAMES
    assert not SAME.keys() & NO_EFFECT


def test_names_that_only_we_have_say_so_in_their_sentence() -> None:
    ours = {
        setting.key
        for owner in (BrokerSettings, StoreSettings, NetSettings, NamesrvSettings)
        for setting in settings_of(owner)
        if setting.key not in APACHE_NAMES and setting.name not in RENAMED.values()
    }
    marked = {
        setting.key
        for owner in (BrokerSettings, StoreSettings, NetSettings, NamesrvSettings)
        for setting in settings_of(owner)
        if setting.sentence.endswith("Ours.")
    }

    assert ours == marked


def test_renamed_names_lead_to_settings_that_exist() -> None:
    assert set(RENAMED.values()) <= OUR_NAMES


def test_refused_names_are_not_settings_of_ours() -> None:
    assert REFUSED.keys() <= NO_EFFECT


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("brokerIP1", "broker_ip1"),
        ("checkCRCOnRecover", "check_crc_on_recover"),
        ("useTLS", "use_tls"),
        ("tls.server.certPath", "tls_server_cert_path"),
        ("fileReservedTime", "file_reserved_time"),
        ("file_reserved_time", "file_reserved_time"),
    ],
)
def test_rocketmqs_spelling_leads_to_our_name(key: str, name: str) -> None:
    assert our_name(key) == name
    assert meaning_of(key) is Meaning.OURS


@pytest.mark.parametrize(
    "key", ["sendMessageThreadPoolNums", "timerRollWindowSlot", "com.rocketmq.remoting.x"]
)
def test_names_of_things_that_we_do_otherwise_have_no_effect(key: str) -> None:
    assert meaning_of(key) is Meaning.NO_EFFECT


def test_other_names_are_unknown() -> None:
    assert meaning_of("brokerNam") is Meaning.UNKNOWN
