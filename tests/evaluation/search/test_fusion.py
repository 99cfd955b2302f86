import pytest

from secondpass import Candidate, InputError
from secondpass_evaluation.search.fusion import reciprocal_rank_fusion, weighted_score_fusion


def listed(names, scores=None, **metadata):
    scores = scores or [None] * len(names)
    return [
        Candidate(f"text of {name}", id=name, score=score, metadata=dict(metadata))
        for name, score in zip(names, scores, strict=True)
    ]


def fused(candidates):
    return [(candidate.id, candidate.score) for candidate in candidates]


def test_reciprocal_ranks_by_hand():
    lists = [listed("abc"), listed("ca"), []]
    assert fused(reciprocal_rank_fusion(lists)) == [
        ("a", 1 / 61 + 1 / 62),
        ("c", 1 / 63 + 1 / 61),
        ("b", 1 / 62),
    ]
    assert fused(reciprocal_rank_fusion(lists, rrf_k=0, weights=[1, 3, 1])) == [
        ("c", 1 / 3 + 3.0),
        ("a", 1 + 3 / 2),
        ("b", 1 / 2),
    ]


def test_weighted_scores_by_hand():
    lists = [listed("abc", [10, 5, 0]), listed("cd", [2, 1])]
    assert fused(weighted_score_fusion(lists)) == [("a", 1.0), ("c", 1.0), ("b", 0.5), ("d", 0.0)]
    assert fused(weighted_score_fusion(lists, weights=[0.5, 2])) == [
        ("c", 2.0),
        ("a", 0.5),
        ("b", 0.25),
        ("d", 0.0),
    ]
    assert fused(weighted_score_fusion(lists, normalize="none"))[0] == ("a", 10.0)
    assert fused(weighted_score_fusion(lists, normalize="zscore"))[0][0] == "a"


@pytest.mark.parametrize("normalize", ["minmax", "zscore"])
def test_distances_are_fused_by_ranks(normalize):
    distances = [listed("abc", [0.1, 0.4, 0.9]), listed("cd", [2, 1])]
    ranks = [listed("abc", [3, 2, 1]), listed("cd", [2, 1])]
    found = fused(weighted_score_fusion(distances, normalize=normalize))
    wanted = fused(weighted_score_fusion(ranks, normalize=normalize))
    assert [name for name, _ in found] == [name for name, _ in wanted]
    assert [score for _, score in found] == pytest.approx([score for _, score in wanted])


def test_a_document_keeps_its_first_text_and_all_its_metadata():
    lists = [listed("a", source="x", zero=0), listed("a", source="y", more=None)]
    (only,) = reciprocal_rank_fusion(lists)
    assert only.metadata == {"source": "x", "zero": 0, "more": None}
    assert lists[0][0].metadata == {"source": "x", "zero": 0}


def test_a_list_that_repeats_an_id_speaks_for_it_once_by_its_best_score():
    best = weighted_score_fusion([listed("aba", [3, 2, 4])], normalize="none")
    assert fused(best) == [("a", 4.0), ("b", 2.0)]
    assert fused(reciprocal_rank_fusion([listed("aba")])) == [("a", 1 / 61), ("b", 1 / 62)]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: reciprocal_rank_fusion([["no id"]]), r"lists\[0\]\[0\].id: fusion needs an id"),
        (lambda: reciprocal_rank_fusion([[], "text"]), r"lists\[1\]: candidates: give a sequence"),
        (lambda: reciprocal_rank_fusion([], rrf_k=-1), "rrf_k: must be a number, 0 or more"),
        (lambda: reciprocal_rank_fusion([], rrf_k="a"), "rrf_k: must be a number, 0 or more"),  # type: ignore[arg-type]
        (lambda: reciprocal_rank_fusion([], rrf_k=float("inf")), "rrf_k: must be a number"),
        (lambda: reciprocal_rank_fusion(None), "lists: give a sequence of result lists"),  # type: ignore[arg-type]
        (lambda: reciprocal_rank_fusion([[]], weights=["x"]), r"weights\[0\]: must be finite"),  # type: ignore[list-item]
        (lambda: reciprocal_rank_fusion([[]], weights=[1, 2]), "weights: 1 lists need as many"),
        (lambda: reciprocal_rank_fusion([[]], weights=[-1]), r"weights\[0\]: must be finite"),
        (lambda: weighted_score_fusion([listed("a")]), r"lists\[0\]\[0\].score: a finite number"),
        (
            lambda: weighted_score_fusion([[], listed("abc", [1, 2, 3])], normalize="none"),
            r"lists\[1\]: scores rise along the list, so they are distances",
        ),
        (lambda: weighted_score_fusion([], normalize="rrf"), "normalize: must be none, minmax"),  # type: ignore[arg-type]
    ],
)
def test_wrong_input(call, told):
    with pytest.raises(InputError, match=told):
        call()
