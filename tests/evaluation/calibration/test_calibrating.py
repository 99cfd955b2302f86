"""`calibrate`, from a suite to a configuration."""

import json
from dataclasses import replace
from typing import get_args

import pytest

from fakes import ByTable
from secondpass import Candidate, ConfigurationError, Reranker
from secondpass.effects import Judgement
from secondpass.errors import InputError, NotSerializableError
from secondpass.questions import ListScores
from secondpass.ranking.blending import Blend
from secondpass.ranking.floors import Per
from secondpass_evaluation import calibrate, make_suite
from secondpass_evaluation.calibration import calibrating
from topic_suites import SUITE as TOPICS
from topic_suites import ByGrade


def suite_of(count=40, relevant=lambda number, place: place == number % 3):
    """Queries whose relevant candidates have a word of the query more often."""
    queries, qrels, candidates = {}, {}, {}
    for number in range(count):
        items, judged = [], {}
        for place in range(5):
            name = f"{number}-{place}"
            good = relevant(number, place)
            judged[name] = int(good)
            words = "owl " * (1 + number % 4 if good else 0)
            score = 20.0 + number % 7 if good else float((number * 5 + place * 3) % 19)
            items.append(Candidate(f"{score} {words}and a train", name, score=1 / (place + 1)))
        queries[str(number)], qrels[str(number)] = f"owl {number}", judged
        candidates[str(number)] = items
    return make_suite("owls", queries, qrels, candidates=candidates)


class ByNumber(ByTable):
    """Scores a text by the number that it begins with."""

    def score_pairs(self, query, documents):
        return [float(text.split()[0]) for text in documents]


SUITE = suite_of()


def test_a_threshold_that_keeps_what_it_says():
    result = calibrate(Reranker(ByNumber()), SUITE, keep=0.9)
    assert result.floor.on == "rerank"
    assert 20 <= result.floor.at <= 21
    assert (result.fitted.queries, result.fitted.documents, result.fitted.per) == (40, 40, "query")
    assert result.relevant_kept >= 0.9
    assert result.candidates_kept < 0.3
    assert 20 <= result.floor.nothing <= 21
    assert (result.flagged <= 0.1, result.found_empty) == (True, 1.0)
    assert result.config is None
    assert "depend on the whole list" not in str(result)
    json.dumps(result.to_dict())
    with pytest.raises(NotSerializableError):
        result.write("x.yaml")


def test_from_a_file_to_a_file(tmp_path):
    source, path = tmp_path / "mine.yaml", tmp_path / "calibrated.yaml"
    blend = "{original: 0.3, normalize: minmax}"
    source.write_text(f"method: lexical\nblend: {blend}\ntop_k: 1\nfallback: lexical\n")
    result = calibrate(source, SUITE, probabilities=True)
    assert result.floor.on == "rerank"
    assert any("depend on the whole list" in note for note in result.notes)
    result.write(path)
    reranker = Reranker.from_config(path)
    assert reranker.floor == result.floor
    assert reranker.probabilities == result.probabilities
    assert (reranker.top_k, len(reranker.fallback)) == (1, 1)
    assert path.read_text().startswith("# Calibrated by secondpass")
    assert "Calibrate again if" in path.read_text()
    again = calibrate(path, SUITE, keep=0.8)  # what was fitted before is replaced
    assert again.floor.keep == 0.8
    path.write_text(path.read_text().replace("top_k: 1", "depth: 7"))
    with pytest.raises(ConfigurationError, match="was fitted for depth 100, not 7"):
        Reranker.from_config(path)


def test_a_blend_that_keeps_the_scale_is_judged_by_final_scores():
    blend = Blend(0.2, "sigmoid")
    result = calibrate(Reranker(ByNumber(score_kind="logit"), blend=blend), SUITE)
    assert (result.floor.on, result.fitted.blend) == ("final", blend)


def test_lists_are_ranked_again_where_scores_depend_on_them():
    class Listwide(ByNumber):
        def score_pairs(self, query, documents):
            numbers = super().score_pairs(query, documents)
            return [number - max(numbers) for number in numbers]

    listwide = Listwide(pointwise=False)
    result = calibrate(Reranker(listwide), SUITE)
    assert (result.flagged, result.found_empty) == (0.0, 0.0)  # the best score is always 0
    assert result.floor.nothing is None
    assert any("finds only 0.0% of the lists" in note for note in result.notes)


@pytest.mark.parametrize("keep", [0.5, 0.8, 0.9])
def test_nothing_relevant_is_per_query_whatever_the_threshold_keeps(keep):
    """Most relevant candidates of each list have low scores, but one of them has a high one."""
    suite = suite_of(relevant=lambda number, place: place != 1)
    scores = {0: 20.0, 1: 3.0, 2: 1.0, 3: 1.0, 4: 0.0}

    def score_pairs(query, texts):
        return [scores[place] + float(text.split()[0]) / 100 for place, text in enumerate(texts)]

    scorer = ByNumber(score_pairs=score_pairs)
    fits = {per: calibrate(Reranker(scorer), suite, keep=keep, per=per) for per in get_args(Per)}
    query, document = fits["query"], fits["document"]
    assert (query.floor.nothing, query.flagged) == (document.floor.nothing, document.flagged)
    assert query.floor.nothing >= 20  # above it is one candidate of each list
    assert query.flagged <= 0.1
    assert query.found_empty == 1.0


