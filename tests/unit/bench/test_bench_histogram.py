import random

import pytest

from pyromq.bench.histogram import BUCKETS, LatencyHistogram, bucket_of, middle_of


def test_each_value_falls_into_a_bucket_whose_middle_is_within_two_percent() -> None:
    chosen = random.Random(1)
    values = [*range(5_000), *(chosen.randrange(2**35) for _ in range(5_000))]

    wrong = [value for value in values if abs(middle_of(bucket_of(value)) - value) > value * 0.02]

    assert not wrong


def test_buckets_grow_with_values_and_none_is_left_out() -> None:
    buckets = [bucket_of(value) for value in range(100_000)]

    assert buckets == sorted(buckets)
    assert set(buckets) == set(range(buckets[-1] + 1))


def test_a_value_beyond_all_measure_is_in_the_last_bucket() -> None:
    assert bucket_of(2**60) == BUCKETS - 1


def test_a_clock_that_went_back_counts_as_no_time() -> None:
    assert bucket_of(-5) == 0


@pytest.mark.parametrize(("percent", "value"), [(50, 500), (90, 900), (99, 990), (99.9, 999), (100, 1_000)])
def test_percentiles_are_those_of_the_sorted_values(percent: float, value: int) -> None:
    histogram = LatencyHistogram()
    for number in range(1, 1_001):
        histogram.record(number)

    assert histogram.percentile(percent) == pytest.approx(value, rel=0.02)


def test_mean_and_highest_are_exact() -> None:
    histogram = LatencyHistogram()
    histogram.record(100_001)
    histogram.record(3, times=3)

    assert histogram.count == 4
    assert histogram.mean_us == (100_001 + 9) / 4
    assert histogram.highest_us == 100_001


def test_two_added_are_as_one_that_saw_all() -> None:
    chosen = random.Random(2)
    values = [chosen.randrange(1_000_000) for _ in range(1_000)]
    first, second, both = LatencyHistogram(), LatencyHistogram(), LatencyHistogram()
    for number, value in enumerate(values):
        (first if number % 2 else second).record(value)
        both.record(value)

    first.add(second)

    assert [first.percentile(percent) for percent in (1, 50, 99)] == [
        both.percentile(percent) for percent in (1, 50, 99)
    ]
    assert (first.count, first.sum_us, first.highest_us) == (both.count, both.sum_us, both.highest_us)


def test_nothing_counted_is_zero() -> None:
    assert LatencyHistogram().percentile(99) == 0
    assert LatencyHistogram().mean_us == 0
