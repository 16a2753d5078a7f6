"""Accounts for tests of access control, and requests that they sign."""

from collections.abc import Mapping
from pathlib import Path

from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command
from pyromq.wire.signature import signer

OPERATOR, OPERATOR_SECRET = "the-operator", "operators-secret-1"
SHOP, SHOP_SECRET = "web-shop", "web-shops-secret-2"
NOBODY, NOBODY_SECRET = "nobody-at-all", "nobodys-secret-3"

ACCOUNTS = f"""\
globalWhiteRemoteAddresses:

accounts:
- accessKey: {OPERATOR}
  secretKey: {OPERATOR_SECRET}
  whiteRemoteAddress:
  admin: true
- accessKey: {SHOP}
  secretKey: {SHOP_SECRET}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - orders=PUB|SUB
  - prices=SUB
  - clicks=PUB
  groupPerms:
  - billing=SUB
- accessKey: {NOBODY}
  secretKey: {NOBODY_SECRET}
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
"""


def write_accounts(folder: Path, text: str = ACCOUNTS) -> Path:
    """Write accounts where a broker looks for them, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plain_acl.yml").write_text(text)
    return folder


def signed(
    code: int, ext: Mapping[str, object] | None, body: bytes, account: str, secret: str
) -> dict[str, str]:
    """Return the fields of a request with its signature."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (ext or {}).items()
    }
    command = Command(code, ext=texts, body=body)
    signer(account, secret)(command)
    assert command.ext is not None
    return command.ext


async def ask_as(
    client: WireClient,
    account: tuple[str, str],
    code: int,
    ext: Mapping[str, object] | None = None,
    body: bytes = b"",
) -> Command:
    """Ask as an account does."""
    return await client.ask(code, signed(code, ext, body, *account), body)


def is_denied(answer: Command) -> bool:
    """Whether access control said no, and nobody else."""
    return answer.code == 1 and (answer.remark or "").startswith(
        "org.apache.rocketmq.acl.common.AclException"
    )
