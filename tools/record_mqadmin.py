"""Record what Apache's mqadmin prints on Apache's own 4.9 servers, for `test_mqadmin_commands.py`."""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

INTEROP = Path(__file__).resolve().parents[1] / "tests" / "interop"


def main() -> None:
    """Run the story on a real cluster, and write the record."""
    sys.path.insert(0, str(INTEROP))
    from harness.mqadmin import Mqadmin
    from harness.mqadmin_story import tell, tell_access, write_accounts, write_record
    from harness.servers import start_apache

    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="mqadmin-")))
        apache = start_apache("apache-4.9", folder, closing, traceTopicEnable="true")
        told = tell(apache, closing.enter_context(Mqadmin(folder)), folder)
    write_record(INTEROP / "recorded" / "mqadmin_4.9.json", told)
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="mqadmin-")))
        write_accounts(folder)
        apache = start_apache("apache-4.9", folder, closing, aclEnable="true")
        told_with_access = tell_access(apache, closing.enter_context(Mqadmin(folder)))
    write_record(INTEROP / "recorded" / "mqadmin_access_4.9.json", told_with_access)
    print(f"{len(told) + len(told_with_access)} outputs recorded")


if __name__ == "__main__":
    main()
