"""The compiled kernel; everything else about the package is in pyproject.toml.

Each module is optional: where there is no C compiler, or no Python.h, the package installs without it and the
pure Python version runs. `pyromq version` says which one it is.

A source distribution holds the C that Cython made, beside each `.pyx`, and is built from it without Cython.
"""

import os
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

FOLDER = Path("src/pyromq/_kernel")
MADE = Path("build/cython")
#: Read by tools/fuzz_kernel.py: the same modules, watched by the compiler's sanitizers.
FLAGS = os.environ.get("PYROMQ_KERNEL_FLAGS", "-O3 -g0 -fno-strict-aliasing -Wno-unused-function").split()
#: For whoever works on one module: the names of those to build (`sends`), all when it is empty. `none` is no
#: module's name and builds none: the Makefile has pip install the package while the kernel is compiled.
ONLY = set(filter(None, os.environ.get("PYROMQ_KERNEL_ONLY", "").split(",")))
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    # Methods are the interpreter's own kind, which take less memory and less of each call.
    "binding": False,
}


def shipped(source: Path) -> Path:
    """Return where a source distribution has the C of a module."""
    return source.with_suffix(".c")


SOURCES = [source for source in sorted(FOLDER.rglob("*.pyx")) if not ONLY or source.stem in ONLY]
#: Cython's C is there already: this is a source distribution.
IS_MADE = bool(SOURCES) and all(shipped(source).exists() for source in SOURCES)


class BuildKernel(build_ext):
    """Builds what it can, and leaves no module of an older build where the new one failed."""

    def finalize_options(self) -> None:
        """Use all cores, unless told otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext: Extension) -> None:
        """Build one module."""
        try:
            super().build_extension(ext)
        except BaseException:
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            raise


class ShipC(sdist):
    """Puts the C that Cython made beside the sources it was made from."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Fill the folder that is packed."""
        super().make_release_tree(base_dir, files)
        for source in SOURCES if not IS_MADE else ():
            shutil.copy(MADE / shipped(source), Path(base_dir) / shipped(source))


def extensions() -> list[Extension]:
    """Return the kernel's modules, as C."""
    made = [
        Extension(
            ".".join(source.relative_to("src").with_suffix("").parts),
            [str(shipped(source) if IS_MADE else source)],
            include_dirs=[str(FOLDER / "codec")],
            depends=[str(header) for header in sorted(FOLDER.rglob("*.h")) + sorted(FOLDER.rglob("*.pxd"))],
            extra_compile_args=FLAGS,
            extra_link_args=[flag for flag in FLAGS if flag.startswith("-fsanitize")],
        )
        for source in SOURCES
    ]
    if not IS_MADE:
        from Cython.Build import cythonize
        from Cython.Compiler import Options

        # The .pyi files have them.
        Options.docstrings = False
        made = cythonize(made, compiler_directives=DIRECTIVES, build_dir=str(MADE))
    for extension in made:
        # Said last, because cythonize() makes new extensions and forgets it.
        extension.optional = True
    return made


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernel, "sdist": ShipC})
