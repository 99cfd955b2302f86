import re
from dataclasses import replace

import pytest

from reports import EDGES, INJECTIONS, make
from secondpass_evaluation.report.markdown import escaped, report
from secondpass_evaluation.report.text import NONE
from secondpass_evaluation.report.verdict import verdict
from secondpass_evaluation.results import Shown


@pytest.mark.parametrize("comparison", EDGES.values(), ids=EDGES)
def test_edges(comparison):
    text = report(comparison)
    assert text.startswith("# ")
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("p < 0.001", "p < 0.001"), ("a <b>", r"a \<b\>"), ("<", r"\<"), ("<!-- ", r"\<\!--")],
)
def test_a_less_than_sign_is_escaped_only_where_it_may_begin_a_tag(text, expected):
    assert escaped(text) == expected


def test_sections_in_order():
    headings = [line for line in report(make()).splitlines() if line.startswith("## ")]
    assert headings == [
        "## Overview",
        "## Quality",
        "## Against lexical",
        "## Cost",
        "## Issues",
        "## Sensitivity to input order",
        "## Not run",
        "## Queries that lexical+rerank makes better",
        "## Queries that lexical+rerank makes worse",
    ]


def test_the_verdict_comes_first():
    comparison = make()
    outcome = verdict(comparison)
    title, first, *_ = report(comparison).replace("\\", "").split("\n\n")
    assert title.startswith("# ")
    assert first == f"**{outcome.answer}** {outcome.because}"


@pytest.mark.parametrize("comparison", EDGES.values(), ids=EDGES)
def test_without_details_it_is_a_screen(comparison):
    brief = report(comparison, details=False)
    whole = report(comparison).splitlines()
    assert len(brief.splitlines()) <= 10 + 2 * len(comparison.results)
    assert brief.splitlines()[:3] == whole[:3]
    assert "## " not in brief
    for result in comparison.not_run:
        assert f"{result.name} is not run: {result.reason}." in brief.replace("\\", "")


def test_without_details_each_system_has_a_line():
    lines = report(make(rerankers=("a", "b")), details=False).splitlines()
    head = next(line for line in lines if line.startswith("| system |"))
    assert head == (
        "| system | nDCG@10 | against lexical | interval | corrected p | ms per query "
        "| cost of 1,000 queries |"
    )
    assert [line.split("|")[1].strip() for line in lines if line.startswith("| lex")] == [
        "lexical", "lexical+a", "lexical+b"
    ]  # fmt: skip


def test_changes_with_documents():
    text = report(make())
    assert "- **how far is it 1** (q1): nDCG@10 0.250 → 0.750" in text
    assert "    1. (was 4; relevance 2) **d1** how far is it passage" in text
    long = report(make(text="how far is it " * 9))
    assert "    1. (was 4; relevance 2) **d1** how far is it how" in long
    assert " how far is it…\n" in long
    assert f"    2. (was {NONE}; relevance 0) **d2**" in text
    assert "    3. (was 3; not judged) **d3**" in text


def test_relevant_documents_that_moved_are_among_the_changes():
    comparison = make()
    result = comparison.results[1]
    (change,) = result.gains
    lower = [Shown(4, "d4", "a", 1, 4), Shown(5, "d5", "b", 0, 9), Shown(8, "d8", "c", 2, 6)]
    lost = Shown(2, "d9", "d", 1, None)
    change = replace(change, top=(*change.top, *lower), top_before=(*change.top_before, lost))
    results = (comparison.results[0], replace(result, gains=(change,), losses=()))
    text = report(replace(comparison, results=results))
    assert "**d3** how far is it passage\n    - rank 8 (was 6; relevance 2) **d8** c" in text
    assert "    - not in the list (was 2; relevance 1) **d9** d" in text
    assert not {"**d4**", "**d5**"} & set(text.split())


def test_no_control_characters():
    text = "\x1b]0;title\x07 \x1b[2J\u202eabc"
    report = make(text=text, rerankers=(text,)).to_markdown()
    assert not {*report} & {"\x1b", "\x07", "\u202e"}


@pytest.mark.parametrize("text", INJECTIONS.values(), ids=INJECTIONS)
def test_text_stays_text(text):
    plain, hostile = (report(make(text=each, rerankers=(each,))) for each in ("plain", text))
    assert len(hostile.splitlines()) == len(plain.splitlines())
    for markup in ("![", "](", "<", "`", "&", "~"):
        assert not re.search(r"(?<!\\)" + re.escape(markup), hostile.replace("< 0.001", ""))