def test_a_threshold_is_fitted_on_what_it_is_compared_with():
    """Not on what orders the list, so that the lists need not be ranked again."""

    class ByList(ByNumber):
        ranked, pointwise, pair_scores = 0, False, True

        def score_lists(self, requests, deadline):
            self.ranked += len(requests)
            found = [self.score_pairs(query, documents) for query, documents in requests]
            yield [ListScores(numbers, order_scores=[-n for n in numbers]) for numbers in found]

    scorer = ByList()
    result = calibrate(Reranker(scorer), SUITE)
    plain = calibrate(Reranker(ByNumber()), SUITE)
    assert scorer.ranked == len(SUITE.queries)
    assert (result.floor.on, result.floor.at) == ("rerank", plain.floor.at)
    assert (result.floor.nothing, result.found_empty) == (plain.floor.nothing, plain.found_empty)


@pytest.mark.parametrize(
    ("suite", "options", "message"),
    [
        (suite_of(8), {}, "takes at least 9 queries with a relevant candidate; there are 8"),
        (suite_of(8), {"per": "document", "keep": 0.95}, "takes at least 19 relevant candidates"),
        (suite_of(relevant=lambda *_: True), {}, "all candidates are relevant"),
        (SUITE, {"relevant": 2}, "no query has a relevant candidate with a score"),
        (SUITE, {"keep": 1.0}, "keep: must be above 0 and below 1, not 1.0"),
    ],
    ids=["queries", "documents", "one class", "none relevant", "keep"],
)
def test_what_does_not_suffice(suite, options, message):
    with pytest.raises(InputError, match=message):
        calibrate(Reranker(ByNumber()), suite, **options)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"score_kind": "rank"}, "are ranks, which say nothing about relevance as such"),
        ({"score_pairs": lambda _query, texts: [1.0] * len(texts)}, "all scores are equal"),
    ],
    ids=["ranks", "constant"],
)
def test_scores_without_a_threshold(members, message):
    with pytest.raises(InputError, match=message):
        calibrate(Reranker(ByNumber(**members)), SUITE)


def test_few_queries_say_nothing_of_empty_lists():
    result = calibrate(Reranker(ByNumber()), suite_of(12))
    assert (result.flagged, result.floor.nothing) == (None, None)
    assert any("too few queries to say" in note for note in result.notes)


class OfAnotherKind:
    """Its scores turn out to be of another kind than it states."""

    name, score_kind, scale = "other", "similarity", None

    def judge(self, task):
        return Judgement([float(text.split()[0]) for text in task.texts], score_kind="logit")
        yield


def test_scores_that_no_threshold_would_be_applied_to():
    message = (
        r"no query has candidates with scores; without scores, left out: 40 of 40 queries "
        r"\(status unchanged: 40, issue \w+: 40\)"
    )
    with pytest.raises(InputError, match=message):
        calibrate(Reranker(OfAnotherKind()), SUITE)


def test_only_lists_with_a_relevant_candidate_are_ranked_again():
    done = []
    suite = replace(SUITE, qrels={q: j if int(q) < 30 else {} for q, j in SUITE.qrels.items()})
    calibrate({"method": "lexical"}, suite, progress=lambda *state: done.append(state))
    assert (len(done), done[-1][1:]) == (70, (30, 30))


def test_only_the_first_stage_that_is_used_searches():
    labels = set()
    calibrate(Reranker(ByGrade()), TOPICS, keep=0.5, progress=lambda name, *_: labels.add(name))
    assert labels == {"Encoding the corpus", "hybrid", "hybrid+rerank"}


@pytest.mark.parametrize(
    ("given", "depth", "noted"), [(3, 2, True), (None, 5, True), (5, 5, False)]
)
def test_lists_that_are_shorter_than_the_depth(given, depth, noted):
    result = calibrate(Reranker(ByNumber(), depth=given), SUITE, depth=depth)
    assert any("candidates at most" in note for note in result.notes) is noted


def test_a_configuration_that_was_tuned_is_warned_of(tmp_path):
    path = tmp_path / "tuned.yaml"
    path.write_text("# Written by secondpass tune, 2026-11-25.\nmethod: lexical\n")
    assert "tuned.yaml was chosen by tuning" in str(calibrate(path, SUITE))
    path.write_text("method: lexical\n")
    assert "chosen by tuning" not in str(calibrate(path, SUITE))


def test_the_threshold_of_a_preset_is_not_kept(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("preset: blended_scores\ndepth: 5\n")
    for spec in ("blended_scores", str(path)):
        config, reranker = calibrating._load(spec)
        assert ("floor" in config, reranker.floor) == (False, None)
