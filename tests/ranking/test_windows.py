"""Windows of long texts: where they are cut, what methods are given, what scores become."""

import asyncio
import json
import math
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakes import ByTable, Model, in_answer, number_of, play, shown_in, task_of
from rankings import fields_of
from sampling import examples
from secondpass import Candidate, ConfigurationError, Reranker
from secondpass.questions import ListScores, RenderedText, affixes
from secondpass.ranking.rendering import Rendering, is_blank, well_formed
from secondpass.ranking.splitting import sentences, split
from secondpass.ranking.windows import Passages, judged_by_windows, with_windows
from secondpass.strategies.graded import Graded
from secondpass.types import Issue

LONG = "1 apple tree. 5 pear trees. 3 plum trees."
WINDOWS = ["1 apple tree.", "5 pear trees.", "3 plum trees."]
SENTENCES = {"size": 15, "overlap": 0}
NUMBERS = {text: float(number_of(text)) for text in [*WINDOWS, "4 short"]}


class Recording:
    """Scores a text by its characters, and keeps what it was given."""

    model_name = "recording"

    def __init__(self):
        self.lists = []

    def score_pairs(self, query, documents):
        self.lists.append(list(documents))
        return [float(sum(map(ord, text)) % 97) for text in documents]


class Subclass(str):
    __slots__ = ()


candidate_texts = st.one_of(
    st.text(st.sampled_from("ab. 句。\n\ud800\u0301"), max_size=60),
    st.text(max_size=40).map(Subclass),
    st.sampled_from([None, 7]),
)
passages = st.integers(1, 30).flatmap(
    lambda size: st.builds(
        Passages,
        size=st.just(size),
        overlap=st.none() | st.integers(0, size - 1),
        combine=st.sampled_from(["max", "first", "mean"]),
    )
)


@examples(20)
@given(st.lists(candidate_texts, max_size=4), passages)
def test_a_span_is_the_text_that_a_scorer_was_given(texts, split):
    recording = Recording()
    reranker = Reranker(recording, passages=split, log_level="debug")
    requests = [("q", [Candidate(text) for text in texts])] * 2
    ranking = reranker.rerank(*requests[0])
    given_texts = [text for texts in recording.lists for text in texts]
    assert ranking.report.usage.pairs == len(given_texts)
    assert all(len(text) <= split.size for text in given_texts)
    for item in ranking:
        assert item.metadata.get("rerank_span") == (item.span and list(item.span))
        if item.span is not None:
            start, stop = item.span
            assert well_formed(item.text[start:stop]) in given_texts
        else:
            assert not isinstance(item.text, str) or is_blank(item.text)
    expected = fields_of(ranking)
    rankings = [
        *reranker.rerank_many(requests),
        asyncio.run(reranker.arerank(*requests[0])),
        *asyncio.run(reranker.arerank_many(requests)),
    ]
    assert all(fields_of(other) == expected for other in rankings)


@pytest.mark.parametrize(
    ("combine", "score", "window", "pairs"),
    [("max", 5.0, 1, 4), ("mean", 3.0, 1, 4), ("first", 1.0, 0, 2)],
)
def test_scores_are_combined(combine, score, window, pairs):
    scorer = ByTable(NUMBERS)
    reranker = Reranker(scorer, passages={**SENTENCES, "combine": combine})
    ranking = reranker.rerank("q", [LONG, "4 short"])
    items = {item.position: item for item in ranking}
    start, stop = items[0].span
    assert (items[0].rerank_score, LONG[start:stop]) == (score, WINDOWS[window])
    assert (items[1].rerank_score, items[1].span) == (4.0, (0, 7))
    assert (ranking.report.usage.calls, ranking.report.usage.pairs) == (1, pairs)


@pytest.mark.parametrize(
    ("combine", "status"), [("max", "backfilled"), ("mean", "backfilled"), ("first", "scored")]
)
def test_a_candidate_is_scored_if_all_windows_that_it_needs_are(combine, status):
    scorer = ByTable({**NUMBERS, WINDOWS[1]: math.nan, WINDOWS[2]: math.nan})
    reranker = Reranker(scorer, passages={**SENTENCES, "combine": combine}, log_level="debug")
    ranking = reranker.rerank("q", ["4 short", LONG])
    assert [item.status for item in ranking] == ["scored", status]
    if status != "scored":
        [issue] = ranking.report.issues
        assert (issue.code, issue.positions) == ("score_not_finite", (1,))
        assert ranking[1].span is None


class UntilDeadline(ByTable):
    """Scores some texts, and ends."""

    def score_batches(self, requests, deadline):
        [(query, documents)] = requests
        scores = self.score_pairs(query, documents)
        yield [(0, index, scores[index]) for index in range(self.count)]


