"""Access control: looks at every request before anything else does. RocketMQ 4.9.8: PlainPermissionManager.

A request passes when its sender's address is on the global white list; or when the account that it names may
do what it needs, and signed it. From an address on the account's own white list no signature is asked for;
RocketMQ asks for no permission there either, so that whoever is at such an address can do everything.

The files are looked at every second. Files that do not read change nothing while the broker runs, and keep it
from starting. Rules are replaced whole: a request sees the old ones or the new ones.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pyromq.broker.access.account_files import (
    DEFAULT_NAME,
    FOLDER_NAME,
    AccessFile,
    AccountChange,
    find_files,
    read_account,
    read_file,
    with_change,
    write_file,
)
from pyromq.broker.access.accounts import AccessDenied, Account, Need
from pyromq.broker.access.needs import NOTHING, AskedRequest, TopicAt, to_publish
from pyromq.broker.background import Background
from pyromq.broker.requests.route_facts import BrokerTable
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.account_rules import check_keys, check_resources
from pyromq.config.address_patterns import Addresses
from pyromq.errors import ConfigError, ProtocolError
from pyromq.net.link import Link
from pyromq.net.routes import Answer, Caller
from pyromq.wire.bodies.topic_bodies import DataVersion
from pyromq.wire.command import Command
from pyromq.wire.signature import ACCESS_KEY, is_signed

#: Seconds between two looks at the files.
LOOK_S: Final = 1.0
#: Tools and programs look for RocketMQ's own word.
_REMARK: Final = "org.apache.rocketmq.acl.common.AclException: "
#: Of requests that are refused at most so many are told in the log in one look.
_TOLD_MAX: Final = 10
#: Whoever sends from a host on the global white list.
_TRUSTED: Final = Caller("", is_trusted=True)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of all account files together."""

    files: Sequence[AccessFile]
    accounts: dict[str, Account]
    #: Which file an account is in.
    places: dict[str, Path]
    white: Addresses

    def __repr__(self) -> str:
        return f"Rules({len(self.files)} files, {len(self.accounts)} accounts)"


#: What `AccessControl` calls after a request was let through.
Learn = Callable[[Rules, Account | None, Link, Command], None]


