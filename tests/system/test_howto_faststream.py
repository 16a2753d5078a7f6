"""docs/howto/faststream.md: its application and its test, as they stand there."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from page_blocks import page_blocks

from pyromq import Admin, ConsumeFrom, Message, Producer, PullConsumer
from pyromq.testing.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs/howto/faststream.md"


def test_the_application_of_the_page_runs_and_its_test_passes(shared_address: str, tmp_path: Path) -> None:
    shown = {block.when: block.text for block in page_blocks(PAGE) if block.when}
    (tmp_path / "shop_stream.py").write_text(shown["shop"])
    (tmp_path / "test_shop_stream.py").write_text(shown["tested"])
    environment = os.environ | {"NAMESRV_ADDR": shared_address, "PYTHONPATH": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop_stream.py"],
        cwd=tmp_path,
        env=environment,
        check=True,
        timeout=120,
    )

    with Admin(shared_address) as admin:
        for topic in ("orders", "invoices"):
            admin.create_topic(topic, 1)
    words = shlex.split(shown["serve"])
    service = subprocess.Popen([sys.executable, "-m", *words], cwd=tmp_path, env=environment)
    try:
        begin = ConsumeFrom.FIRST_OFFSET
        with (
            Producer("shop", shared_address) as producer,
            PullConsumer("reader", shared_address, start_from=begin) as reader,
        ):
            reader.subscribe("invoices")

            def is_billed() -> bool:
                # Its group is new: it begins with what is sent from now on.
                producer.send(Message("orders", b'{"id": 7, "amount": 100}', tags="paid"))
                return any(one.body == b'{"order":7,"total":125.0}' for one in reader.poll(1_000))

            eventually(is_billed, 60, what="the invoice")
    finally:
        service.terminate()
        service.wait(60)
    assert service.returncode == 0
