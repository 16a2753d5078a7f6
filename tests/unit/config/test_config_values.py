from typing import Any

import pytest

from pyromq.config.choices import BrokerRole, FlushDiskType
from pyromq.config.field import Setting
from pyromq.config.load import settings_by_name
from pyromq.config.settings import BrokerProcess
from pyromq.config.values import read_value, write_value

KNOWN = settings_by_name(BrokerProcess)


def read(name: str, value: str | int | bool) -> Any:
    return read_value(KNOWN[name], value)


@pytest.mark.parametrize("text", ["true", "TRUE", " True "])
def test_true_is_read_in_any_case(text: str) -> None:
    assert read("trace_on", text) is True


@pytest.mark.parametrize("text", ["yes", "1", "", "tru"])
def test_other_words_for_true_are_not_taken_for_false(text: str) -> None:
    # Java's parseBoolean makes false of all of them, silently.
    with pytest.raises(ValueError, match="expected true or false"):
        read("trace_on", text)


def test_numbers_are_read_with_blanks_around_them() -> None:
    assert read("listen_port", " 10911 ") == 10911


@pytest.mark.parametrize("value", ["10911x", "1e4", "", "1_000", "１", True, "9" * 5000])
def test_what_is_not_a_whole_number_is_refused(value: str | bool) -> None:
    with pytest.raises(ValueError, match="expected a whole number"):
        read("listen_port", value)


@pytest.mark.parametrize(("value", "reason"), [("-1", "0 or more"), ("65536", "65535 or less")])
def test_numbers_out_of_bounds_are_refused_with_the_bound(value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read("listen_port", value)


def test_a_comment_behind_a_number_gets_the_advice_to_move_it() -> None:
    with pytest.raises(ValueError, match="a comment needs a line of its own"):
        read("broker_id", "0 # master")


def test_choices_are_read_in_any_case_into_their_enum() -> None:
    assert read("flush_disk_type", "sync_flush") is FlushDiskType.SYNC_FLUSH
    assert read("broker_role", "SLAVE") is BrokerRole.SLAVE


def test_a_wrong_choice_is_answered_with_all_of_them() -> None:
    with pytest.raises(ValueError, match="expected SYNC_FLUSH or ASYNC_FLUSH, not 'FLUSH'"):
        read("flush_disk_type", "FLUSH")


@pytest.mark.parametrize("text", ["", "10.0.0.1", "::1", "broker-1.example.org", "localhost"])
def test_addresses_and_host_names_are_hosts(text: str) -> None:
    assert read("broker_ip1", text) == text


def test_a_host_with_a_port_is_told_to_drop_the_port() -> None:
    with pytest.raises(ValueError, match="without a port"):
        read("broker_ip1", "10.0.0.1:10911")


def test_a_host_with_blanks_is_refused() -> None:
    with pytest.raises(ValueError, match="IP address or a host name"):
        read("broker_ip1", "ten zero one")


@pytest.mark.parametrize("text", ["", "a:9876", "10.0.0.1:9876;b:9877", "[::1]:9876", "a:9876;"])
def test_name_servers_are_host_and_port_joined_by_semicolons(text: str) -> None:
    assert read("namesrv_addr", text) == text


@pytest.mark.parametrize("text", ["a", "a:0", "a:65536", "a:9876,b:9876", ":9876", "http://a:9876"])
def test_other_lists_of_name_servers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port joined by semicolons"):
        read("namesrv_addr", text)


@pytest.mark.parametrize("text", ["", "..", "a/b", "a b", "x" * 128])
def test_names_that_cannot_be_a_folder_or_a_topic_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        read("broker_name", text)


@pytest.mark.parametrize("text", ["1s", "1s 5m 2h 1d"])
def test_delay_levels_have_units(text: str) -> None:
    assert read("message_delay_level", text) == text


@pytest.mark.parametrize("text", ["", "1", "1s  5s", "1w", "s"])
def test_delay_levels_without_a_known_unit_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="s, m, h or d"):
        read("message_delay_level", text)


@pytest.mark.parametrize("text", ["04", "4", "2;14", "23"])
def test_hours_of_the_day_are_joined_by_semicolons(text: str) -> None:
    assert read("delete_when", text) == text


@pytest.mark.parametrize("text", ["24", "4,5", "", "four"])
def test_hours_that_no_day_has_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="hours from 0 to 23"):
        read("delete_when", text)


@pytest.mark.parametrize("setting", KNOWN.values(), ids=lambda setting: setting.name)
def test_every_default_keeps_its_own_rule(setting: Setting) -> None:
    assert read_value(setting, write_value(setting.default)) == setting.default
