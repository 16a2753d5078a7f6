"""etcd behind TLS, which asks for certificates: who is master is decided by nobody else."""

import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from etcd import program

from pyromq.broker.failover.endpoints import read_endpoints
from pyromq.broker.failover.etcd_client import EtcdClient, Transaction
from pyromq.errors import ConfigError, EtcdFailed
from pyromq.testing.waiting import eventually


@dataclass(frozen=True)
class Secured:
    """An etcd that takes TLS only, and where its certificates are."""

    port: int
    folder: Path

    def url(self, *, ca: str = "ca.pem", with_certificate: bool = True) -> str:
        own = (
            f"&cert={self.folder / 'client.pem'}&key={self.folder / 'client.key'}" if with_certificate else ""
        )
        return f"etcds://127.0.0.1:{self.port}?ca={self.folder / ca}{own}"


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "stranger.pem"))
    for name in ("server", "client"):
        issued = authority.issue_cert("127.0.0.1", "localhost")
        issued.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / f"{name}.pem"))
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, peer_port = one.getsockname()[1], other.getsockname()[1]
    client, peer = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    with (tmp_path / "etcd.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(program(), "--data-dir", str(tmp_path / "data"), "--logger", "zap", "--log-level", "warn"),
                *("--cert-file", str(tmp_path / "server.pem"), "--key-file", str(tmp_path / "server.key")),
                *("--client-cert-auth", "--trusted-ca-file", str(tmp_path / "ca.pem")),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"default={peer}"),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        eventually(lambda: is_open(port), 30, what="etcd listens")
        yield Secured(port, tmp_path)
    finally:
        process.kill()
        process.wait()


def is_open(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


async def keep_and_find(url: str) -> list[str]:
    etcd = EtcdClient(read_endpoints(url), answer_s=10.0)
    try:
        await etcd.commit(Transaction(puts={"/pyromq/tls": (b"kept", 0)}))
        return list((await etcd.find("/pyromq/")).items)
    finally:
        await etcd.close()


async def test_what_is_decided_is_kept_behind_tls(secured: Secured) -> None:
    assert await keep_and_find(secured.url()) == ["tls"]


@pytest.mark.parametrize("how", [{"ca": "stranger.pem"}, {"with_certificate": False}], ids=str)
async def test_a_stranger_on_either_side_is_refused(secured: Secured, how: dict[str, bool | str]) -> None:
    with pytest.raises(EtcdFailed):
        await keep_and_find(secured.url(**how))  # type: ignore[arg-type]


def test_a_setting_that_does_not_read_is_told_without_its_password() -> None:
    with pytest.raises(ConfigError) as caught:
        read_endpoints("http://user:the-password@127.0.0.1:2379")
    assert "the-password" not in str(caught.value)
