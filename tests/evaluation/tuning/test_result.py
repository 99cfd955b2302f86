"""What tuning found, in sentences and tables."""

import json
from dataclasses import replace

import pytest

from reports import check
from secondpass_evaluation.report.text import KNOWN, NONE
from secondpass_evaluation.tuning.result import Trial, Tuning, tables
from secondpass_evaluation.tuning.selection import Held, Selection
from secondpass_evaluation.tuning.tuning import _why_not


def held(mean=0.1, p=0.01, **changes):
    parts = {"low": mean - 0.05, "high": mean + 0.05, "deviation": 0.2, "changed": 7}
    return Held(**{"mean": mean, "p": p, **parts, **changes})


CONFIG = {"method": {"type": "graded", "llm": {"type": "openai", "api_key": "sk-secret"}}}
ADOPTED = Trial(
    "words", "adopted", config=CONFIG, variants=6, setting="depth 20, no blend", mean=0.6,
    held=held(), seconds=0.0123, cost=0.002, statuses={"ok": 20},
)  # fmt: skip
TRIED = Trial(
    "other", "tried", "its gain may be chance", variants=3, setting="depth 5, no blend", mean=0.5,
    held=held(-0.1, 0.9, low=-0.2, high=-0.01), seconds=0.5,
)  # fmt: skip
NOT_TRIED = Trial("far", "not_tried", "no key")


def tuning(**changes):
    """A reranker was adopted, one was not, and one was not tried."""
    parts = {
        "suite": "owls", "queries": 20, "stage": "lexical", "measure": "nDCG@10", "baseline": 0.4,
        "adopted": "words", "config": CONFIG, "gain": held(), "more_queries": None,
        "detectable": None, "trials": (ADOPTED, TRIED, NOT_TRIED),
        "settings": {
            "date": "2026-11-24", "smallest_gain": 0.01, "confidence": 0.9, "folds": 5, "seed": 0,
            "versions": {"secondpass": "1.0"},
        },
    }  # fmt: skip
    return Tuning(**{**parts, **changes})


def kept(**changes):
    """The first stage was kept, because no gain was sure."""
    parts = {"adopted": None, "config": None, "gain": held(), "trials": (TRIED, NOT_TRIED)}
    return tuning(**{**parts, **changes})


@pytest.mark.parametrize(
    ("gains", "adopted", "gain", "reason"),
    [
        (held(changed=0), "a", 0.1, "it changes the measure for no query"),
        (held(0.0), "a", 0.1, "it has no gain on held-out queries"),
        (held(-0.1), None, 0.0, "it has no gain on held-out queries"),
        (held(p=0.06), None, 0.0, "its gain may be chance"),
        (held(0.004), None, 0.0, "its gain is below the smallest gain, 0.01"),
        (held(), "a", 0.2, "a gains more"),
        (held(), "a", 0.1, "a gains as much"),
        (held(), None, 0.0, "the gain of the whole choice is below the smallest gain, 0.01"),
    ],
)
def test_why_a_reranker_is_not_adopted(gains, adopted, gain, reason):
    selection = Selection({"own": gains, "a": held(gain)}, gains, {}, {}, 0.0)
    assert _why_not(selection, "own", adopted, 0.01).startswith(reason)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (
            tuning(),
            "Adopt words, depth 20, no blend, at 12.3 ms a query (95th percentile), 2.00 per 1,000 "
            "queries at the configured prices. On held-out queries, which had no part in the "
            "choice, its gain in nDCG@10 over the first stage, lexical, is +0.1000 (90% interval "
            "+0.0500 to +0.1500). This is significant (p = 0.010, corrected for 9 variants of 2 "
            "rerankers). With 20 queries, a loss that hits fewer than 17% of queries can go "
            "unnoticed.",
        ),
        (
            tuning(
                queries=100, gain=held(0.08), trials=(replace(ADOPTED, held=held(low=0.04)), TRIED)
            ),
            "+0.0400 to +0.1500). This is significant (p = 0.010, corrected for 9 variants of 2 "
            "rerankers). If the reranker, too, is chosen without these queries, the gain is "
            "+0.0800. Expect less: a reranker is adopted only if its measured gain is high, so the "
            "measured gain is on average too high. With 100 queries, a loss that hits fewer than "
            "3% of queries can go unnoticed.",
        ),
        (
            kept(gain=None, trials=(NOT_TRIED,)),
            "Nothing was reranked, so nothing is decided: no reranker could be tried.",
        ),
        (
            kept(gain=None, trials=(NOT_TRIED, replace(NOT_TRIED, beyond_limits=True))),
            "Keep the first stage, lexical: no reranker is within the limits.",
        ),
        (
            kept(),
            "Keep the first stage, lexical: no reranker is certain to improve nDCG@10 enough. "
            "The best reranker, other, changes it by -0.1000 (90% interval -0.2000 to -0.0100): "
            "its gain may be chance.",
        ),
        (
            kept(more_queries=1200, detectable=0.0213),
            "With about 1,200 more judged queries, the test would detect a true gain of 0.021 more "
            "often than not. If you tune again, that is a second test, which may also adopt a "
            "reranker by chance.",
        ),
        (
            kept(more_queries=0, detectable=0.5),
            "With 20 judged queries, the test would detect a true gain of 0.5 more often than not.",
        ),
    ],
    ids=[
        "adopted",
        "uncertain",
        "none tried",
        "beyond the limits",
        "kept",
        "more queries",
        "enough queries",
    ],
)
def test_verdict(found, verdict):
    assert found.verdict.endswith(verdict)


