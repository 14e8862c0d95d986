import json

import pytest


@pytest.fixture
def project(made, call, monkeypatch):
    monkeypatch.chdir(made)
    return made


def test_a_run_is_packed_to_where_the_command_was_called(project, call):
    status, out, err = call("pack", "--run", "sum", "--out", "deep/hub", "--licence", "mit", "--json")
    assert status == 0, err
    digests = json.loads(out)["sha256"]
    assert f"deep/hub: run sum, sha256 of config.json {digests['config.json']}" in err
    assert "license: mit" in (project / "deep" / "hub" / "README.md").read_text()


def test_a_typo_gets_the_near_miss(project, call):
    status, _, err = call("pack", "--run", "summ", "--out", "hub")
    assert (status, err) == (2, "error: unknown run 'summ'; did you mean 'sum'? known: sum\n")
