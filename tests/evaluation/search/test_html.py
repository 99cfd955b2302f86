"""HTML needs lxml, and what is not well-formed takes no more than linear time.

What becomes of HTML is in test_documents.py.
"""

import pytest

from secondpass_evaluation.search.documents import read_source


@pytest.mark.parametrize(
    "mark", ["<!--", "<a ", "<script>", "<", "</", "<!a", "<?", "&#x", "<p><b>"]
)
def test_page_of_unclosed_marks_is_read_in_time(tmp_path, mark) -> None:
    """A parser that looks for the end of each would take hours."""
    (tmp_path / "a.html").write_text("<p>text</p>" + mark * 100_000)
    assert read_source(tmp_path).corpus[0].text.startswith("text")


@pytest.mark.parametrize("mark", ["<div>", "<nav>", "<template>"])
def test_page_that_is_nested_too_deeply_is_skipped_by_name(tmp_path, mark) -> None:
    """The parser stops there, so the rest of the page would be lost without a word."""
    (tmp_path / "a.html").write_text("<p>text" + mark * 1_500 + "end")
    (tmp_path / "b.html").write_text("<p>text" + mark * 200_000 + "</style>" * 200_000 + "end")
    assert read_source(tmp_path).skipped.get("b.html") == "is nested too deeply"
    assert "a.html" not in read_source(tmp_path).skipped


@pytest.mark.parametrize("mark", ["<b>", "<font color=red>", "<SPAN\nclass='x'>", "<b ", "<b\t"])
def test_unclosed_formatting_loses_no_text(tmp_path, mark) -> None:
    (tmp_path / "a.html").write_text("<h1>top</h1><p>text" + mark * 100_000 + ">end")
    (candidate,) = read_source(tmp_path).corpus
    assert candidate.text.startswith("top\n\ntext")
    assert candidate.text.endswith("end")
