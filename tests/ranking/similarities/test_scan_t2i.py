from hypothesis import settings

from tests.ranking.similarities.fragments import DRAWN, Scan


class TestScan(Scan):
    name, temperature, lse, words_attend = "scan_t2i", 9.0, 6.0, True


@DRAWN
@settings(max_examples=20, deadline=None)
def test_equals_plain_loops(lengths, shape, norm, aggregate):
    TestScan().check_plain_loops(lengths, shape, norm, aggregate)
