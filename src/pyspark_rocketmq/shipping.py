"""The source for a cluster that does not have this package: its code travels with it.

Spark sends a registered source by pickling its class. This module is pickled by value, and with it a
`Parcel`, the text of our packages. Where a parcel is unpickled, it makes them importable; so in everything
that is sent the parcel comes first, and what follows is pickled by reference as always.

The compiled kernel does not travel: there the pure version runs, several times slower. Packages of others
(msgspec, pyarrow) must be installed where the code arrives.
"""

import importlib.util
import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource

from pyromq.errors import ConfigError

PACKAGES: Final = ("pyromq", "pyspark_rocketmq")
#: Packages of others that the code needs where it arrives.
NEEDED: Final = ("pyarrow", "msgspec")
#: Servers and tools stay at home.
_LEFT_OUT: Final = ("bench", "broker", "cli", "namesrv", "once", "outbox", "pipeline", "store", "testing")


class Shelf(MetaPathFinder, InspectLoader):
    """Modules that are in memory, by name; a package's name ends with a dot."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module that is here."""
        is_package = f"{fullname}." in self._sources
        if not is_package and fullname not in self._sources:
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=is_package)

    def is_package(self, fullname: str) -> bool:
        """Return whether a module is one."""
        return f"{fullname}." in self._sources

    def get_source(self, fullname: str) -> str:
        """Return the text of a module."""
        return self._sources[f"{fullname}." if self.is_package(fullname) else fullname]


class Parcel:
    """The text of our packages; unpickled where they are missing, it makes them importable."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def __reduce__(self) -> tuple[Callable[[bytes], "Parcel"], tuple[bytes]]:
        return opened, (self._packed,)

    def open(self) -> None:
        """Make the packages importable, unless they are."""
        if importlib.util.find_spec(PACKAGES[-1]) is None:
            sys.meta_path.append(Shelf(pickle.loads(zlib.decompress(self._packed))))


def opened(packed: bytes) -> Parcel:
    """Return a parcel that was sent, and open it."""
    parcel = Parcel(packed)
    parcel.open()
    return parcel


def check_python(spark: Any) -> None:
    """Raise ConfigError when the Python that plans for this session lacks what the code needs."""
    try:
        executable = spark.sparkContext.pythonExec
    except (AttributeError, PySparkException):
        # Spark Connect: that Python is on the server.
        return
    if executable == sys.executable:
        return
    try:
        tried = subprocess.run(
            [executable, "-c", f"import {', '.join(NEEDED)}"], capture_output=True, text=True, check=False
        )
        complaint = tried.stderr.strip().rpartition("\n")[2] if tried.returncode else ""
    except OSError as error:
        complaint = str(error)
    if complaint:
        raise ConfigError(
            f"Spark's Python is {executable}, and it lacks what format('rocketmq') needs: {complaint}. Set "
            "PYSPARK_PYTHON before the session is made, os.environ['PYSPARK_PYTHON'] = sys.executable, or "
            f"run {executable} -m pip install {' '.join(NEEDED)}"
        )


def packed_packages() -> Parcel:
    """Return the packages as they are installed here."""
    sources: dict[str, str] = {}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None, "this very package is installed"
        for folder in spec.submodule_search_locations or ():
            sources |= _sources(package, Path(folder))
    return Parcel(zlib.compress(pickle.dumps(sources)))


def _sources(package: str, folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if parts[0] in _LEFT_OUT and package == PACKAGES[0]:
            continue
        name = ".".join((package, *parts))
        found[name.removesuffix("__init__") if name.endswith(".__init__") else name] = path.read_text()
    return found


def shipped(parcel: Parcel, thing: Any) -> Any:
    """Return a reader or a writer that is sent together with the parcel."""
    kind = type(thing)

    def reduce(self: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return restored, (parcel, kind, self.__dict__)

    thing.__class__ = type(kind.__name__, (kind,), {"__reduce__": reduce})
    return thing


def restored(parcel: Parcel, kind: type[Any], state: Mapping[str, Any]) -> Any:
    """Return a reader or a writer that was sent; the parcel is open by now, because it came first."""
    thing = object.__new__(kind)
    vars(thing).update(state)
    return thing


def shipped_source(parcel: Parcel) -> type[DataSource]:
    """Return a source that brings its code along."""

    class ShippedSource(DataSource):
        """`format("rocketmq")`, where the package is not installed."""

        @classmethod
        def name(cls) -> str:
            """Return the name that `format` takes."""
            return "rocketmq"

        def _here(self) -> Any:
            parcel.open()
            from pyspark_rocketmq.data_source import RocketMQSource

            return RocketMQSource(self.options)

        def schema(self) -> Any:
            """Return all columns."""
            return self._here().schema()

        def reader(self, schema: Any) -> Any:
            """Return the batch reader."""
            return shipped(parcel, self._here().reader(schema))

        def streamReader(self, schema: Any) -> Any:  # noqa: N802  Spark's name
            """Return the stream reader."""
            return shipped(parcel, self._here().streamReader(schema))

        def writer(self, schema: Any, overwrite: bool) -> Any:  # noqa: FBT001  Spark's signature
            """Return the batch writer."""
            return shipped(parcel, self._here().writer(schema, overwrite))

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: FBT001, N802  Spark's signature
            """Return the stream writer."""
            return shipped(parcel, self._here().streamWriter(schema, overwrite))

    return ShippedSource
