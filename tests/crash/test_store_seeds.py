"""The store through crashes, damage and full disks that nobody thought of, seed after seed.

A store lives on a simulated disk. `make torture-store` goes on with new seeds; a failure tells its seed, and

    PYROMQ_SEED=7 python -m pytest -m long tests/crash/test_store_seeds.py -k cuts

is that one again.
"""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom

import pytest
import store_damage
import store_full
import store_story
from effort import times
from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis.stateful import run_state_machine_as_test
from store_machine import StoreMachine

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]
#: So much of hypothesis that a seed takes some seconds, like one of the others.
MODEL = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
#: Of each kind of damage, in one store.
PLACES = 8


def _each_seed(try_one: Callable[[int], object]) -> None:
    """Try one seed that was asked for, or as many new ones as the effort says."""
    asked = os.environ.get("PYROMQ_SEED")
    first = SystemRandom().randrange(1 << 32) if asked is None else int(asked)
    for seed in range(first, first + (times(4) if asked is None else 1)):
        print(f"PYROMQ_SEED={seed}", flush=True)
        try_one(seed)


def test_cuts_of_the_power_at_each_moment_of_a_life() -> None:
    def cut(seed: int) -> None:
        steps = Random(seed).choice((20, 45, 90))
        store_story.try_all_cuts(seed, steps=steps, each_max=2, random_cuts=1)
        store_story.live_through_cuts(seed, lives=10, steps=25)

    _each_seed(cut)


def test_damage_in_each_kind_of_file(tmp_path: Path) -> None:
    def damage(seed: int) -> None:
        for was_clean in (True, False):
            for kind in store_damage.KINDS:
                for how in ("flip", "cut"):
                    for place in range(seed, seed + PLACES):
                        one = store_damage.Damage(place, kind, how, was_clean=was_clean, story=seed)
                        store_damage.examine(one, tmp_path / "damaged")

    _each_seed(damage)


def test_a_full_disk_and_cuts_of_the_power() -> None:
    _each_seed(lambda seed: store_full.try_all_cuts(seed, steps=200, each_max=1, random_cuts=1))


def test_the_store_against_a_dictionary() -> None:
    _each_seed(lambda seed: run_state_machine_as_test(seeded(seed)(StoreMachine), settings=MODEL))
