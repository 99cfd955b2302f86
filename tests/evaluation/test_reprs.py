"""Results of evaluations as a line, in a console or a debugger."""

import pytest

from reports import make
from secondpass.ranking.floors import Fit, Floor
from secondpass_evaluation import (
    Calibration,
    Corrected,
    Cost,
    Difference,
    Evaluation,
    Held,
    JudgedBy,
    Judgements,
    Trial,
    Tuning,
)

HELD = Held(0.03125, 0.01, 0.05, 0.1, 0.004, 20)
JUDGED_BY = JudgedBy("m", "t", "2026-01-01", 900, 1, 1200, {1: 1200}, 0, ("a",), 10, 7, ("q",), {})
TUNING = ("owls", 40, "hybrid", "nDCG@10", 0.5)
REPRS: dict[str, object] = {
    "<Evaluation of 1 query: nDCG@10 0.5000, RR 1.0000>": Evaluation(
        {"nDCG@10": {"q": 0.5}, "RR": {"q": 1.0}}, {"nDCG@10": 0.5, "RR": 1.0}
    ),
    "<Difference nDCG@10 +0.0300, 95% interval +0.0100 to +0.0500, p 0.02, 40 queries>": Difference(
        "nDCG@10", 40, 0.03, 0.01, 0.05, 0.95, 0.01, 0.02, 20, 10, 10
    ),
    "<Difference RR +0.0000, 1 query>": Difference(
        "RR", 1, 0.0, None, None, 0.95, None, None, 0, 1, 0
    ),
    "<Cost of 2 queries, calls=3, pairs=100>": Cost({"a": 0.1, "b": 0.2}, 3, 100),
    "<Trial 'words': adopted; depth 50, no blend; held-out gain +0.0312>": Trial(
        "words", "adopted", setting="depth 50, no blend", held=HELD
    ),
    "<Trial 'words': not tried; no key>": Trial("words", "not_tried", "no key"),
    "<Tuning 'owls': 40 queries; adopt words; nDCG@10 0.5000 before; held-out gain +0.0312; "
    "1 trial>": Tuning(*TUNING, "words", {}, HELD, None, None, (Trial("words", "adopted"),)),
    "<Tuning 'owls': 40 queries; nothing tried; nDCG@10 0.5000 before; 0 trials>": Tuning(
        *TUNING, None, None, None, 0, None, ()
    ),
    "<Calibration 'owls': 50 queries; threshold 0.25; keeps 92.0% of the relevant candidates, "
    "31.0% of all>": Calibration(
        "owls",
        "given",
        Floor(0.25, keep=0.9, fitted=Fit("m")),
        None,
        50,
        1500,
        0.92,
        0.31,
        0.1,
        0.6,
    ),
    "<Corrected RR 0.7000, 95% interval 0.6000 to 0.8000, 20 of 90 queries by people>": Corrected(
        "RR", 90, 20, 0.72, 0.7, 0.6, 0.8, 0.69, 0.5, 0.9, 0.8, 0.95
    ),
    "<JudgedBy 'm': 1 of 900 queries, 1,200 documents, 0 by people>": JUDGED_BY,
    "<Judgements <JudgedBy 'm': 1 of 900 queries, 1,200 documents, 0 by people>; 1 call; "
    "stopped: limit>": Judgements({}, {}, JUDGED_BY, {}, calls=1, stopped="limit"),
}


@pytest.mark.parametrize("expected", REPRS)
def test_reprs_are_short(expected):
    assert repr(REPRS[expected]) == expected


def test_a_comparison_names_its_systems():
    comparison = make(rerankers=("a", "b", "c", "d"), suite="owls")
    shown = repr(comparison)
    assert shown.startswith("<Comparison 'owls': 6 queries; nDCG@10 of lexical 0.")
    assert ", …" in shown
    assert len(shown) < 160
    assert repr(make(results=(), measures=(), suite="owls")) == "<Comparison 'owls': 6 queries>"
