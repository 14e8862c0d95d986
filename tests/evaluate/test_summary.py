"""The table of figures at every width, and the sentences below it."""

import json

from vse_pipe.evaluate import table


def metrics(inference: str = "nns", bank: str = "none", transductive: bool = False, **more: object) -> dict:
    side = {"r@1": 10.0, "r@5": 20.0, "r@10": 30.0, "queries": 40, "items": 500}
    given = {"inference": inference, "split": "test", "protocol": "full", "bank": bank, "transductive": transductive}
    return given | {"image_to_text": dict(side), "text_to_image": dict(side), "rsum": 120.0, "hs_sum": 3.5} | more


def test_unjudged_queries_are_counted_and_the_interval_of_rsum_is_shown(capsys):
    first = metrics(intervals={"rsum": [110.04, 130.0], "image_to_text": {}}, split="files")
    first["image_to_text"]["unjudged"], first["text_to_image"]["unjudged"] = 60, 0
    assert "60 of 100 queries have no judged item" in table.figure_notes([first])[-1]
    table.show_results({("sum", "nns"): first, ("sum", "is"): metrics("is", "test", True)}, False)
    out = " ".join(capsys.readouterr().out.split())
    assert "[110.0," in out
    assert "130.0]" in out
    assert out.count("[") == 1


def test_json_is_sorted_and_keyed(capsys):
    one, other = metrics(), metrics("is", "test", True)
    table.show_results({("sum", "nns"): one, ("sum", "is"): other}, True)
    assert json.loads(capsys.readouterr().out) == {"sum": {"is": other, "nns": one}}
    table.show_file_results({"nns": one}, True)
    assert capsys.readouterr().out == json.dumps(one, indent=2, sort_keys=True) + "\n"
    table.show_file_results({"nns": one, "is": other}, True)
    assert list(json.loads(capsys.readouterr().out)) == ["is", "nns"]
