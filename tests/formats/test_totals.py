"""The counts of rankings, and the line that sums them up."""

from collections import Counter

import pytest

from secondpass import EngineInfo, Ranking, Report, Skipped, Usage
from secondpass.formats.totals import count, not_reranked, summary


def ranking(*usage, **report):
    return Ranking("q", (), Report("ok", usage=Usage(1, 1, 5, *usage), **report))


def test_engines_are_named():
    counts = Counter({"ok": 2, "issue deadline": 1})
    engine = EngineInfo("model", "openvino", "bfloat16", 2, "any", "fastest")
    counts.update(count([ranking(engines=(engine,))] * 2))
    assert summary(4, counts, 1.0) == (
        "4 queries in 1.0 s: 4 ok, 0 partial, 0 degraded, 0 unchanged; issues: deadline (1); "
        "models: model on openvino, 2 threads, computed in bfloat16 (in 2 of 4 queries)"
    )


def test_passages_are_counted_by_when_they_were_encoded():
    engine = EngineInfo("model", "onnx", "float32", 1, "any", "fastest")
    report = Report("ok", engines=(engine,), usage=Usage(1, 1, 5, known=3, encoded=2))
    assert summary(1, count([Ranking("q", (), report)]), 1.0).endswith(
        "0 unchanged; models: model on onnx, 1 thread, computed in float32; "
        "passages encoded before: 3; passages encoded: 2"
    )


@pytest.mark.parametrize(
    ("done", "start"),
    [
        (0, "40 queries in 1.0 s: 40 ok"),
        (32, "40 queries; of these, ranked now: 8 in 1.0 s; in all: 40 ok"),
        (40, "out.jsonl is complete: 40 queries, none ranked now; in all: 40 ok"),
    ],
)
def test_what_an_output_had_before_was_not_ranked_now(done, start):
    line = summary(40, Counter({"ok": 40, "encoded": 960}), 1.0, done=done, output="out.jsonl")
    assert line.startswith(start)


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ({"ok": 3}, [], ""),
        ({"unchanged": 3}, [], "nothing was reranked: the order is the input's"),
        (
            {"unchanged": 3},
            ["--strict"],
            "nothing was reranked: the order is the input's (--strict makes this an error)",
        ),
        ({"ok": 1, "unchanged": 2}, [], "2 of 3 queries kept the order of the input"),
    ],
)
def test_what_kept_its_order_is_said(counts, options, message):
    assert not_reranked(3, Counter(counts), options) == message


def test_degraded_rankings_say_why():
    reports = [Report("degraded", degraded_by=("fallback", "doubtful"))]
    reports += [Report("degraded", degraded_by=("doubtful",)), Report("ok")]
    line = summary(3, count([Ranking("q", (), report) for report in reports]), 1.0)
    assert line.endswith("2 degraded, 0 unchanged; degraded by: doubtful (2), fallback (1)")


def test_skipped_queries_and_pairs_are_summed():
    counts = count([ranking(skipped=Skipped("certain", 40)), ranking(skipped=Skipped("sure", 2))])
    assert summary(3, counts, 1.0).endswith("; skipped: 2 queries, 42 pairs")


@pytest.mark.parametrize(
    ("beyond", "end"),
    [
        ([0, 0], "0 unchanged"),
        ([1, 0], "; beyond the depth, not scored: 1 candidate of 1 query"),
        ([1000, 101], "; beyond the depth, not scored: 1,101 candidates"),
    ],
)
def test_candidates_beyond_the_depth_are_summed(beyond, end):
    counts = count([ranking(beyond_depth=number) for number in beyond])
    assert summary(2, counts, 1.0).endswith(end)


TOTALS = [
    # usage of each ranking; what the summary ends with
    ([()], "0 unchanged"),
    ([(None, None, None)] * 2, "0 unchanged"),
    ([(1000, 20)], "; tokens: 1,000 in, 20 out"),
    ([(1000, 20, 0.25)], "; tokens: 1,000 in, 20 out; cost: 0.25"),
    ([(1000, 20, 0.1)] * 3, "; tokens: 3,000 in, 60 out; cost: 0.3"),
    ([(0, 0, 0.0)], "; tokens: 0 in, 0 out; cost: 0"),
    ([(1000, 20), ()], "; tokens: 1,000 in, 20 out (reported for 1 of 2 queries)"),
    ([(9, 2, 3e-6), (9, 2)], "; tokens: 18 in, 4 out; cost: 3e-06 (reported for 1 of 2 queries)"),
]


@pytest.mark.parametrize(("usages", "end"), TOTALS)
def test_tokens_and_cost_are_summed_where_they_are_reported(usages, end):
    counts = count([ranking(*usage) for usage in usages])
    assert summary(len(usages), counts, 1.0).endswith(end)
    assert all(type(value) is int for value in counts.values())


def test_billed_units_are_summed_where_they_are_reported():
    usages = [Usage(1, units=0.1), Usage(1, units=0.2), Usage(1)]
    counts = count([Ranking("q", (), Report("ok", usage=usage)) for usage in usages])
    end = "0 unchanged; billed units: 0.3 (reported for 2 of 3 queries)"
    assert summary(3, counts, 1.0).endswith(end)
    assert all(type(value) is int for value in counts.values())


def test_cached_answers_retries_and_repairs_are_summed():
    usages = [{"cached": 1200, "retries": 2}, {"cached": 300}, {"repairs": 1}]
    counts = count([Ranking("q", (), Report("ok", usage=Usage(1, **usage))) for usage in usages])
    end = " 0 unchanged; cached answers: 1,500; retries: 2; repairs: 1"
    assert summary(3, counts, 1.0).endswith(end)
