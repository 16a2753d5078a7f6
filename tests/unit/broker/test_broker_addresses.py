"""Where a broker listens: never elsewhere than it tells clients."""

import logging

import pytest

from pyromq.broker.addresses import listening_address, settle_addresses, slaves_address
from pyromq.config.settings import BrokerSettings
from pyromq.errors import ConfigError

LAN, OTHER_LAN, ELSEWHERE = "192.0.2.2", "198.51.100.2", "203.0.113.9"


def listens_on(bind: str, told: str) -> str:
    """Ask for a machine that has two addresses, and a name for the first."""
    return listening_address(
        bind,
        told,
        key="brokerIP1",
        resolve=lambda host: {"broker.example.com": [LAN], "localhost": ["127.0.0.1"]}.get(host, [host]),
        is_of_this_machine=lambda host: host in (LAN, OTHER_LAN) or host.startswith("127."),
    )


@pytest.mark.parametrize(
    ("bind", "told", "listens"),
    [
        ("", "", "127.0.0.1"),
        ("", LAN, LAN),
        ("", "127.0.0.1", "127.0.0.1"),
        ("", "127.0.0.2", "127.0.0.2"),
        ("", "localhost", "127.0.0.1"),
        ("", "broker.example.com", LAN),
        ("0.0.0.0", "", "0.0.0.0"),
        ("0.0.0.0", LAN, "0.0.0.0"),
        ("0.0.0.0", ELSEWHERE, "0.0.0.0"),
        ("::", LAN, "::"),
        (LAN, "", LAN),
        (LAN, LAN, LAN),
        (LAN, "broker.example.com", LAN),
        (LAN, ELSEWHERE, LAN),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.7", "127.0.0.1"),
    ],
)
def test_it_listens_where_clients_are_told_to_connect(bind: str, told: str, listens: str) -> None:
    assert listens_on(bind, told) == listens


@pytest.mark.parametrize(
    ("bind", "told", "advice"),
    [
        ("", ELSEWHERE, "no address of this machine: set bindAddress"),
        ("127.0.0.1", LAN, f"bindAddress=127.0.0.1 listens elsewhere: set it to {LAN}, or leave it out"),
        ("127.0.0.1", ELSEWHERE, "bindAddress=127.0.0.1 listens elsewhere: set it to 0.0.0.0"),
        (OTHER_LAN, LAN, f"set it to {LAN}"),
    ],
)
def test_it_does_not_start_where_nobody_would_listen(bind: str, told: str, advice: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        listens_on(bind, told)
    assert f"brokerIP1={told} is told to others" in str(refusal.value)
    assert advice in str(refusal.value)


def test_only_this_machine_connects_unless_something_is_said(caplog: pytest.LogCaptureFixture) -> None:
    for told in ("", "127.0.0.1", "127.0.0.2"):
        settle_addresses(BrokerSettings(broker_ip1=told))
    assert caplog.messages == []


def test_an_address_that_brokerip1_opens_is_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.broker.addresses._is_of_this_machine", lambda host: host == LAN)
    settled = settle_addresses(BrokerSettings(broker_ip1=LAN))
    assert (settled.bind_address, settle_addresses(settled)) == (LAN, settled)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for words in (f"broker-a listens on {LAN}", "brokerIP1", "aclEnable=false", "bindAddress", "security.md"):
        assert words in record.getMessage()


def test_slaves_are_listened_for_where_they_are_told_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.broker.addresses._is_of_this_machine", lambda host: host in (LAN, OTHER_LAN))
    for bind, told, listens in (
        ("0.0.0.0", OTHER_LAN, "0.0.0.0"),
        (LAN, "", LAN),
        (LAN, OTHER_LAN, OTHER_LAN),
        ("127.0.0.1", "", "127.0.0.1"),
    ):
        assert slaves_address(BrokerSettings(bind_address=bind, broker_ip2=told)) == listens
    with pytest.raises(ConfigError, match=f"brokerIP2={LAN}"):
        settle_addresses(BrokerSettings(bind_address="127.0.0.1", broker_ip2=LAN))
