"""Replaces small files without end, and prints each number once it is safe: run by a test that kills it.

    python table_writer.py FOLDER FIRST

Two files are replaced in turn, as a broker's tables are; what they hold is the number, padded to many pages.
"""

import json
import sys
from itertools import count
from pathlib import Path

from pyromq.store.atomic_file import replace_file

NAMES = ("topics.json", "consumerOffset.json")


def main() -> None:
    """Write until killed."""
    folder, first = Path(sys.argv[1]), int(sys.argv[2])
    for number in count(first):
        data = json.dumps({"number": number, "padding": [number] * (number % 7000)}).encode()
        for name in NAMES:
            replace_file(folder / name, data)
        print(number, flush=True)


if __name__ == "__main__":
    main()
