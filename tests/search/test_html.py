"""HTML that is not well-formed takes no more than linear time."""

import pytest

from secondpass.search.documents import read_source


@pytest.mark.parametrize("mark", ["<!--", "<a ", "<script>", "<", "</", "<!a", "<?", "&#x"])
def test_page_of_unclosed_marks_is_read_in_time(tmp_path, mark) -> None:
    """For some of them Python's parser alone would take hours."""
    (tmp_path / "a.html").write_text("<p>text</p>" + mark * 100_000)
    assert read_source(tmp_path).corpus[0].text.startswith("text")


def test_unclosed_elements_take_linear_time(tmp_path) -> None:
    """They took some minutes, so this would reach the time limit of a test."""
    (tmp_path / "a.html").write_text("<p>text" + "<template>" * 200_000 + "</style>" * 200_000)
    assert [candidate.text for candidate in read_source(tmp_path).corpus] == ["text"]
