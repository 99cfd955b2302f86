"""Whole comparisons of rerankers that judged nothing or only by a fallback, and of few queries."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fakes import ByTable
from secondpass import Candidate, Reranker
from secondpass.ranking.result import Ranking
from secondpass.types import Report
from secondpass_evaluation import compare
from secondpass_evaluation.report import svg
from secondpass_evaluation.report.verdict import verdict
from secondpass_evaluation.reranking import judged_nothing
from topic_suites import CANDIDATES, SUITE, failing, suite_of

DOWN = ByTable(score_pairs=failing(RuntimeError("secret")))


def test_a_model_that_is_not_loaded_is_logged_by_its_rankings_alone(tmp_path, caplog):
    missing = str(tmp_path / "none")
    method = {"type": "cross_encoder", "model": missing}
    compare({"a": {"method": method, "fallback": ["lexical"]}}, SUITE, first_stages=["lexical"])
    assert f"model_not_loaded: the model '{missing}' cannot be loaded" in caplog.text
    assert "warming up" not in caplog.text


@pytest.mark.parametrize("strict", [False, True])
def test_judges_nothing(tmp_path, monkeypatch, strict) -> None:
    monkeypatch.setattr(svg, "available", lambda: False)
    down = Reranker(DOWN, strict=strict)
    found = compare({"down": down, "up": Reranker(ByTable())}, SUITE, first_stages=["lexical"])
    result = found["lexical+down"]
    assert result.status == "not_measured"
    assert result.reason == (
        "nothing was judged: 6 of 6 rankings are unchanged; issues: scorer_raised (6)"
    )
    assert (result.statuses, result.failure_rate) == ({"unchanged": 6}, 1.0)
    assert result.issues == {"scorer_raised": 6}
    assert (result.evaluation, result.run, result.differences) == (None, {}, {})
    assert result.cost.pairs == 24
    assert [one.name for one in found.ran] == ["lexical", "lexical+up"]
    assert found.not_measured == (result,)
    assert found.baseline == "lexical"

    # It is one comparison, so nothing is corrected.
    difference = found["lexical+up"].differences["nDCG@10"]
    assert difference.corrected_p == difference.p

    verdict_ = verdict(found)
    assert verdict_.best.name == "lexical+up"
    assert "lexical+down is not measured: nothing was judged: 6 of 6" in verdict_.because

    written = found.to_dict()["systems"][1]
    assert written["status"] == "not_measured"
    assert written["statuses"] == {"unchanged": 6}
    assert not {"means", "per_query", "differences"} & written.keys()

    section = found.to_markdown().split("## Not measured")[1]
    assert "| lexical+down | nothing was judged: 6 of 6 rankings" in section
    assert "2 systems measured, 1 not measured, 0 not run" in found.to_html()

    found.write(tmp_path)
    assert "down" not in (tmp_path / "per_query.csv").read_text()
    runs = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert runs == ["lexical+up.trec", "lexical.trec"]


@pytest.mark.parametrize("spare", ["lexical", "embedded"])
def test_figures_of_a_fallback_are_named_so_first(tmp_path, spare) -> None:
    missing = str(tmp_path / "none")
    away = {"method": {"type": "cross_encoder", "model": missing}, "fallback": [spare]}
    found = compare({"away": away}, SUITE, first_stages=["lexical"])
    (fallback,) = found["lexical+away"].fallbacks
    sentence = (
        f"lexical+away was not measured: the model {missing} could not be loaded. The figures are "
        f"of the fallback {fallback}."
    )
    outcome = verdict(found)
    assert outcome.answer == sentence
    assert outcome.because.startswith("With its fallback, lexical+away has nDCG@10 ")
    assert "improve" not in outcome.because
    assert 'class="verdict pays"' not in found.to_html()

    both = compare({"away": away, "up": Reranker(ByTable())}, SUITE, first_stages=["lexical"])
    outcome = verdict(both)
    assert outcome.best.name == "lexical+up"
    assert sentence in outcome.because
    assert sentence not in outcome.answer


def test_what_else_fails_on_every_query_is_named_by_its_issues() -> None:
    down = Reranker(DOWN, fallback=["lexical"])
    found = compare({"down": down}, SUITE, first_stages=["lexical"])
    reason = found["lexical+down"].reason
    assert reason.endswith("never ran (issues: scorer_raised (6))")


def test_no_baseline() -> None:
    rerankers = {"down": Reranker(DOWN), "up": Reranker(ByTable())}
    found = compare(rerankers, SUITE, first_stages=["lexical"], baseline="lexical+down")
    assert found.baseline is None
    assert "lexical+down is not measured, so nothing is compared with it" in found.notes
    assert not any(result.differences for result in found.results)


def test_empty_rankings_are_no_evidence() -> None:
    # Without candidates a ranking is ok, whatever the state of the method.
    suite = suite_of(candidates={**CANDIDATES, "q-owls": []})
    found = compare({"down": Reranker(DOWN), "up": Reranker(ByTable())}, suite)
    down = found["given+down"]
    assert (down.status, down.statuses) == ("not_measured", {"unchanged": 5, "ok": 1})
    assert down.reason.startswith("nothing was judged: 5 of 6 rankings are unchanged")
    assert found["given+up"].status == "ran"


def test_single_candidates_are_no_evidence() -> None:
    reports = [Report("ok"), Report("unchanged")]
    item = Reranker(ByTable()).rerank("q", [Candidate("x", "a")])[0]
    alone = (replace(item, status="tail", rerank_score=None),)
    rankings = [Ranking("q", alone, report) for report in reports]
    assert judged_nothing(rankings, {}) == "nothing was judged: 1 of 2 rankings are unchanged"
    assert not judged_nothing(rankings[:1], {})  # nothing failed
    dropped = Ranking("q", (), Report("ok", left_out={"floor": (0,)}))
    assert not judged_nothing([*rankings, dropped], {})
    partial = Ranking("q", alone, Report("partial"))
    assert not judged_nothing([*rankings, partial], {})


def test_fallbacks_are_counted() -> None:
    def fails_for(*failing_queries: str):
        def score(query: str, documents: Sequence[str]) -> list[float]:
            if query in failing_queries:
                raise RuntimeError
            return [float(len(text)) for text in documents]

        return score

    first, second, *_ = SUITE.queries.values()
    half = Reranker(
        ByTable(score_pairs=fails_for(first, second)),
        fallback=[ByTable(model_name="spare", score_pairs=fails_for(second))],
    )
    result = compare({"half": half}, SUITE, first_stages=["lexical"])["lexical+half"]
    assert result.statuses == {"ok": 4, "degraded": 1, "unchanged": 1}
    assert result.degraded_by == {"fallback": 1}
    (fallback,) = result.fallbacks
    assert "spare" in fallback
    assert result.record()["fallbacks"] == {fallback: 1}
