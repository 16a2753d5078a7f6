"""Accounts: 50 changes one, 51 removes one, 52 asks for the files' versions, 53 changes white lists."""

from pyromq.wire.header import Header, Text, Word


class CreateAccessConfig(Header, kw_only=True):
    """50: one account; the permissions are joined by commas."""

    access_key: Word | None = None
    secret_key: Text | None = None
    white_remote_address: Text | None = None
    admin: bool = False
    default_topic_perm: Text | None = None
    default_group_perm: Text | None = None
    topic_perms: Text | None = None
    group_perms: Text | None = None

    def __repr__(self) -> str:
        return f"CreateAccessConfig({self.access_key!r})"


class DeleteAccessConfig(Header, kw_only=True):
    """51: the account that goes."""

    access_key: Word | None = None


class UpdateGlobalWhiteAddresses(Header, kw_only=True):
    """53: the addresses that need no signature, joined by commas, and the file that they are kept in."""

    global_white_addrs: Text | None = None
    acl_file_full_path: Text | None = None


class AccessVersionAnswer(Header, kw_only=True):
    """52: the version of the default file and of all files, as JSON, and who answers."""

    version: str
    all_acl_file_version: str
    broker_name: str
    broker_addr: str
    cluster_name: str
