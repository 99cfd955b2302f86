"""Parts of a request are found in a server's text, however it escapes them."""

import pytest

from sent_texts import ESCAPES, PASSAGE, SENT


@pytest.mark.parametrize("escape", [name for name in ESCAPES if name != "no white space"])
def test_echoes_are_removed(escape):
    text = f"context_length_exceeded: {ESCAPES[escape](PASSAGE)} | the end"
    left = SENT.removed_from(text)
    assert "context_length_exceeded" in left
    assert "the end" in left
    for word in ("wombats", "burrows", "1899"):
        if escape != "hyphens":
            assert word not in left.lower()


def test_what_was_not_sent_stays():
    text = "This model's maximum context length is 8192 tokens"
    assert SENT.removed_from(text) == text
