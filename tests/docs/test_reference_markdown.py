from tests.docs.reference import markdown


def test_bars_in_cells_are_escaped():
    assert markdown.table(("a", "b"), [("x|y", "")]) == "| a | b |\n| --- | --- |\n| x\\|y |  |"


def test_docstrings_become_one_line_with_code_and_no_html():
    assert markdown.text("``<split>_ims``\n  of <split> 2*3") == r"`<split>_ims` of &lt;split> 2\*3"
