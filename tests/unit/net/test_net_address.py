import pytest

from pyromq.errors import ConnectFailed
from pyromq.net.address import join_address, peer_of, split_address


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:9876", ("127.0.0.1", 9876)),
        (" ns.example:1 ", ("ns.example", 1)),
        ("[::1]:9876", ("::1", 9876)),
    ],
)
def test_an_address_is_a_host_and_a_port(address, expected):
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["", "127.0.0.1", ":9876", "a:b", "a:0", "a:65536", "a:-1", "a:1\u0663"])
def test_what_is_no_address_is_named(address):
    with pytest.raises(ConnectFailed, match="host:port"):
        split_address(address)


def test_a_v6_host_gets_brackets():
    assert join_address("::1", 9876) == "[::1]:9876"
    assert join_address("127.0.0.1", 9876) == "127.0.0.1:9876"


@pytest.mark.parametrize(
    ("peername", "peer", "host_bytes"),
    [
        (("127.0.0.1", 258), "127.0.0.1:258", bytes([127, 0, 0, 1, 0, 0, 1, 2])),
        (("::1", 1, 0, 0), "[::1]:1", bytes(15) + b"\x01\x00\x00\x00\x01"),
        (("::ffff:10.0.0.1", 1, 0, 0), "10.0.0.1:1", bytes([10, 0, 0, 1, 0, 0, 0, 1])),
        (("fe80::1%eth0", 1, 0, 2), "[fe80::1]:1", b"\xfe\x80" + bytes(13) + b"\x01\x00\x00\x00\x01"),
        (None, "unknown:0", bytes(8)),
    ],
)
def test_a_peer_is_known_as_text_and_as_a_records_host(peername, peer, host_bytes):
    assert peer_of(peername) == (peer, host_bytes)
