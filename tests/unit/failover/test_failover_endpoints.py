"""Where etcd is, as the setting says it."""

from pathlib import Path

import pytest
import trustme

from pyromq.broker.failover.endpoints import read_endpoints
from pyromq.errors import ConfigError


def test_several_members_are_joined_by_commas() -> None:
    assert read_endpoints("etcd://a:2379,b:2380").urls == ("http://a:2379", "http://b:2380")


def test_a_member_without_a_port_has_etcd_s() -> None:
    assert read_endpoints("etcd://a,[::1]").urls == ("http://a:2379", "http://[::1]:2379")


def test_a_password_is_not_shown() -> None:
    endpoints = read_endpoints("etcd://me:se%40cret@a:1")
    assert (endpoints.user, endpoints.password, endpoints.shown) == ("me", "se@cret", "a:1")


def test_tls_has_a_scheme_of_its_own_and_takes_files(tmp_path: Path) -> None:
    authority = trustme.CA()
    own = authority.issue_cert("client")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    own.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
    endpoints = read_endpoints(f"etcds://a?ca={tmp_path / 'ca.pem'}&cert={tmp_path / 'own.pem'}")
    assert endpoints.urls == ("https://a:2379",)
    assert endpoints.tls is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a:2379", "write etcd://HOST:2379"),
        ("http://a:2379", "write etcd://HOST:2379"),
        ("etcd://", "no host"),
        ("etcd://a:many", "is not HOST:PORT"),
        ("etcd://a:70000", "is not HOST:PORT"),
        ("etcd://a?ca=x", "write etcds://"),
        ("etcds://a?colour=x", "colour"),
        ("etcds://a?ca=/there/is/none", "does not read"),
    ],
)
def test_what_does_not_read_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        read_endpoints(text)
