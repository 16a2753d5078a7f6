"""Names serve one thing each, and folders and files stay small enough to read."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

FILES_MAX = 25
LINES_MAX = 600

#: Folders with the two faces of the same clients: `pyromq.Producer` and `pyromq.aio.Producer`.
FACES = ("pyromq/client/aio", "pyromq/client/sync")
#: The two faces of the relay: `pyromq.outbox.Relay` and `pyromq.outbox.aio.Relay`.
RELAYS = {"pyromq/outbox/aio.py", "pyromq/outbox/relay.py"}
#: Names of the public interface that existed twice, each in a module of its own that users import it from.
PUBLIC_TWICE = {"WaitingMessage": {"pyromq/model.py", "pyromq/outbox/outbox_table.py"}}
#: The awaitable halves of two packages, which users import by these names.
PUBLIC_FILES = {"aio.py": {"pyromq/aio.py", "pyromq/outbox/aio.py"}}


def modules() -> list[Path]:
    """Return the modules of the packages; templates are files for users."""
    found = [path for path in SOURCE.rglob("*.py") if "templates" not in path.parts]
    assert len(found) > 500
    return sorted(found)


def below_source(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def are_faces(places: list[str]) -> bool:
    """Whether each of some files is in another one of the folders with the faces of clients."""
    return sorted(place.rpartition("/")[0] for place in places) == sorted(FACES)


def test_a_public_class_name_serves_one_class() -> None:
    places = defaultdict(list)
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(below_source(path))
    shared = {
        name: found
        for name, found in places.items()
        if len(found) > 1
        and not are_faces(found)
        and set(found) != RELAYS
        and set(found) != PUBLIC_TWICE.get(name)
    }
    assert shared == {}


def test_a_file_name_serves_one_file() -> None:
    places = defaultdict(list)
    for path in modules():
        if path.name not in ("__init__.py", "__main__.py"):
            places[path.name].append(below_source(path))
    shared = {
        name: found
        for name, found in places.items()
        if len(found) > 1 and not are_faces(found) and set(found) != PUBLIC_FILES.get(name)
    }
    assert shared == {}


def test_no_folder_has_more_files_than_a_person_can_look_over() -> None:
    counts: dict[str, int] = defaultdict(int)
    for path in SOURCE.rglob("*"):
        if path.suffix in {".py", ".pyx", ".js"}:
            counts[below_source(path.parent)] += 1
    assert {folder: count for folder, count in counts.items() if count > FILES_MAX} == {}


def test_no_module_is_longer_than_a_person_can_read() -> None:
    lengths = {below_source(path): len(path.read_text().splitlines()) for path in modules()}
    assert {place: length for place, length in lengths.items() if length > LINES_MAX} == {}
