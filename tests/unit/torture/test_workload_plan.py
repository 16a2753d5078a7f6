"""Which kinds a workload mixes: decided by a seed, and by nothing else."""

from random import Random

from pyromq.torture.stage import Promises
from pyromq.torture.workload import ACCOUNTS, WorkloadKind, WorkloadPlan, accounts_file
from pyromq.torture.workload.scribe import body_of, number_of
from pyromq.torture.workload.workload_plan import PAUSES_S

SEEDS = range(200)


def test_a_seed_draws_the_same_plan_again() -> None:
    for seed in SEEDS:
        assert WorkloadPlan.draw(Random(seed), Promises()) == WorkloadPlan.draw(Random(seed), Promises())


def test_every_kind_is_drawn_by_some_seed() -> None:
    promises = Promises(has_access_control=True)
    assert {kind for seed in SEEDS for kind in WorkloadPlan.draw(Random(seed), promises).kinds} == set(
        WorkloadKind
    )


def test_there_are_no_strangers_without_access_control() -> None:
    assert not any(WorkloadPlan.draw(Random(seed), Promises()).has(WorkloadKind.STRANGERS) for seed in SEEDS)


def test_every_kind_has_its_pause() -> None:
    assert set(PAUSES_S) == set(WorkloadKind)
    assert WorkloadPlan.everything(pace=2.0).pauses_s == {kind: PAUSES_S[kind] / 2 for kind in WorkloadKind}


def test_a_number_is_read_from_the_body_again() -> None:
    assert number_of(body_of(42, WorkloadKind.LARGE, b"more")) == 42
    assert [number_of(body) for body in (b"", b"000000000042"[:11], b"of a stranger")] == [-1, -1, -1]


def test_the_file_of_accounts_has_them_all() -> None:
    text = accounts_file()

    assert ACCOUNTS
    for account in ACCOUNTS.values():
        assert account.access_key in text
        assert account.secret_key in text
