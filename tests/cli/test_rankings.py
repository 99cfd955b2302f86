"""Rankings as lines, runs and tables."""

import json
from dataclasses import replace

import pytest

from secondpass import Candidate, Reranker
from secondpass.cli.rankings import Format, Formatter
from secondpass.formats.requests import InputRequest


def test_a_span_is_written_with_its_item():
    candidates = [Candidate("some text"), Candidate("other")]
    ranking = Reranker("lexical").rerank("text", candidates)
    items = (replace(ranking[0], span=(5, 9), spread=0.5), ranking[1])
    formatter = Formatter(Format.jsonl, False, False, "tag", None, True)
    request = InputRequest(None, "text", candidates, None, b"", 0)
    line = formatter.format_ranking(1, request, replace(ranking, items=items))
    first, second = json.loads(line)["ranking"]
    assert (first["span"], "span" in second) == ([5, 9], False)
    assert (first["spread"], "spread" in second) == (0.5, False)


@pytest.mark.parametrize(("span", "shown"), [((5, 9), "…text here"), ((0, 4), "some text here")])
def test_a_table_shows_the_text_from_its_span_on(span, shown):
    candidates = [Candidate("some text here")]
    ranking = Reranker("lexical").rerank("text", candidates)
    ranking = replace(ranking, items=(replace(ranking[0], span=span),))
    request = InputRequest(None, "text", candidates, None, b"", 0)
    formatter = Formatter(Format.table, True, False, "tag", None, True)
    assert formatter.format_ranking(1, request, ranking).rstrip().endswith(f" {shown}")
