import json

from vse_pipe.audit.stage import show_audit

KNOWN = {
    "run": "sum",
    "threshold": 0.5,
    "pairs": 1200,
    "flagged": 4,
    "mismatched": 3,
    "auc": 0.91,
    "partners_from": "batch",
    "precision": None,
    "ranked": [
        {"first": 1000, "estimated": 0.83, "precision": 0.92},
        {"first": 10, "estimated": 1.0, "precision": None},
    ],
}


def test_people_get_a_table_with_a_dash_for_what_is_undefined(capsys):
    show_audit(KNOWN, False)
    lines = capsys.readouterr().out.splitlines()
    assert any("1,200" in line for line in lines)
    assert any("AUC" in line and "0.910" in line for line in lines)
    assert any("partners" in line and "the pair's batch" in line for line in lines)
    assert any("precision" in line and "-" in line for line in lines)
    assert any("mismatched of the first 1,000 by loss" in line and "about 83%, 92% in truth" in line for line in lines)
    assert any(line.rstrip().endswith("about 100%") for line in lines)


def test_figures_against_an_unknown_truth_are_left_out(capsys):
    show_audit({key: KNOWN[key] for key in ("run", "threshold", "pairs", "flagged")}, False)
    assert "AUC" not in capsys.readouterr().out


def test_programs_get_the_document(capsys):
    show_audit(KNOWN, True)
    assert json.loads(capsys.readouterr().out) == KNOWN
