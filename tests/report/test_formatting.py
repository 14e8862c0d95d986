import pytest

from vse_pipe.report.formatting import fixed, interval, percent, plural, signed, significant, thousands


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
        (significant(2727.732), "2728"),
        (significant(0.40131), "0.4013"),
        (significant(-4.3e-6), "\u22124.3e\u221206"),
        (thousands(25000), "25,000"),
        (plural(1, "query", "queries"), "1 query"),
        (plural(25010, "query", "queries"), "25,010 queries"),
        (plural(0, "item"), "0 items"),
        (interval((300.25, 433.71)), "300.2\u2013433.7"),
        (interval(None), "–"),
        (percent(0.0049, 1), "0.5%"),
    ],
)
def test_written(got, expected):
    assert got == expected
