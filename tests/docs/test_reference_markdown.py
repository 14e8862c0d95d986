from tests.docs.reference import markdown


def test_docstrings_become_one_line_with_code_and_no_html():
    assert markdown.text("``<split>_ims``\n  of <split> 2*3") == r"`<split>_ims` of &lt;split> 2\*3"


def test_the_first_paragraph_ends_at_a_blank_line():
    assert markdown.first_paragraph("One\ntwo.\n\nThree.") == "One two."
    assert markdown.first_paragraph(None) == ""
