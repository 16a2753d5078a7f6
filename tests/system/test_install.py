"""`pip install`, with a C compiler and without, and of wheels: PyroMQ runs, and says at which speed."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
#: Optimising takes the longest, and no part in what is asked here.
QUICK = {"PYROMQ_KERNEL_FLAGS": "-O0 -g0"}

pytestmark = [
    pytest.mark.install,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine, so none can be hidden"),
]
Build = Callable[..., str]
#: A module of the kernel is there, and a compiled one.
USE_TAILS = (
    "from pyromq._kernel.storage import tails; print('compiled' if tails.__file__.endswith('.so') else 'no')"
)


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wheel_tool", ROOT / "tools" / "wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


wheels = load_tool()


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def new_environment(folder: Path) -> Path:
    """Make a virtual environment that sees what this one has installed, below its own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = folder / "lib" / version / "site-packages"
    # As a line of a .pth file, whose own .pth files are not read: the package under test stays hidden.
    (own / "shared.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    return folder


def run(python: Path, *arguments: str, cwd: Path, environment: Mapping[str, str]) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYROMQ_", "PYTHON"))}
    ended = subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env=kept | dict(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's sources, and in `dist` a source distribution of them; Cython has been over them once."""
    copy: Path = wheels.copy_sources(tmp_path_factory.mktemp("packed") / "source")
    run(Path(sys.executable), "setup.py", "-q", "sdist", cwd=copy, environment=QUICK)
    return copy


@pytest.fixture
def source(packed: Path, tmp_path: Path) -> Path:
    """The package's sources with nothing compiled in them; what Cython made of them is new enough."""
    return shutil.copytree(packed, tmp_path / "source", ignore=shutil.ignore_patterns("dist", "*.egg-info"))


@pytest.fixture
def installed(tmp_path: Path) -> Build:
    """Install what is in a folder or file, and return what the installed program says of itself."""

    def install(what: Path, **environment: str) -> str:
        python = python_of(new_environment(tmp_path / "environment"))
        pip = ("-m", "pip", "--disable-pip-version-check", "install", "-q")
        alone = ("--no-deps", "--no-build-isolation", "--ignore-installed")
        run(python, *pip, *alone, str(what), cwd=tmp_path, environment=QUICK | environment)
        return run(python, "-m", "pyromq", "version", cwd=tmp_path, environment={})

    return install


@pytest.fixture
def path_without_compiler() -> Iterator[str]:
    """A PATH on which only what every machine has is found."""
    with wheels.without_compiler() as path:
        yield path


@pytest.mark.long
def test_with_a_compiler_the_kernel_is_compiled(source: Path, installed: Build) -> None:
    assert "compiled kernel" in installed(source)


def test_with_a_compiler_that_fails_it_installs_and_runs_pure(source: Path, installed: Build) -> None:
    assert "pure Python" in installed(source, CC="/bin/false")


def test_without_a_compiler_it_installs_and_runs_pure(
    source: Path, installed: Build, path_without_compiler: str
) -> None:
    assert "pure Python" in installed(source, PATH=path_without_compiler)


def test_a_source_distribution_is_compiled_without_cython(
    packed: Path, installed: Build, tmp_path: Path
) -> None:
    no_cython = tmp_path / "no_cython" / "Cython"
    no_cython.mkdir(parents=True)
    (no_cython / "__init__.py").write_text("raise ImportError('hidden')\n")
    [distribution] = (packed / "dist").glob("*.tar.gz")
    with tarfile.open(distribution) as archive:
        names = archive.getnames()
    kernel = {Path(name).stem for name in names if name.endswith(".pyx")}
    assert "tails" in kernel
    assert {Path(name).stem for name in names if "/_kernel/" in name and name.endswith(".c")} == kernel

    # One of them stands for all: compiling takes long.
    environment = {"PYTHONPATH": str(no_cython.parent), "PYROMQ_KERNEL_ONLY": "tails"}
    assert "pure Python" in installed(distribution, **environment)
    python = python_of(tmp_path / "environment")
    assert run(python, "-c", USE_TAILS, cwd=tmp_path, environment={}).strip() == "compiled"


@pytest.mark.long
def test_a_wheel_is_compiled_and_works_on_a_machine_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYROMQ_KERNEL_FLAGS", QUICK["PYROMQ_KERNEL_FLAGS"])
    source = wheels.copy_sources(tmp_path / "source")
    wheels.add_library(source)

    wheel = wheels.build_wheel(Path(sys.executable), source, tmp_path / "dist")

    assert "manylinux" in wheel.name
    wheels.check_content(wheel)
    said = json.loads(wheels.try_out(Path(sys.executable), wheel))
    assert said["kernel"] == {"compiled": True, "why_not": None}


def test_a_wheel_without_the_library_or_a_module_is_not_released(tmp_path: Path) -> None:
    kernel = sorted((ROOT / "src/pyromq/_kernel").rglob("*.pyx"))
    names = [f"pyromq/_kernel/{path.stem}.cpython.so" for path in kernel]
    names += [f"pyromq/_kernel/http2/{wheels.LIBRARY}", f"pyromq/_kernel/http2/{wheels.LIBRARY}.LICENSE"]
    wheel = tmp_path / "pyromq.whl"

    def pack(*lacking: str) -> None:
        with zipfile.ZipFile(wheel, "w") as archive:
            for name in names:
                if not any(one in name for one in lacking):
                    archive.writestr(name, "")

    pack()
    wheels.check_content(wheel)
    for lacking in ("tails", ".LICENSE"):
        pack(lacking)
        with pytest.raises(SystemExit, match=f"lacks .*{lacking}"):
            wheels.check_content(wheel)