class AccessControl:
    """The access control of one broker. `table` is what it answers, `topic_at` looks into its log."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        table: BrokerTable,
        topic_at: TopicAt,
        slaves: Addresses | None = None,
    ) -> None:
        self.refused_count = 0
        #: Told of each request that was let through: by which rules, and whose it is.
        self.learn: Learn | None = None
        self._folder = folder
        self._clock = clock
        self._table = table
        self._topic_at = topic_at
        self._slaves = slaves or Addresses()
        self._rules = Rules((), {}, {}, Addresses())
        self._marks: object = None
        self._told_count = 0
        self._changing = asyncio.Lock()

    @property
    def rules(self) -> Rules:
        """The rules that hold."""
        return self._rules

    @property
    def default_path(self) -> Path:
        """The file that new accounts go to."""
        return self._folder / DEFAULT_NAME

    @property
    def versions(self) -> dict[str, DataVersion]:
        """The version of each file that operators changed, by its path."""
        return {str(file.path): file.version for file in self._rules.files}

    def load(self) -> None:
        """Read the files; this blocks. Raises ConfigError when they do not read or there are none."""
        marks = _marks(self._folder)
        self._rules = _read_rules([read_file(path) for path in self._found()])
        self._marks = marks

    def run_jobs(self, background: Background) -> None:
        """Look at the files from now on."""
        background.every("look at the accounts", LOOK_S, self.look)

    async def look(self) -> None:
        """Read the files again if they changed; when they do not read, the rules stay as they are."""
        if self._told_count > _TOLD_MAX:
            log.warning("%d more requests were refused", self._told_count - _TOLD_MAX)
        self._told_count = 0
        async with self._changing:
            marks = await asyncio.to_thread(_marks, self._folder)
            if marks == self._marks:
                return
            try:
                await asyncio.to_thread(self.load)
            except ConfigError as error:
                # It is told once, not every second.
                self._marks = marks
                log.error("the accounts stay as they were: %s", error)  # noqa: TRY400  the text says it all
            else:
                log.info("%d accounts, as the files in %s say now", len(self._rules.accounts), self._folder)

    def admit(self, link: Link, command: Command) -> Answer | Caller:
        """Return who sent a request, or the answer to one that may not pass."""
        host, rules = link.peer.rpartition(":")[0].strip("[]"), self._rules
        try:
            account = self._check(rules, host, command)
        except AccessDenied as error:
            self._refused(f"request {command.code}", link.peer, error)
            return Answer(ResponseCode.SYSTEM_ERROR, f"{_REMARK}{error}")
        if self.learn is not None:
            self.learn(rules, account, link, command)
        if account is None:
            return _TRUSTED
        return Caller(account.access_key, is_trusted=account.may_everything)

    def admit_signed(
        self, peer: str, access_key: str, is_signed: Callable[[bytes], bool], need: Need, *, what: str
    ) -> Caller:
        """Return who makes a call of another protocol than remoting; `is_signed` is told the secret.

        Raises AccessDenied unless they may do what the call needs.
        """
        host, rules = peer.rpartition(":")[0].strip("[]"), self._rules
        if host in rules.white:
            return _TRUSTED
        try:
            if not access_key:
                raise AccessDenied("No accessKey is configured")
            account = rules.accounts.get(access_key)
            if account is None:
                raise AccessDenied(f"No acl config for {access_key[:100]}")
            if host not in account.white and not is_signed(account.secret):
                raise AccessDenied(f"Check signature failed for accessKey={access_key}")
            account.check(0, need)
        except AccessDenied as error:
            self._refused(what, peer, error)
            raise
        return Caller(account.access_key, is_trusted=account.may_everything)

    def _refused(self, what: str, peer: str, error: AccessDenied) -> None:
        """Count a refusal, and log it unless many were logged just now."""
        self.refused_count += 1
        self._told_count += 1
        if self._told_count <= _TOLD_MAX:
            log.warning("%s of %s is refused: %s", what, peer, error)

    def _check(self, rules: Rules, host: str, command: Command) -> Account | None:
        """Return whose a request from a host is, None where no account is needed.

        Raises AccessDenied unless it may pass.
        """
        if host in rules.white:
            return None
        ext = command.ext or {}
        access_key = ext.get(ACCESS_KEY)
        if access_key is None:
            raise AccessDenied("No accessKey is configured")
        account = rules.accounts.get(access_key)
        if account is None:
            raise AccessDenied(f"No acl config for {access_key[:100]}")
        if host not in account.white and not is_signed(ext, command.body, account.secret):
            raise AccessDenied(f"Check signature failed for accessKey={access_key}")
        account.check(command.code, self._need_of(command))
        return account

    def _need_of(self, command: Command) -> Need:
        route = self._table.find(command.code)
        if route is None:
            # It is told that nobody knows this here: newer clients find out so what a broker can do.
            return NOTHING
        try:
            return route.needs(AskedRequest(command, self._topic_at))
        except ProtocolError as error:
            raise AccessDenied(str(error)) from error

    def may_publish(self, caller: Caller | None, topic: str) -> bool:
        """Return whether whoever sent a request may send to a topic now; their account may have changed."""
        if caller is None or not caller.name:
            return caller is not None and caller.is_trusted
        account = self._rules.accounts.get(caller.name)
        if account is None:
            return False
        try:
            account.check(0, to_publish(topic))
        except AccessDenied:
            return False
        return True

    def may_copy(self, host: str) -> bool:
        """Return whether the whole log may be copied from here: RocketMQ's slaves have no account to show."""
        return host in self._rules.white or host in self._slaves

    async def change_account(self, change: AccountChange) -> None:
        """Add or change an account, in memory and in its file. Raises ConfigError; nothing changes then."""
        check_keys(change.access_key, change.secret_key)
        check_resources(change.topic_perms or ())
        check_resources(change.group_perms or ())
        async with self._changing:
            path = self._rules.places.get(change.access_key, self.default_path)
            await asyncio.to_thread(self._rewrite, with_change(self._file(path), change))

    async def delete_account(self, access_key: str) -> bool:
        """Remove an account, in memory and in its file; return whether there was one."""
        async with self._changing:
            path = self._rules.places.get(access_key)
            if path is None:
                return False
            file = self._file(path)
            left = tuple(one for one in file.accounts if one.get("accessKey") != access_key)
            await asyncio.to_thread(self._rewrite, replace(file, accounts=left))
            return True

    async def change_white(self, patterns: Sequence[str], path_text: str | None) -> None:
        """Change the global white list of a file, by default the one for new accounts.

        Raises ConfigError for a path that is none of the files: nobody writes elsewhere over the network.
        """
        async with self._changing:
            path = Path(path_text) if path_text else self.default_path
            if path != self.default_path and all(file.path != path for file in self._rules.files):
                raise ConfigError(f"{path_text} is none of the files that accounts are kept in")
            file = replace(self._file(path), white=tuple(one.strip() for one in patterns if one.strip()))
            await asyncio.to_thread(self._rewrite, file)

    def _found(self) -> list[Path]:
        paths = find_files(self._folder)
        if not paths:
            raise ConfigError(
                f"aclEnable is true, but neither {self.default_path} nor a YAML file below "
                f"{self._folder / FOLDER_NAME} is there; aclFolder says where to look"
            )
        return paths

    def _file(self, path: Path) -> AccessFile:
        return next(
            (file for file in self._rules.files if file.path == path), AccessFile(path, (), (), DataVersion())
        )

    def _rewrite(self, file: AccessFile) -> None:
        """Write a file that changed, once it is known that all files together still make rules."""
        file = replace(file, version=file.version.bumped(self._clock.now_ms()))
        others = [one for one in self._rules.files if one.path != file.path]
        rules = _read_rules(
            sorted([*others, file], key=lambda one: (one.path == self.default_path, one.path))
        )
        write_file(file)
        self._rules = rules
        self._marks = _marks(self._folder)


def _read_rules(files: Sequence[AccessFile]) -> Rules:
    accounts: dict[str, Account] = {}
    places: dict[str, Path] = {}
    white: list[str] = []
    for file in files:
        white += _checked(file)
        for fields in file.accounts:
            account = read_account(fields, file.path)
            if account.access_key in accounts:
                log.warning(
                    "%s: account %s is in %s already; what this file says of it does not count",
                    file.path,
                    account.access_key,
                    places[account.access_key],
                )
                continue
            accounts[account.access_key] = account
            places[account.access_key] = file.path
    return Rules(files, accounts, places, Addresses(white))


def _checked(file: AccessFile) -> Iterable[str]:
    try:
        Addresses(file.white)
    except ConfigError as error:
        raise ConfigError(f"{file.path}: {error}") from error
    return file.white


def _marks(folder: Path) -> object:
    """Return what is another thing once a file was changed, added or removed."""
    marks = []
    for path in find_files(folder):
        try:
            status = path.stat()
        except OSError:
            continue
        marks.append((path, status.st_mtime_ns, status.st_size, status.st_ino))
    return marks
