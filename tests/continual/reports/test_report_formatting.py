"""Numbers as text: units, signs, rounding, and a dash where there is no number."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual.metrics import mean_and_interval
from continual.reports import formatting


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        ("percent", 0.9312, "93.1 %"),
        ("percent", 1.0, "100.0 %"),
        ("points", -0.0231, "−2.3"),
        ("points", 0.4, "+40.0"),
        ("points", -0.0001, "0.0"),
        ("count", 0, "0"),
        ("count", 950, "950"),
        ("count", 0.25, "0.25"),
        ("count", 999_960, "1.00 M"),
        ("count", 126_431.5, "126 k"),
        ("count", 12_345, "12.3 k"),
        ("data_size", 312, "312 B"),
        ("data_size", 1_520_436, "1.45 MiB"),
        ("duration", 0.4219, "0.42 s"),
        ("duration", 41.34, "41.3 s"),
        ("duration", 200, "3 min 20 s"),
        ("duration", 7500, "2 h 05 min"),
        ("energy", 1.2e-6, "1.20 µJ"),
        ("energy", 0.0, "0 J"),
    ],
)
def test_numbers_are_printed_as_people_read_them(function, value, text):
    assert getattr(formatting, function)(value).replace("\u00a0", " ") == text


@pytest.mark.parametrize("function", ["percent", "points", "count", "data_size", "duration", "energy"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_nothing_is_a_dash_and_never_zero(function, value):
    assert getattr(formatting, function)(value) == "–"


@given(st.floats(0.0, 1e17))
def test_a_printed_count_is_within_half_a_percent_of_the_number(value):
    number, _, prefix = formatting.count(value).partition("\u00a0")
    scale = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}[prefix]
    assert float(number) * scale == pytest.approx(value, rel=0.0051, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("acc_final", 0.5, "50.0 %"),
        ("bwt_task_aware", -0.5, "−50.0"),
        ("forgetting", 0.5, "+50.0"),
        ("stored_bytes", 2048, "2.00 KiB"),
        ("seconds_train", 2.0, "2.00 s"),
        ("macs", 2000, "2.00 k"),
        ("robust_acc_final", 0.25, "25.0 %"),
    ],
)
def test_the_name_of_a_metric_decides_its_unit(name, value, text):
    assert formatting.formatter(name)(value).replace("\u00a0", " ") == text


def test_interval_is_in_the_unit_of_its_mean_and_absent_for_one_seed():
    assert formatting.with_interval("acc_final", mean_and_interval([0.5])).replace("\u00a0", " ") == "50.0 %"
    assert formatting.with_interval("bwt", mean_and_interval([-0.1, -0.1])) == "−10.0 ± 0.0"
    assert formatting.with_interval("macs", mean_and_interval([10, 10])) == "10"
    assert "±" in formatting.with_interval("seconds", mean_and_interval([10.0, 11.0]))
