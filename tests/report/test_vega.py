import pytest
import vl_convert

from vse_pipe.report import charts


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The bundles made from here on, kept in a folder of the test."""
    calls = []

    def bundle(vl_version: str) -> str:
        calls.append(vl_version)
        return f"script of {vl_version}, für"

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    monkeypatch.setattr(charts, "cache_from_source", lambda source: str(tmp_path / "kept" / "vega.pyc"))
    return calls


def test_a_bundle_is_made_once_a_version(made):
    assert [charts.bundle(one) for one in ("6.1", "6.1", "6.4", "6.1")] == [
        f"script of {one}, für" for one in ("6.1", "6.1", "6.4", "6.1")
    ]
    assert made == ["6.1", "6.4"]


def test_another_vl_convert_bundles_anew(made, monkeypatch):
    charts.bundle("6.1")
    monkeypatch.setattr(charts, "version", lambda name: "999")
    charts.bundle("6.1")
    assert made == ["6.1", "6.1"]


def test_where_nothing_can_be_kept_it_is_made_each_time(made, tmp_path):
    (tmp_path / "kept").write_text("a file where the folder would be", encoding="utf-8")
    assert charts.bundle("6.1") == charts.bundle("6.1") == "script of 6.1, für"
    assert made == ["6.1", "6.1"]
