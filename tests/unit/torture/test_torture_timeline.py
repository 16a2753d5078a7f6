"""The picture of a run, from a history that was made up."""

from pathlib import Path

from PIL import Image

from pyromq.torture.history import History
from pyromq.torture.nemesis import BEGIN, END
from pyromq.torture.run_outcome import RunOutcome
from pyromq.torture.timeline import WIDTH, Bar, draw_timeline, timeline_of


def _history() -> History:
    now = [0.0]
    history = History(lambda: now[0])
    history.note("master", "broker-a", group="broker-a", epoch=1)
    for second in range(60):
        now[0] = float(second)
        history.note("ack", "sender", number=second, status="SEND_OK")
        history.note("deliver", "reader", number=second, group="g")
        if second == 10:
            history.note(BEGIN, "broker-a", fault="kill", lasts_s=5, number=77)
        if second == 15:
            history.note(END, "broker-a", fault="kill", number=77)
            history.note("master", "broker-a-1", group="broker-a", epoch=2)
        if second == 50:
            history.note(BEGIN, "etcd", fault="kill-etcd", lasts_s=50, number=78)
    return history


def test_a_timeline_has_faults_from_their_begin_to_their_end_or_the_run_s() -> None:
    line = timeline_of(_history())

    assert line.bars == [Bar("broker-a", "kill", 10, 15), Bar("etcd", "kill-etcd", 50, 59)]
    assert line.reigns == [Bar("broker-a", "master", 0, 15), Bar("broker-a-1", "master", 15, 59)]
    assert line.rows == ["broker-a", "broker-a-1", "etcd"]
    assert sum(line.acks.values()) == sum(line.deliveries.values()) == 60


def test_a_picture_is_drawn_of_any_history(tmp_path: Path) -> None:
    for name, history in (("run", _history()), ("nothing", History(lambda: 0.0))):
        outcome = RunOutcome(7, "1 broker")
        outcome.count(history)
        draw_timeline(history, outcome, tmp_path / f"{name}.png")
        with Image.open(tmp_path / f"{name}.png") as picture:
            assert picture.format == "PNG"
            assert picture.width == WIDTH