@pytest.mark.parametrize(("count", "status"), [(2, "partial"), (0, "unchanged"), (4, "ok")])
def test_windows_that_the_deadline_does_not_allow(count, status):
    scorer = UntilDeadline(NUMBERS, count=count)
    reranker = Reranker(scorer, passages=SENTENCES, limits={"deadline": 60}, log_level="debug")
    ranking = reranker.rerank("q", ["4 short", LONG])
    assert ranking.report.status == status
    assert ranking.report.usage.pairs == count
    if status != "ok":
        assert [issue.code for issue in ranking.report.issues] == ["deadline"]
    if status == "partial":
        assert ranking.report.issues[0].positions == (1,)
        assert [item.status for item in ranking] == ["scored", "unjudged"]


class InLists:
    """Scores whole lists, with what else a ListScores has."""

    model_name = "in-lists"

    def __init__(self, **members):
        self.members = members

    def score_pairs(self, query, documents):
        raise AssertionError("score_lists is there")

    def score_lists(self, requests, deadline):
        yield [
            ListScores([float(number_of(text)) for text in documents], **self.members)
            for _, documents in requests
        ]


def test_the_window_is_the_span_whatever_the_scorer_found_in_it():
    scorer = InLists(spans=[(2, 7), (2, 6), None, (0, 1)])
    items = Reranker(scorer, passages=SENTENCES).rerank("q", [LONG, "4 short"])
    spans = {item.position: item.span for item in items}
    assert [LONG[slice(*spans[0])], spans[1]] == ["5 pear trees.", (0, 7)]


@pytest.mark.parametrize("combine", ["max", "mean"])
def test_windows_are_combined_by_each_kind_of_score(combine):
    # The numbers in the windows of LONG are the scores; the first window is the first in order.
    count = len(numbers := [float(number_of(text)) for text in LONG.split(". ")])
    scorer = InLists(order_scores=[-float(index) for index in range(count + 1)])
    passages = {**SENTENCES, "combine": combine}
    items = {i.position: i for i in Reranker(scorer, passages=passages).rerank("q", [LONG, "4 a"])}
    whole = max if combine == "max" else fmean
    assert items[0].rerank_score == pytest.approx(whole(numbers))
    assert items[0].final_score == pytest.approx(whole([-index for index in range(count)]))
    assert (items[1].rerank_score, items[1].final_score) == (4.0, -count)
    assert items[0].span[0] == 0


@pytest.mark.parametrize(
    ("weight", "status", "codes"), [(0.5, "degraded", ["own"]), (1.0, "unchanged", ["own"])]
)
def test_a_weight_of_the_original_order_and_issues_are_passed_on(weight, status, codes):
    issue = Issue("own", "these are odd", (1, 2, 3))
    reranker = Reranker(
        InLists(original=weight, issues=[issue]), passages=SENTENCES, log_level="debug"
    )
    report = reranker.rerank("q", [LONG, "4 short"]).report
    assert (report.status, [issue.code for issue in report.issues]) == (status, codes)
    assert report.issues[0].positions == (0, 1)


def test_other_fields_are_in_every_window():
    scorer = Recording()
    render = {"fields": ["title", "text"], "separator": ": ", "prefix": "p. ", "suffix": " end"}
    reranker = Reranker(scorer, render=render, passages={"size": 35, "overlap": 0})
    found = [{"title": "Trees", "text": LONG}]
    [item] = reranker.rerank("q", found)
    assert scorer.lists == [[f"p. Trees: {window} end" for window in WINDOWS]]
    assert LONG[slice(*item.span)] in WINDOWS


def graded_texts(reranker, query, texts, model):
    ranking = reranker.rerank(query, texts)
    return ranking, [text for prompt in model.prompts for text in shown_in(prompt).values()]


@pytest.mark.parametrize(("query", "window"), [("pear", 1), ("plum", 2), ("cherry", 0)])
def test_a_language_model_reads_the_window_with_the_words_of_the_query(query, window):
    model = Model()
    ranking, shown = graded_texts(
        Reranker(Graded(model), passages=SENTENCES), query, [LONG, "4 short"], model
    )
    assert sorted(shown) == sorted([WINDOWS[window], "4 short"])
    spans = {item.position: item.text[slice(*item.span)] for item in ranking}
    assert spans == {0: WINDOWS[window], 1: "4 short"}
    assert (ranking.report.usage.calls, ranking.report.usage.pairs) == (2, 6)


def test_a_language_model_reads_what_surrounds_a_sentence_that_the_stage_before_found():
    text = "One sentence. Two sentences. Three of them. Four of them."
    task = with_windows(task_of([text]), Passages(size=44, overlap=30), Rendering())
    task = replace(task, spans=[(29, 43)])
    judgement, asks = play(
        judged_by_windows(Graded(Model()), task),
        in_answer(lambda shown: json.dumps(dict.fromkeys(shown, 5))),
    )
    [shown] = shown_in(asks[0].questions[0].request).values()
    assert (
        text[slice(*judgement.spans[0])] == shown == "Two sentences. Three of them. Four of them."
    )


# ---------------------------------------------------------------------- where texts are split


