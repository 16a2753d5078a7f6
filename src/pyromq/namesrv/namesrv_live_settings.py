"""The name server's settings while it runs: shown whole, and some of them changed over the network.

Nothing that arrives over the network can name a path: no setting that holds one is live, and those on the
black list are refused before anything else is looked at. Changes are kept in the file `configStorePath`, if
that is set, beside whatever else it says, and read from it at the start.
"""

import asyncio
import logging

from pyromq.codes import ResponseCode
from pyromq.config.live import as_properties, changed, idle_updates
from pyromq.config.load import settings_by_name
from pyromq.config.properties_file import read_properties, write_properties
from pyromq.config.setting_names import our_name
from pyromq.config.settings import NamesrvProcess
from pyromq.errors import ConfigError, Refused, StoreError
from pyromq.name_rules import TEXT_CHARACTERS_MAX
from pyromq.store.atomic_file import read_with_backup, replace_file

log = logging.getLogger(__name__)


class NamesrvLiveSettings:
    """The settings as they are now."""

    def __init__(self, process: NamesrvProcess) -> None:
        self.now = process
        self._path = process.namesrv.config_store_path
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Take up what was changed before the last stop; raise ConfigError when that does not read."""
        known = settings_by_name(NamesrvProcess)
        live = {
            key: value
            for key, value in self._saved().items()
            if (setting := known.get(our_name(key))) is not None and setting.live
        }
        try:
            self.now = changed(self.now, live)
        except ConfigError as error:
            raise ConfigError(f"{self._path}: {error}") from error

    def as_text(self) -> str:
        """Return all settings, a line each, as RocketMQ's tools print them."""
        return "".join(f"{key}={value}\n" for key, value in as_properties(self.now).items())

    async def change(self, text: str) -> None:
        """Change settings by lines of `key=value`, all of them or none.

        Raises Refused: NO_PERMISSION for a key on the black list, SYSTEM_ERROR for one that is unknown or
        needs a restart, or a value that does not read.
        """
        if len(text) > TEXT_CHARACTERS_MAX:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the settings have {len(text)} characters; {TEXT_CHARACTERS_MAX} are the limit",
            )
        try:
            updates = {line.key: line.value for line in read_properties(text)}
        except ValueError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the settings do not read: line {error}") from error
        if not self._black_list().isdisjoint(updates):
            # RocketMQ 5.3: DefaultRequestProcessor.java.
            raise Refused(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
        try:
            self.now = changed(self.now, updates)
        except ConfigError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        for idle in idle_updates(updates):
            log.warning("%s", idle)
        await self._save(updates)

    def _black_list(self) -> set[str]:
        return {key.strip() for key in self.now.namesrv.config_black_list.split(";")}

    def _saved(self) -> dict[str, str]:
        if not self._path:
            return {}
        text = read_with_backup(self._path, bytes.decode)
        try:
            return {line.key: line.value for line in read_properties(text or "")}
        except ValueError as error:
            raise ConfigError(f"{self._path}: line {error}") from error

    async def _save(self, updates: dict[str, str]) -> None:
        if not self._path:
            return
        async with self._writing:
            await asyncio.to_thread(self._write, updates)

    def _write(self, updates: dict[str, str]) -> None:
        try:
            replace_file(self._path, write_properties(self._saved() | updates).encode())
        except StoreError as error:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the change holds until this name server stops, because it cannot be written: {error}",
            ) from error
