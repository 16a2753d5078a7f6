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
QUICK = {"PYROMQ_KERNEL_FLAGS": "-O0"}

pytestmark = [
    pytest.mark.install,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine, so none can be hidden"),
]
Build = Callable[..., str]


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
        timeout=240,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The package's sources with nothing built in them."""
    copy = tmp_path / "source"
    copy.mkdir()
    unbuilt = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    for part in PARTS:
        path = ROOT / part
        if path.is_dir():
            shutil.copytree(path, copy / part, ignore=unbuilt)
        else:
            shutil.copy(path, copy)
    return copy


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


def test_with_a_compiler_the_kernel_is_compiled(source: Path, installed: Build) -> None:
    assert "compiled kernel" in installed(source)


def test_with_a_compiler_that_fails_it_installs_and_runs_pure(source: Path, installed: Build) -> None:
    assert "pure Python" in installed(source, CC="/bin/false")


def test_without_a_compiler_it_installs_and_runs_pure(
    source: Path, installed: Build, path_without_compiler: str
) -> None:
    assert "pure Python" in installed(source, PATH=path_without_compiler)


def test_a_source_distribution_is_compiled_without_cython(
    source: Path, installed: Build, tmp_path: Path
) -> None:
    no_cython = tmp_path / "no_cython" / "Cython"
    no_cython.mkdir(parents=True)
    (no_cython / "__init__.py").write_text("raise ImportError('hidden')\n")
    run(Path(sys.executable), "setup.py", "-q", "sdist", cwd=source, environment=QUICK)
    [packed] = (source / "dist").glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        assert any(name.endswith("_kernel/tails.c") for name in archive.getnames())

    assert "compiled kernel" in installed(packed, PYTHONPATH=str(no_cython.parent))
