"""The sentences and figures of a calibration."""

import json

import pytest

from secondpass.errors import NotSerializableError
from secondpass.ranking.floors import Fit, Floor, Probabilities
from secondpass_evaluation.calibration.mapping import MappingFit
from secondpass_evaluation.calibration.result import Calibration


def calibration(per="query", **changes):
    fit = Fit("lexical", per=per, queries=40, documents=55)
    parts = {
        "suite": "owls",
        "first_stage": "given",
        "floor": Floor(0.25, on="final", nothing=0.125, keep=0.9, fitted=fit),
        "mapping": None,
        "queries": 50,
        "candidates": 1500,
        "relevant_kept": 0.92,
        "candidates_kept": 0.31,
        "flagged": 0.05,
        "found_empty": 0.6,
    }
    return Calibration(**{**parts, **changes})


@pytest.mark.parametrize(
    ("per", "parts"),
    [
        (
            "query",
            [
                "new queries of the same kind as these 40,",
                "at least 90% of the",
                "Calibrate again if",
            ],
        ),
        (
            "document",
            ["candidates of the same kind as these 55", "at least 90%", "calibrate per query"],
        ),
    ],
)
def test_the_bound_says_what_it_is_for_and_what_to_do(per, parts):
    bound = calibration(per).bound
    assert all(part in bound for part in parts)


def test_sentences():
    found = calibration(notes=("few queries",))
    assert [*found.lines()] == [
        "Data: owls, first stage given, 40 queries with 55 relevant candidates, of 50 queries with "
        "1,500 candidates.",
        f"Threshold: 0.25 on the final score. Bound: {found.bound}.",
        "On the judged queries, it keeps 92.0% of the relevant candidates and 31.0% of all "
        "candidates.",
        "Nothing relevant: reported if all rerank scores are below 0.125. On held-out "
        "queries, this finds 60.0% of the lists whose relevant candidates were removed, and "
        "wrongly reports 5.0% of the complete lists.",
        "Note: few queries.",
    ]
    assert str(found) == "\n".join(found.lines())
    assert not any(
        "Nothing" in line
        for line in calibration(floor=Floor(1.0, "rerank", keep=0.9, fitted=found.fitted)).lines()
    )


def test_a_threshold_that_drops_nothing_is_named():
    *_, last = (line for line in calibration(candidates_kept=1.0).lines() if "drops" in line)
    assert last.startswith("It drops nothing there: by this score, the relevant candidates do not")
    assert "drops" not in str(calibration(candidates_kept=0.999))


@pytest.mark.parametrize(
    ("per", "count", "keep", "words"),
    [
        (
            "query",
            18,
            0.9,
            "18 queries are few, so the threshold is loose: to keep at least 90% of the relevant "
            "candidates, it may keep up to 100.0%, and with them more of the others. 39 or more "
            "would make it at most 95.0%.",
        ),
        ("query", 38, 0.9, "it may keep up to 95.1%"),
        ("query", 39, 0.9, ""),
        ("query", 100, 0.99, ""),
        ("document", 18, 0.9, "18 relevant candidates are few"),
        ("document", 18, 0.9, "up to 95.3%, and with them more of the others. 19 or more"),
        ("document", 19, 0.9, ""),
    ],
)
def test_few_queries_make_a_threshold_loose(per, count, keep, words):
    fit = Fit("lexical", per=per, queries=count, documents=count)
    found = calibration(floor=Floor(0.25, on="final", keep=keep, fitted=fit))
    assert words in str(found)
    assert ("loose" in str(found)) is bool(words)


def test_probabilities_and_their_losses():
    mapping = MappingFit(Probabilities(slope=2.0, intercept=0.5), "platt", {"platt": 0.5})
    found = calibration(mapping=mapping)
    line = (
        "Probabilities: platt. Log loss (lower is better) on held-out queries, in nats: "
        "platt 0.5000."
    )
    assert line in found.lines()
    record = json.loads(json.dumps(found.to_dict()))
    assert record["log_losses"] == {"platt": 0.5}
    assert record["probabilities"]["slope"] == 2.0
    assert found.probabilities == mapping.probabilities
    assert calibration().probabilities is calibration().to_dict()["probabilities"] is None


def test_the_configuration_is_written_with_its_evidence(tmp_path):
    path = calibration(config={"method": "lexical", "floor": 0.25}).write(tmp_path / "a.yaml")
    text = path.read_text()
    assert text.startswith("# Calibrated by secondpass")
    assert "# Data: owls" in text
    with pytest.raises(NotSerializableError, match="copy the threshold"):
        calibration().write(tmp_path / "b.yaml")