def test_comments_of_the_configuration():
    settings = {**tuning().settings, "latency": 0.5, "latency_of": "p95", "command": "tune x"}
    found = tuning(settings=settings, notes=("half of it",))
    assert found.provenance() == [
        "Written by secondpass tune, 2026-11-24.",
        found.verdict,
        "Data: owls, 20 judged queries, candidates of the first stage, lexical, nDCG@10 0.4000 "
        "without reranking.",
        "Note: half of it",
        "Limits: latency 0.5, latency_of p95.",
        "Not adopted: other (its gain may be chance); far (no key).",
        "Smallest gain 0.01, confidence 0.9, 5 folds, seed 0.",
        "Versions: secondpass 1.0.",
        "Command: tune x",
    ]


def test_tables():
    tried, outcome, not_tried = tables(tuning())
    assert [[cell.text for cell in row] for row in tried.rows] == [
        ["words", "+0.1000", "+0.0500 to +0.1500", "0.010", "12.3", "2.00"],
        ["other", "-0.1000", "-0.2000 to -0.0100", "0.900", "500.0", NONE],
    ]
    assert [[cell.text for cell in row] for row in outcome.rows] == [
        ["words", "depth 20, no blend", "adopted"],
        ["other", "depth 5, no blend", "its gain may be chance"],
    ]
    assert [row[1].tone for row in tried.rows] == ["gain", "loss"]
    assert [[cell.text for cell in row] for row in not_tried.rows] == [["far", "no key"]]
    assert [table.key for table in tables(tuning(trials=()))] == []


def test_times_of_known_passages_say_so():
    found = tuning(trials=(replace(ADOPTED, share_known=0.93), TRIED))
    assert [row[4].text for row in tables(found)[0].rows] == ["12.3 (93% known)", "500.0"]
    assert KNOWN in tables(found)[0].notes
    assert "12.3 ms a query (95th percentile; 93% of the passages were encoded before)" in (
        found.verdict
    )
    assert KNOWN not in tables(tuning())[0].notes


def test_plain_values_without_keys():
    text = json.dumps(tuning().to_dict())
    assert "sk-secret" not in text
    record = json.loads(text)
    assert [trial["name"] for trial in record["trials"]] == ["words", "other", "far"]
    assert record["gain"]["mean"] == 0.1
    assert kept(gain=None).to_dict()["config"] is None


def test_pages():
    page = check(tuning(suite="<script>").to_html())
    assert any("Adopt words" in text for text in page.texts)
    markdown = tuning(suite="<script>", notes=("a note",)).to_markdown()
    assert "<script>" not in markdown
    assert "> a note" in markdown
    assert {ADOPTED.name, TRIED.name} <= {*page.cells}
