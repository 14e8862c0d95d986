import json

import pytest

from tests.toy_project import write_params, write_prepared
from vse_pipe.audit import stage


@pytest.fixture
def project(tmp_path):
    write_params(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        (("--run", "summ"), 2, "error: unknown run 'summ'; did you mean 'sum'? known: sum\n"),
        (("--run", "sum"), 3, "error: data/train/sum/model.safetensors does not exist; make it with `vse-pipe train"),
    ],
)
def test_a_run_that_cannot_be_audited_is_one_line(call, project, given, status, message):
    write_prepared()
    found, out, err = call("audit", *given)
    assert (found, out, err.count("\n")) == (status, "", 1)
    assert err.startswith(message)
    assert not list(project.glob("data/audit/*/"))


@pytest.mark.parametrize("given", [(), ("--run", "sum", "--threshold", "1.5"), ("--run", "sum", "--limit", "-1")])
def test_wrong_usage_is_status_2(call, project, given):
    status, out, err = call("audit", *given)
    assert (status, out) == (2, "")
    assert err


def test_options_reach_the_stage_and_json_is_one_document(call, project, monkeypatch):
    seen = []

    def audit(params, *rest):
        seen.append(rest)
        return {"run": "sum", "pairs": 3, "flagged": 1, "threshold": 0.8}

    monkeypatch.setattr(stage, "audit", audit)
    arguments = ("audit", "--run", "sum", "--threshold", "0.8", "--limit", "5", "--device", "cpu")
    status, out, err = call(*arguments, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["flagged"] == 1
    assert seen == [("sum", 0.8, 5, "cpu")]
    assert "flagged as mismatched" in call(*arguments)[1]


def test_an_interrupt_is_status_130(call, project, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stage, "audit", interrupted)
    assert call("audit", "--run", "sum") == (130, "", "interrupted\n")
