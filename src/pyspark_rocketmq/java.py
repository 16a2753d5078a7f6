"""The check for a Java that Spark runs on, made before anything else starts.

Spark finds out by itself, but only after a minute of waiting, and says neither which version it wants nor how
to get it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from pyromq.errors import PyroError

#: The oldest Java that Spark 4 runs on.
JAVA_MIN: Final = 17
#: Package tools that a machine may have, each with the command that installs such a Java.
_INSTALLERS: Final = {
    "apt-get": "sudo apt-get install -y openjdk-17-jre-headless",
    "dnf": "sudo dnf install -y java-17-openjdk-headless",
    "yum": "sudo yum install -y java-17-openjdk-headless",
    "apk": "sudo apk add openjdk17-jre-headless",
    "pacman": "sudo pacman -S --noconfirm jre17-openjdk-headless",
    "zypper": "sudo zypper install -y java-17-openjdk-headless",
    "brew": "brew install openjdk@17",
}
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


class JavaMissing(PyroError):
    """There is no Java here that Spark runs on; the text has the command that installs one."""


def check_java() -> int:
    """Return the version of the Java that Spark will start; raise JavaMissing when there is none so new."""
    java = _java()
    if java is None:
        raise JavaMissing(
            f"Spark needs Java {JAVA_MIN} or newer, and there is none on this machine; install it with\n"
            f"{install_command()}\nEverything but Spark works without it"
        )
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise JavaMissing(
            f"{java} does not start: {error.strerror}; install Java {JAVA_MIN} or newer with\n"
            f"{install_command()}"
        ) from error
    found = _VERSION.search(said.stderr + said.stdout)
    version = int(found[1]) if found else 0
    if version < JAVA_MIN:
        raise JavaMissing(
            f"Spark needs Java {JAVA_MIN} or newer, and {java} is "
            f"{version or 'of a version that it does not tell'}; install a newer one with\n"
            f"{install_command()}\nor set JAVA_HOME to one that is there"
        )
    return version


def install_command() -> str:
    """Return the command that installs a fitting Java on this machine."""
    for tool, command in _INSTALLERS.items():
        if shutil.which(tool):
            # Who is root needs no sudo, and a container has none.
            return command.removeprefix("sudo ") if os.geteuid() == 0 else command
    return f"see https://adoptium.net/temurin/releases/?version={JAVA_MIN}"


def _java() -> str | None:
    """Return the program that Spark's own start script takes."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")