PIECES = st.sampled_from(
    [
        *"aé漢ก\u0e33🏽\u0301\u200d\ud800\udc00🇫.!?。」\"'\n\t \u3000\x85\0",
        *["word", "Sentence. ", "句子。", "  \n\n ", "\r\n", "👨\u200d👩", "." * 9],
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=60).map("".join)
SIZES = st.integers(1, 40).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


@given(TEXTS, SIZES)
@example("a" * 100, (10, 9))
@example(" " * 100, (10, 3))
@example("aa\na", (2, 1))
def test_windows_cover_the_text_in_order_and_are_no_longer_than_their_size(text, sizes):
    size, overlap = sizes
    spans = list(split(text, size, overlap))
    assert spans[0][0] == 0 or not text[: spans[0][0]].strip()
    assert all(0 <= start <= stop <= len(text) and stop - start <= size for start, stop in spans)
    assert len(spans) <= 1 + 2 * len(text) / (size - overlap)
    for (a, b), (c, d) in pairwise(spans):
        assert (a, b) < (c, d)
        assert b < d
        assert b - c <= overlap
        assert c <= b or not text[b:c].strip()
    if text.strip():
        assert not text[spans[-1][1] :].strip()
    if len(text) <= size:
        assert spans == [(0, len(text))]


@pytest.mark.parametrize(
    ("text", "size", "overlap", "windows"),
    [
        ("One two. Three four. Five.", 20, 0, ["One two. Three four.", "Five."]),
        ("He said “Go.” Then he left.", 15, 0, ["He said “Go.”", "Then he left."]),
        ("A 3.14159 is pi.", 10, 0, ["A 3.14159", "is pi."]),
        ("aaaa bbbb cccc dddd", 10, 0, ["aaaa bbbb", "cccc dddd"]),
        ("aaaa bbbb cccc dddd", 10, 5, ["aaaa bbbb", "bbbb cccc", "cccc dddd"]),
        ("Ab. Cd. Ef. Gh. Ij.", 11, 4, ["Ab. Cd. Ef.", "Ef. Gh. Ij."]),
        ("第一句。第二句。第三句。", 9, 0, ["第一句。第二句。", "第三句。"]),
        ("abcdefghij", 4, 0, ["abcd", "efgh", "ij"]),
        ("abcdefghij", 4, 1, ["abcd", "defg", "ghij"]),
        ("xxxe\u0301yyy", 4, 0, ["xxx", "e\u0301yy", "y"]),
        ("xxx\U0001f468\u200d\U0001f469yyy", 5, 0, ["xxx", "\U0001f468\u200d\U0001f469yy", "y"]),
        ("a   \n\n   b", 4, 0, ["a", "b"]),
        ("Line one\nline two.\nGo. Four.", 24, 3, ["Line one\nline two.", "Go. Four."]),
        ("One two three f\n\nfour. Five six", 23, 3, ["One two three f", "four. Five six"]),
        ("One two.\nThree four. Five", 22, 6, ["One two.\nThree four.", "four. Five"]),
        ("One two three f\r\n\r\nfour. Five six", 25, 3, ["One two three f", "four. Five six"]),
        ("One two\r\ntwo.\r\nThree. Four five", 22, 0, ["One two\r\ntwo.", "Three. Four five"]),
        ("aa\na", 2, 1, ["aa", "a"]),
        ("ខខខ\u17d4ខខខ", 5, 0, ["ខខខ\u17d4", "ខខខ"]),
        ("第一、第二第三", 5, 0, ["第一、", "第二第三"]),
        ("第一、第二第三第四", 6, 4, ["第一、第二第", "第二第三第四"]),
        ("गगगक्षत्रि", 5, 0, ["गगग", "क्ष", "त्रि"]),
        ("xxx\U0001f3f4\U000e0067\U000e007fy", 5, 0, ["xxx", "\U0001f3f4\U000e0067\U000e007fy"]),
    ],
)
def test_where_windows_end_and_begin(text, size, overlap, windows):
    assert [text[start:stop] for start, stop in split(text, size, overlap)] == windows


def test_sentences():
    text = "One. Two!\n第一句。Three"
    assert [text[a:b] for a, b in sentences(text)] == ["One.", "Two!", "第一句。", "Three"]


@pytest.mark.parametrize("size", [1, 20, 40, 100])
def test_prefix_and_suffix_are_in_every_window(size):
    text = RenderedText(f"prefix {'word ' * 40}suffix", ((0, 7), (207, 213)))
    passages = Passages(size=size)
    windows = passages.windows(text, (7, 207))
    shown = [windows.text(text, span) for span in windows.spans]
    assert len(shown) > 1
    for window in shown:
        assert affixes(window) == (7, 6)
        assert len(window) <= max(size, size // 2 + 13, 14)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "size: must be greater than or equal to 1, not 0"),
        ({"size": 10, "overlap": 10}, r"overlap: must be smaller than the size \(10\)"),
        ({"overlap": -1}, "overlap: must be greater than or equal to 0, not -1"),
        ({"combine": "best"}, "combine: "),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigurationError, match=message) as error:
        Passages(**settings)
    assert len(error.value.problems) == 1
