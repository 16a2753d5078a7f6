"""The configuration tables: do they read, and do their twins?"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyromq.errors import ProtocolError
from pyromq.store.inspect.findings import StoreFinding
from pyromq.store.inspect.read_only_files import names_in, read_whole
from pyromq.wire.bodies.group_bodies import decode_group_table
from pyromq.wire.bodies.offset_bodies import decode_delay_offsets, decode_group_offsets
from pyromq.wire.bodies.topic_bodies import decode_topic_table
from pyromq.wire.java_json import loads

_TOPICS: Final = "topics.json"
_DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    _TOPICS: decode_topic_table,
    "subscriptionGroup.json": decode_group_table,
    "consumerOffset.json": decode_group_offsets,
    "delayOffset.json": decode_delay_offsets,
}
_BACKUP: Final = ".bak"


@dataclass(slots=True)
class TablesChecked:
    """The tables that were read, what is wrong with them, and the topics that the broker knows."""

    count: int = 0
    findings: list[StoreFinding] = field(default_factory=list)
    #: None when there is no table of topics that reads.
    topics: frozenset[str] | None = None


def check_tables(folder: Path) -> TablesChecked:
    """Read every table and its twin."""
    checked = TablesChecked()
    names = names_in(folder)
    for name in names:
        path = folder / name
        if name.endswith((".json", ".json" + _BACKUP)):
            _check_table(path, checked, has_twin=_twin(name) in names)
        elif name.endswith(".damaged"):
            what = "a table that did not read was set aside here"
            remedy = "look at what it held that its successor lacks, then remove it"
            checked.findings.append(StoreFinding(str(path), 0, what, remedy, is_fault=False))
    return checked


def _check_table(path: Path, checked: TablesChecked, *, has_twin: bool) -> None:
    data = read_whole(path)
    if data is None:
        # It was replaced, and its name is back in a moment.
        return
    checked.count += 1
    table = path.name.removesuffix(_BACKUP)
    try:
        value = _DECODERS.get(table, loads)(data)
    except (ValueError, ProtocolError) as error:
        checked.findings.append(
            StoreFinding(
                str(path), _end_of_sense(data), f"it does not read: {error}", _remedy(path, has_twin=has_twin)
            )
        )
        return
    if table == _TOPICS and (path.name == table or checked.topics is None):
        checked.topics = frozenset(value.topic_config_table)


def _end_of_sense(data: bytes) -> int:
    """Return where a torn table most likely ends: a file that was cut, or whose rest was never written."""
    return len(data.rstrip(b"\0"))


def _remedy(path: Path, *, has_twin: bool) -> str:
    if path.name.endswith(_BACKUP):
        return "nothing: the next change of the table replaces it" if has_twin else "mend it by hand"
    if has_twin:
        return f"nothing: the next start sets it aside and takes {path.name}{_BACKUP}"
    return "mend it by hand, or remove it to start with an empty table"


def _twin(name: str) -> str:
    return name.removesuffix(_BACKUP) if name.endswith(_BACKUP) else name + _BACKUP
