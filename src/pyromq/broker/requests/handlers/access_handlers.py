"""Accounts, changed and asked for by operators. RocketMQ 4.9.8: AdminBrokerProcessor."""

import logging
from typing import TYPE_CHECKING

from pyromq.codes import ResponseCode
from pyromq.errors import ConfigError, Refused, ServerFailed
from pyromq.net.routes import Answer, Request
from pyromq.wire.bodies.topic_bodies import DataVersion, encode_data_version
from pyromq.wire.headers.access_headers import (
    AccessVersionAnswer,
    CreateAccessConfig,
    DeleteAccessConfig,
    UpdateGlobalWhiteAddresses,
)
from pyromq.wire.java_json import dumps

if TYPE_CHECKING:
    from pyromq.broker.access.control import AccessControl

log = logging.getLogger(__name__)

_OFF = "access control is off here; aclEnable=true switches it on"
_STARS = "******"


class AccessHandlers:
    """Answers what concerns accounts. Without access control it says so, where RocketMQ says nothing."""

    def __init__(
        self, control: "AccessControl | None", *, address: str, broker_name: str, cluster_name: str
    ) -> None:
        self._control = control
        self._address = address
        self._broker_name = broker_name
        self._cluster_name = cluster_name

    async def update(self, request: Request[CreateAccessConfig]) -> Answer:
        """Add or change an account."""
        header, failed = request.header, ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        control = self._needed(failed)
        # Only now: there is access control, so it is imported already.
        from pyromq.broker.access.account_files import AccountChange

        change = AccountChange(
            access_key=header.access_key or "",
            secret_key=header.secret_key or "",
            white_remote_address=header.white_remote_address,
            admin=header.admin,
            default_topic_perm=header.default_topic_perm,
            default_group_perm=header.default_group_perm,
            topic_perms=_split(header.topic_perms),
            group_perms=_split(header.group_perms),
        )
        try:
            await control.change_account(change)
        except ConfigError as error:
            raise Refused(failed, str(error)) from error
        log.info("%s changed the account %s", request.link.peer, change.access_key)
        return Answer()

    async def delete(self, request: Request[DeleteAccessConfig]) -> Answer:
        """Remove an account."""
        access_key, failed = request.header.access_key or "", ResponseCode.DELETE_ACL_CONFIG_FAILED
        try:
            is_gone = await self._needed(failed).delete_account(access_key)
        except ConfigError as error:
            raise Refused(failed, str(error)) from error
        if not is_gone:
            raise Refused(
                failed, f"The accesskey[{access_key}] corresponding to accessConfig has been deleted failed."
            )
        log.info("%s removed the account %s", request.link.peer, access_key)
        return Answer()

    async def update_white(self, request: Request[UpdateGlobalWhiteAddresses]) -> Answer:
        """Change the addresses that need no signature."""
        header, failed = request.header, ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        control = self._needed(failed)
        if header.global_white_addrs is None:
            raise Refused(failed, "The globalWhiteAddresses[null] has been updated failed.")
        patterns = _split(header.global_white_addrs) or []
        try:
            await control.change_white(patterns, header.acl_file_full_path)
        except ConfigError as error:
            raise Refused(failed, str(error)) from error
        log.info("%s changed the global white list to %s", request.link.peer, ",".join(patterns) or "nobody")
        return Answer()

    def versions(self, _request: Request[None]) -> Answer:
        """Answer how often each file was changed."""
        control = self._needed(ResponseCode.SYSTEM_ERROR)
        versions = control.versions
        default = versions.get(str(control.default_path), DataVersion())
        return Answer(
            header=AccessVersionAnswer(
                version=encode_data_version(default).decode(),
                all_acl_file_version=dumps(versions).decode(),
                broker_name=self._broker_name,
                broker_addr=self._address,
                cluster_name=self._cluster_name,
            )
        )

    def accounts(self, _request: Request[None]) -> Answer:
        """Answer all accounts, their secrets as stars: RocketMQ told them until 4.9.7."""
        files = self._needed(ResponseCode.SYSTEM_ERROR).rules.files
        shown = [
            {
                **{name: value for name, value in account.items() if value not in ("", None)},
                "secretKey": _STARS,
                "admin": str(account.get("admin", False)).lower() == "true",
            }
            for file in files
            for account in file.accounts
        ]
        white = [pattern for file in files for pattern in file.white]
        return Answer(body=dumps({"globalWhiteAddrs": white, "plainAccessConfigs": shown}))

    def _needed(self, code: int) -> "AccessControl":
        if self._control is None:
            raise (ServerFailed if code == ResponseCode.SYSTEM_ERROR else Refused)(code, _OFF)
        return self._control


def _split(text: str | None) -> list[str] | None:
    # Java's split drops what is empty at the end.
    return None if text is None else text.rstrip(",").split(",")
