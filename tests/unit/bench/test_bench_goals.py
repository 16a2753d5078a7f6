"""How `make bench` judges what it measured: goals, medians, the table. Nothing is measured here."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[3] / "bench"))

from beside.cases import BESIDE, CASES, COSTS, KEYS
from beside.figures import (
    APACHE_4,
    ECHO,
    IDLE_KIB,
    PYROMQ,
    SYNC_COST,
    Bound,
    Figure,
    Row,
    aligned,
    latency,
    per_cpu,
    rate,
    table_of,
    verdict_of,
)
from beside.measuring import FULL, QUICK, Found, Run, reckoned_s
from beside.results import rows_of
from beside.setups import SETUPS

CASE = CASES[0]


def run(value: float, *, others: float = 0.0, refused: int = 0, **more: Any) -> Run:
    figures = {"messages_per_server_cpu_s": value, "rate": value, "p99": 1e6 / value}
    return {
        **figures,
        "others_cores": others,
        "refused": {"2": refused} if refused else {},
        "messages_in_all": 1_000,
        "batch": 1,
        **more,
    }


def rows_for(theirs: list[Run], ours: list[Run], echo: list[Run] | None = None) -> dict[str, Row]:
    runs = {APACHE_4: theirs, PYROMQ: ours} | ({ECHO: echo} if echo else {})
    return {row.figure.name: row for row in rows_of(Found(runs={CASE.key: runs}))}


@pytest.mark.parametrize(
    ("figure", "theirs", "ours", "is_met"),
    [
        (rate(2), 100.0, 200.0, True),
        (rate(2), 100.0, 199.0, False),
        (latency("p99", 2), 200.0, 100.0, True),
        (latency("p99", 2), 200.0, 101.0, False),
        (per_cpu(60_000, Bound.LEAST), None, 60_000.0, True),
        (per_cpu(60_000, Bound.LEAST), 1.0, 59_999.0, False),
        (IDLE_KIB, 1.0, 10.0, True),
        (IDLE_KIB, 1.0, 10.1, False),
        (SYNC_COST, 0.5, -0.02, True),
        (rate(), 100.0, 1.0, None),
        (rate(2), None, 200.0, None),
        (rate(2), 100.0, None, None),
    ],
)
def test_a_goal_is_met_by_the_way_it_is_meant(
    figure: Figure, theirs: float | None, ours: float | None, *, is_met: bool | None
) -> None:
    assert Row("a case", figure, {APACHE_4: theirs, PYROMQ: ours}).is_met is is_met


def test_a_figure_is_the_middle_of_the_rounds() -> None:
    rows = rows_for([run(10), run(30), run(20)], [run(100), run(500), run(400)])

    assert rows["rate"].values == {APACHE_4: 20.0, PYROMQ: 400.0}
    assert rows["rate"].reached == 20.0


def test_rounds_with_other_work_are_left_out_when_two_others_remain() -> None:
    rows = rows_for([run(10), run(20), run(900, others=1.0)], [run(40), run(50), run(60)])

    assert rows["rate"].values[APACHE_4] == 15.0
    assert rows["rate"].is_quiet


def test_a_line_says_that_its_rounds_were_disturbed() -> None:
    rows = rows_for([run(10)], [run(100, others=0.9)])

    assert not rows["messages_per_server_cpu_s"].is_quiet
    assert "met †" in aligned([*rows.values()])


def test_what_was_refused_is_told_with_the_figure() -> None:
    rows = rows_for([run(10)], [run(100, refused=500)])

    assert rows["rate"].refused == {PYROMQ: 0.3333}
    assert "100 ‡" in aligned([*rows.values()])


def test_the_distance_from_the_echo_server_is_told_for_processor_time_only() -> None:
    rows = rows_for([run(10)], [run(100)], [run(250)])

    assert rows["messages_per_server_cpu_s"].above_floor == 2.5
    assert rows["rate"].above_floor is None
    assert "2.50 ×" in table_of([*rows.values()])


def test_the_cost_of_a_setup_is_the_middle_of_the_rounds_ratios() -> None:
    name, base, other, _ = COSTS[0]
    runs = {
        base: {PYROMQ: [run(100), run(200), run(400)]},
        other: {PYROMQ: [run(90), run(100), run(380)]},
    }

    [row] = [row for row in rows_of(Found(runs=runs)) if row.case == name]

    assert row.values[PYROMQ] == pytest.approx(0.10)
    assert row.is_met


def test_a_run_that_failed_leaves_a_line_that_nobody_judges() -> None:
    rows = rows_for([run(10)], [])

    assert rows["rate"].is_met is None
    assert verdict_of([*rows.values()]) == "0 of 0 goals met"


def test_the_verdict_names_what_is_missed_and_by_how_much() -> None:
    said = verdict_of([*rows_for([run(100)], [run(300)]).values()])

    assert said.startswith("1 of 2 goals met; missed: ")
    assert "(3.00 ×, goal ≥ 5 ×)" in said


def test_a_table_has_a_line_for_each_figure_and_as_many_cells_in_each() -> None:
    lines = table_of([*rows_for([run(10)], [run(100)]).values()]).splitlines()

    assert len(lines) == 2 + len(CASE.figures)
    assert len({line.count("|") for line in lines}) == 1
    assert "Apache 5.5" not in lines[0]


def test_every_case_contradicts_nothing_and_has_a_name_of_its_own() -> None:
    for case in CASES:
        case.workload.check()
        assert case.setup in SETUPS
    assert len(set(KEYS)) == len(KEYS)
    assert len({case.name for case in CASES}) == len(CASES)


def test_cases_whose_messages_are_counted_in_their_topic_have_it_for_themselves() -> None:
    counted = [case for case in CASES if case.measure.__name__ in ("each_makes_one", "until_delivered")]

    assert counted
    for case in counted:
        if case.workload.kind != "send-back":
            same = [other.key for other in CASES if other.workload.topic == case.workload.topic]
            assert same == [case.key]


def test_everything_takes_no_longer_than_it_may() -> None:
    assert reckoned_s(FULL, CASES, BESIDE) < 19 * 60
    assert reckoned_s(QUICK, CASES, BESIDE) < 4 * 60


def test_the_verdict_counts_what_is_missed_though_little_more_than_the_system_is_left() -> None:
    near = verdict_of([*rows_for([run(100)], [run(300)], [run(450)]).values()])
    far = verdict_of([*rows_for([run(100)], [run(300)], [run(451)]).values()])

    assert near.startswith("1 of 2 goals met (1 of the others within 1.5 × of the echo server); missed: ")
    assert far.startswith("1 of 2 goals met; missed: ")
