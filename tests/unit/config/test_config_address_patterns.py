"""Patterns of addresses that need no signature."""

import pytest

from pyromq.config.address_patterns import Addresses
from pyromq.errors import ConfigError


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("*", "10.1.2.3"),
        ("*", "2001:db8::7"),
        ("*.*.*.*", "10.1.2.3"),
        ("*:*:*:*:*:*:*:*", "::1"),
        ("192.168.1.7", "192.168.1.7"),
        ("192.168.1.7,192.168.1.9", "192.168.1.9"),
        ("192.168.1.{7,9}", "192.168.1.9"),
        ("192.168.*.*", "192.168.200.1"),
        ("192.168.1.*", "192.168.1.255"),
        ("192.168.10-20.*", "192.168.15.3"),
        ("192.168.1.1-20", "192.168.1.20"),
        ("2001:db8::7", "2001:DB8:0:0:0:0:0:7"),
        ("2001:db8::{7,9}", "2001:db8::9"),
        ("2001:db8:0:0:0:0:1-200:*", "2001:db8::1ff:5"),
        ("2::ac5:78:1-200:*", "2::ac5:78:100:5"),
        ("::1", "::1"),
        # A listener on all addresses sees IPv4 so.
        ("127.0.0.1", "::ffff:127.0.0.1"),
        ("fe80::1", "fe80::1%eth0"),
    ],
)
def test_an_address_is_among_those_that_a_pattern_names(pattern: str, host: str) -> None:
    assert host in Addresses([pattern])


@pytest.mark.parametrize(
    ("pattern", "host"),
    [
        ("", "127.0.0.1"),
        ("192.168.1.7", "192.168.1.70"),
        ("192.168.1.{7,9}", "192.168.1.8"),
        ("192.168.1.1-20", "192.168.1.21"),
        ("192.168.1.1-20", "192.168.2.7"),
        # RocketMQ stops at the first part that may be anything; here every part is what it says.
        ("10.0.*.7", "10.0.3.8"),
        ("2001:db8::{7,9}", "2001:db8::8"),
        ("2001:db8:0:0:0:0:1-200:*", "2001:db8::201:5"),
        ("192.168.1.7", "unknown"),
        ("*.*.*.*", "not an address"),
        ("1.2.3.4", "::102:304"),
    ],
)
def test_an_address_is_not_among_those_that_a_pattern_names(pattern: str, host: str) -> None:
    assert host not in Addresses([pattern])


@pytest.mark.parametrize(
    "pattern",
    [
        "1.2.3",
        "1.2.3.256",
        "1.2.3.-5",
        "1.2.3.9-5",
        "1.2.3.x",
        "1.2.3.{5",
        "1:2:3",
        "1.2.3.4.5",
        "g::1",
        "1.2.3.4,",
    ],
)
def test_what_is_no_pattern_is_refused_by_its_name(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is no address or pattern"):
        Addresses([pattern])
