"""The ways in which brokers are set up: each case names one, and both brokers have it."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyromq.config.settings import ClientSettings

#: Apache wants names of more than six characters.
ACCOUNT = ClientSettings(access_key="bench-load", secret_key="a secret of the bench")
PLAIN_TLS = ClientSettings(use_tls=True)
#: In Apache's own file, which our broker reads as it is. The account is ordinary: an admin is asked less.
ACCOUNTS = f"""\
globalWhiteRemoteAddresses: []
accounts:
- accessKey: {ACCOUNT.access_key}
  secretKey: {ACCOUNT.secret_key}
  admin: false
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
- accessKey: operator
  secretKey: a secret of the operator
  admin: true
"""
OPERATOR = ClientSettings(access_key="operator", secret_key="a secret of the operator")


@dataclass(frozen=True)
class Setup:
    """What a broker is told besides what all are told."""

    key: str
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    is_guarded: bool = False
    """With access control."""
    is_encrypted: bool = False
    has_slave: bool = False


PLAIN = Setup("plain")
FLUSHED = Setup("flushed", {"flushDiskType": "SYNC_FLUSH"})
GUARDED = Setup("guarded", {"aclEnable": "true"}, is_guarded=True)
ENCRYPTED = Setup("encrypted", is_encrypted=True)
SYNC_PAIR = Setup("sync-pair", {"brokerRole": "SYNC_MASTER"}, has_slave=True)
ASYNC_PAIR = Setup("async-pair", {"brokerRole": "ASYNC_MASTER"}, has_slave=True)
SETUPS = (PLAIN, FLUSHED, GUARDED, ENCRYPTED, ASYNC_PAIR, SYNC_PAIR)


def write_accounts(folder: Path) -> Path:
    """Write the accounts where Apache looks for them in its home; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plain_acl.yml").write_text(ACCOUNTS)
    return folder


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Return a certificate for this machine and its key, made when first asked for."""
    certificate, key = folder / "server.pem", folder / "server.key"
    if not key.exists():
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"),
                *("-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)),
            ],
            check=True,
            capture_output=True,
        )
    return certificate, key
