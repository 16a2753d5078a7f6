"""Write the blocking faces of the client that differ from the awaitable ones by nothing but waiting.

`python tools/gen_blocking.py` writes them; with `--check` it says which is stale and ends with status 1. A
test keeps them fresh (tests/unit/client/test_client_blocking.py). The text is written out, instead of made
at run time, so that editors and mypy see each method with its types, and a reader sees what runs.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLIENT = Path("src/pyromq/client")
#: Producers and consumers are not here: they wait in ways of their own (threads, futures, callbacks).
NAMES = ("admin.py", "dead_letters.py", "operations.py")
#: What is said of the one, and of the other.
WORDS = (
    (r"\ban `async with`", "a `with`"),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bpyromq\.client\.aio\b", "pyromq.client.sync"),
    (r"\bawaitable\b", "blocking"),
)


def blocking(text: str, source: Path) -> str:
    """Return the blocking face of an awaitable one, as ruff writes it."""
    for pattern, word in WORDS:
        text = re.sub(pattern, word, text)
    head, _, rest = text.partition("\n")
    text = f"{head}\n\n# Written by tools/gen_blocking.py from {source}; change it there.\n{rest}"
    for words in (("check", "--select", "I", "--fix", "--quiet"), ("format", "--quiet")):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(ROOT / CLIENT / "x.py"), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> int:
    """Write them, or with `--check` only say whether one is stale."""
    is_check, stale = "--check" in sys.argv, False
    for name in NAMES:
        source, target = CLIENT / "aio" / name, CLIENT / "sync" / name
        text = blocking((ROOT / source).read_text(), source)
        if (ROOT / target).read_text() == text:
            continue
        stale = True
        print(f"{target} is stale; run tools/gen_blocking.py" if is_check else f"wrote {target}")
        if not is_check:
            (ROOT / target).write_text(text)
    return 1 if stale and is_check else 0


if __name__ == "__main__":
    sys.exit(main())
