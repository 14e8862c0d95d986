import pytest

from pipeline.report.formatting import duration, fixed, percent, plural, signed, thousands


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (fixed(12.345), "12.3"),
        (fixed(-0.25, 2), "\u22120.25"),
        (fixed(-0.01), "0.0"),
        (fixed(3.0, 0), "3"),
        (fixed(None), "–"),
        (signed(1.25), "+1.2"),
        (signed(-1.0), "\u22121.0"),
        (signed(-0.01), "±0.0"),
        (thousands(25000), "25,000"),
        (plural(1, "query", "queries"), "1 query"),
        (plural(25010, "query", "queries"), "25,010 queries"),
        (plural(0, "item"), "0 items"),
        (percent(0.0049, 1), "0.5%"),
        (duration(0.44), "0.4 s"),
        (duration(9.96), "10.0 s"),
        (duration(59.4), "59 s"),
        (duration(59.6), "1 min 00 s"),
        (duration(3599.7), "1 h 00 min"),
        (duration(7505), "2 h 05 min"),
    ],
)
def test_written(got, expected):
    assert got == expected
