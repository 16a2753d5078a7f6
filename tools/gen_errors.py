"""Write docs/reference/errors.md from the tree of errors.

`python tools/gen_errors.py` writes it; with `--check` it says whether it is stale and ends with status 1. A
test keeps it fresh (tests/unit/test_errors_reference.py).
"""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pyromq
from pyromq.errors import PyroError

ROOT = Path(__file__).parents[1]
PAGE = Path("docs/reference/errors.md")
#: Modules whose errors a program that sends and receives may meet.
PUBLIC = ("pyromq.errors", "pyromq.app.typed_bodies", "pyromq.cloudevents")
HEAD = """\
# Errors

<!-- Written by tools/gen_errors.py from src/pyromq/errors.py; change it there. -->

All errors that PyroMQ raises on purpose are a `pyromq.PyroError`. Its text says what went wrong and what to
do. A client has tried again by itself, where another broker or a later try may help, before it raises one:

```python
from pyromq import Message, NetworkError, Producer, PyroError, Refused

with Producer("shop", "127.0.0.1:9876") as producer:
    try:
        producer.send(Message("orders", b"7"))
    except Refused as error:
        print("the broker said no:", error.code, error.remark)
    except NetworkError as error:
        print("no answer; the message may be stored even so:", error)
    except PyroError as error:
        print("anything else:", error)
```

"Try again" says whether the same call may succeed later, or at another broker, without a change. Names that
`import pyromq` does not have are in the module that stands beside them.

| error | is a | means | try again |
| --- | --- | --- | --- |
"""


def page() -> str:
    """Return the text of the page."""
    return HEAD + "".join(f"{row}\n" for row in _rows(PyroError))


def _rows(kind: type[PyroError]) -> Iterator[str]:
    yield _row(kind)
    for child in sorted(kind.__subclasses__(), key=lambda each: each.__name__):
        if child.__module__ in PUBLIC:
            yield from _rows(child)


def _row(kind: type[PyroError]) -> str:
    name = f"`{kind.__name__}`"
    if not hasattr(pyromq, kind.__name__):
        name += f" ({kind.__module__})"
    about = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    parent = "Exception" if kind is PyroError else f"`{kind.__mro__[1].__name__}`"
    return f"| {name} | {parent} | {about} | {'yes' if kind.retriable else ''} |"


def main() -> int:
    """Write the page, or with `--check` only say whether it is stale."""
    for name in PUBLIC:
        importlib.import_module(name)
    path, text = ROOT / PAGE, page()
    if path.exists() and path.read_text() == text:
        return 0
    if "--check" in sys.argv:
        print(f"{PAGE} is stale; run tools/gen_errors.py")
        return 1
    path.write_text(text)
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
