import random
import warnings

import pytest

from secondpass import Candidate, InputError
from secondpass_evaluation.search.fusion import reciprocal_rank_fusion


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
    assert fused(reciprocal_rank_fusion(lists, rrf_k=0)) == [
        ("a", 1 + 1 / 2),
        ("c", 1 / 3 + 1),
        ("b", 1 / 2),
    ]


def test_a_document_keeps_its_first_text_and_all_its_metadata():
    lists = [listed("a", source="x", zero=0), listed("a", source="y", more=None)]
    (only,) = reciprocal_rank_fusion(lists)
    assert only.metadata == {"source": "x", "zero": 0, "more": None}
    assert lists[0][0].metadata == {"source": "x", "zero": 0}


def test_a_list_that_repeats_an_id_counts_once_at_its_first_rank():
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
    ],
)
def test_wrong_input(call, told):
    with pytest.raises(InputError, match=told):
        call()


@pytest.mark.long
def test_as_in_ranx():
    rng = random.Random(5)
    names = [f"d{number}" for number in range(50)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that ranx brings
        ranx = pytest.importorskip("ranx")
        for k in (1, 10, 60) * 10:
            lists = [rng.sample(names, rng.randint(1, 50)) for _ in range(3)]
            ranks = [{name: float(-rank) for rank, name in enumerate(each)} for each in lists]
            runs = [ranx.Run({"q": each}) for each in ranks]
            theirs = ranx.fuse(runs, norm=None, method="rrf", params={"k": k}).to_dict()["q"]
            ours = dict(fused(reciprocal_rank_fusion([*map(listed, lists)], rrf_k=k)))
            assert ours == pytest.approx(theirs, abs=1e-9)
