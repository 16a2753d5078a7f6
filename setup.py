"""The compiled kernel; everything else about the package is in pyproject.toml.

Each module is optional: where there is no C compiler, or no Python.h, the package installs without it and the
pure Python version runs. `pyromq --version` says which one it is.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

FOLDER = Path("src/pyromq/_kernel")
#: Read by tools/fuzz_kernel.py: the same modules, watched by the compiler's sanitizers.
FLAGS = os.environ.get("PYROMQ_KERNEL_FLAGS", "-O3 -fno-strict-aliasing -Wno-unused-function").split()
#: For whoever works on one module: the names of those to build, all when it is empty.
ONLY = set(filter(None, os.environ.get("PYROMQ_KERNEL_ONLY", "").split(",")))
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": True,
}

setup(
    ext_modules=cythonize(
        [
            Extension(
                f"pyromq._kernel.{source.stem}",
                [str(source)],
                include_dirs=[str(FOLDER)],
                depends=[str(header) for header in sorted(FOLDER.glob("*.h")) + sorted(FOLDER.glob("*.pxd"))],
                extra_compile_args=FLAGS,
                extra_link_args=[flag for flag in FLAGS if flag.startswith("-fsanitize")],
                optional=True,
            )
            for source in sorted(FOLDER.glob("*.pyx"))
            if not ONLY or source.stem in ONLY
        ],
        compiler_directives=DIRECTIVES,
        build_dir="build/cython",
    )
)
