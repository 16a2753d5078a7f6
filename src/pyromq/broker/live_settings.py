"""A broker's settings while it runs: shown whole, and some of them changed over the network.

Only what is declared `live` changes: no setting that names a path, a command or the broker itself is, so
nothing that arrives over the network can move files or run anything. All parts of a broker share its
settings, and look at them when they need them: a change is written into them, in one turn of the loop. Who
remembers what followed from them, as the kernel's shortcuts do, compares `revision` before it relies on that.

Changes are kept in `config/live.properties` of the store, and hold over the settings that a start is given;
the name servers only until a start is given others than the start before the change was.
"""

import logging
import os
from pathlib import Path

from pyromq.broker.json_table import JsonTable
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.live import as_properties, change_in_place, idle_updates
from pyromq.config.load import settings_by_name
from pyromq.config.properties_file import read_properties, write_properties
from pyromq.config.setting_names import our_name
from pyromq.config.settings import BrokerProcess
from pyromq.errors import ConfigError, ServerFailed
from pyromq.name_rules import TEXT_CHARACTERS_MAX
from pyromq.store.atomic_file import read_with_backup
from pyromq.store.files import Files
from pyromq.wire.bodies.topic_bodies import DataVersion, encode_data_version

log = logging.getLogger(__name__)

#: What RocketMQ's tools ask every broker for and is no setting here: filter servers, of which there are none,
#: and how exportMetrics finds out how many processors there are.
_SHOWN = {"filterServerNums": "0", "clientCallbackExecutorThreads": str(os.cpu_count() or 1)}
_NAME_SERVERS = "namesrvAddr"
#: In the file, beside the name servers that were changed to: those that the broker was started with.
_NAME_SERVERS_GIVEN = "namesrvAddrAtStart"


class BrokerLiveSettings:
    """The settings of one broker, as they are now. `process` is the broker's own: it is changed."""

    def __init__(
        self, process: BrokerProcess, path: Path, clock: Clock, *, files: Files | None = None
    ) -> None:
        self.now = process
        #: Raised together with each change, before anything else runs.
        self.revision = 0
        self._path = path
        self._clock = clock
        self._files = files
        self._version = DataVersion(timestamp=clock.now_ms())
        self._kept: dict[str, str] = {}
        self._name_servers_given = process.broker.namesrv_addr
        self._file = JsonTable(path, self._encoded, files=files)

    def load(self) -> None:
        """Take up what was changed before the last stop; raise ConfigError when that does not read."""
        text = read_with_backup(self._path, bytes.decode, files=self._files)
        try:
            saved = {line.key: line.value for line in read_properties(text or "")}
            self._forget_name_servers_if_others_are_given(saved)
            known = settings_by_name(BrokerProcess)
            self._kept = {
                key: value
                for key, value in saved.items()
                if (setting := known.get(our_name(key))) is not None and setting.live
            }
            change_in_place(self.now, self._kept)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{self._path}: {error}") from error
        for key, value in self._kept.items():
            log.info("%s=%s, as %s says: it was changed while the broker ran", key, value, self._path)

    def _forget_name_servers_if_others_are_given(self, saved: dict[str, str]) -> None:
        at_start = saved.pop(_NAME_SERVERS_GIVEN, None)
        if at_start is not None and at_start != self._name_servers_given and _NAME_SERVERS in saved:
            log.warning(
                "namesrvAddr=%s of %s is forgotten: the broker is started with others now, %s",
                saved.pop(_NAME_SERVERS),
                self._path,
                self._name_servers_given or "none",
            )
            self._file.changed()

    async def save(self) -> None:
        """Write down what a start forgot, if it did; raise StoreError when that fails."""
        await self._file.save()

    def _encoded(self) -> bytes:
        given = {_NAME_SERVERS_GIVEN: self._name_servers_given} if _NAME_SERVERS in self._kept else {}
        return write_properties(self._kept | given).encode()

    @property
    def version(self) -> str:
        """The data version of the settings as JSON: it counts their changes since the start."""
        return encode_data_version(self._version).decode()

    def as_text(self) -> str:
        """Return all settings, a line each, as RocketMQ's tools print them; secrets as stars."""
        shown = as_properties(self.now) | _SHOWN
        return "".join(f"{key}={value}\n" for key, value in shown.items())

    async def change(self, text: str) -> set[str]:
        """Change settings by lines of `key=value`, all of them or none, and return which, by our names.

        Raises ServerFailed for one that is unknown, needs a restart, or does not read, and says which; what
        is changed holds when this returns, and after a restart.
        """
        if len(text) > TEXT_CHARACTERS_MAX:
            raise ServerFailed(
                ResponseCode.SYSTEM_ERROR,
                f"nothing is changed: it has {len(text)} characters; {TEXT_CHARACTERS_MAX} are the limit",
            )
        try:
            updates = {line.key: line.value for line in read_properties(text)}
            change_in_place(self.now, updates)
        except (ConfigError, ValueError) as error:
            raise ServerFailed(ResponseCode.SYSTEM_ERROR, f"nothing is changed: {error}") from error
        for idle in idle_updates(updates):
            log.warning("%s", idle)
        self.revision += 1
        known = settings_by_name(BrokerProcess)
        self._kept |= {
            known[our_name(key)].key: value for key, value in updates.items() if our_name(key) in known
        }
        self._version = self._version.bumped(self._clock.now_ms())
        self._file.changed()
        await self._file.save()
        return {our_name(key) for key in updates}
