"""`pip install`, with a C compiler and without: both give a PyroMQ that runs, and it says at which speed."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What the package is built from; the rest of the repository has no part in it.
PARTS = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src")
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
    copy = tmp_path_factory.mktemp("packed") / "source"
    copy.mkdir()
    unbuilt = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    for part in PARTS:
        path = ROOT / part
        if path.is_dir():
            shutil.copytree(path, copy / part, ignore=unbuilt)
        else:
            shutil.copy(path, copy)
    # What `make setup` had Cython make is newer than its sources, unless somebody works on them.
    if (ROOT / "build" / "cython").exists():
        shutil.copytree(ROOT / "build" / "cython", copy / "build" / "cython")
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
def path_without_compiler(tmp_path: Path) -> str:
    """A PATH on which only what every machine has is found."""
    folder = tmp_path / "no-compiler"
    folder.mkdir()
    for name in ("sh", "uname", "env"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return str(folder)


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
