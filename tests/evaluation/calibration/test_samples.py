"""What calibration learns from, and whether a score finds lists without anything relevant."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fakes import ByTable
from sampling import examples
from secondpass import Reranker
from secondpass_evaluation.calibration.conformal import tolerance_rank
from secondpass_evaluation.calibration.samples import Sample, nothing_relevant, samples


def sample(scores, *relevant):
    flags = np.array([index in relevant for index in range(len(scores))])
    return Sample(np.array(scores, float), np.array(scores, float), flags)


def test_scores_of_rankings():
    ranking = Reranker("lexical").rerank(
        "owl", [{"id": "a", "text": "an owl"}, {"id": "b", "text": "x"}]
    )
    failed = Reranker("lexical").rerank("owl", [])
    found, notes = samples(
        {"q": ranking, "r": failed}, {"q": {"a": 2, "b": 1}, "r": {}}, {"q": "owl", "r": "cat"}, 2
    )
    assert [*found] == ["q"]
    assert found["q"].relevant.tolist() == [True, False]
    assert notes == ["without scores, left out: 1 of 2 queries (status ok: 1)"]


def test_a_note_names_why_degraded_rankings_are_left_out():
    def failing(query, texts):
        raise RuntimeError

    reranker = Reranker(ByTable(score_pairs=failing), fallback=["lexical"])
    ranking = reranker.rerank("owl", [{"id": "a", "text": "an owl"}, {"id": "b", "text": "x"}])
    assert samples({"q": ranking}, {"q": {}}, {"q": "owl"}) == ({}, [
        "with degraded rankings, left out: 1 of 1 query "
        "(status degraded by fallback: 1, issue scorer_raised: 1)"
    ])  # fmt: skip


def test_of_a_judged_file_the_best_passage_counts():
    texts = {"a.md#1": "owl x y z", "b.md#1": "sea", "a.md#2": "owl"}
    ranking = Reranker("lexical").rerank("owl", [{"id": i, "text": t} for i, t in texts.items()])
    found, _ = samples({"q": ranking}, {"q": {"a.md": 1}}, {"q": "owl"})
    assert [item.id for item in ranking] == ["a.md#2", "a.md#1", "b.md#1"]
    assert found["q"].relevant.tolist() == [True, False]
    assert found["q"].rerank.tolist() == [ranking[0].rerank_score, ranking[2].rerank_score]


def test_skipped_rankings_are_left_out_and_named():
    skipping = Reranker("lexical", when={"words": {"below": 1}})
    ranking = skipping.rerank("owl", [{"id": "a", "text": "an owl"}])
    found, notes = samples({"q": ranking}, {"q": {"a": 1}}, {"q": "owl"})
    assert found == {}
    assert notes == ["skipped by `when`, left out: 1 of 1 query; the bound is for the others"]


LISTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=20, max_size=60)


@examples(25)
@given(LISTS, st.sampled_from([0.5, 0.9, 0.95]))
def test_each_list_is_tested_by_the_threshold_of_the_others(pairs, keep):
    fit = nothing_relevant({str(n): sample(pair, 0) for n, pair in enumerate(pairs)}, keep)
    best = [float(max(pair)) for pair in pairs]
    share = max(keep, 0.9)  # never more than a tenth wrong
    rank = tolerance_rank(share, len(pairs) - 1, 0.9)
    if not rank:
        assert fit is None
        return
    others = [sorted(best[:n] + best[n + 1 :])[rank - 1] for n in range(len(pairs))]
    assert fit.threshold == sorted(best)[tolerance_rank(share, len(pairs), 0.9) - 1]
    assert fit.flagged == np.mean([max(p) < t for p, t in zip(pairs, others, strict=True)])
    assert fit.found == np.mean([p[1] < t for p, t in zip(pairs, others, strict=True)])
    assert fit.flagged <= 1 - share
    assert fit.usable is (fit.found >= 0.4)


def test_lists_without_anything_relevant_are_found_in_new_queries():
    """Also where each query has many relevant candidates, many with low scores."""

    def drawn(generator, count):
        good, other = generator.normal(3, 2, (count, 20)), generator.normal(-1, 1, (count, 20))
        return [sample([*g, *o], *range(20)) for g, o in zip(good, other, strict=True)]

    flagged, found = [], []
    for seed in range(40):
        generator = np.random.default_rng(seed)
        fit = nothing_relevant(dict(enumerate(drawn(generator, 40))), 0.9)
        new = drawn(generator, 50)
        assert fit.usable
        flagged.append(np.mean([item.rerank.max() < fit.threshold for item in new]))
        found.append(np.mean([item.rerank[20:].max() < fit.threshold for item in new]))
    assert np.mean(np.array(flagged) <= 0.12) >= 0.9  # of 50 lists
    assert np.mean(found) >= 0.9


def test_lists_that_say_nothing():
    found = {str(n): sample([n % 7 + 3.0, n % 5], 0) for n in range(23)}
    fit = nothing_relevant(found, 0.9)
    assert nothing_relevant({**found, "none": sample([1.0])}, 0.9) == fit
    assert nothing_relevant({**found, "all": sample([99.0], 0)}, 0.9).found == fit.found
    assert nothing_relevant(found, 0.9, {name: [99.0] for name in found}).found == 0
    assert nothing_relevant({name: found[name] for name in [*found][:22]}, 0.9) is None
