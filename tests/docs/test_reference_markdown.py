from tests.docs.reference import markdown


def test_docstrings_become_one_line_with_code_and_no_html():
    assert markdown.text("``<split>_ims``\n  of <split> 2*3") == r"`<split>_ims` of &lt;split> 2\*3"
