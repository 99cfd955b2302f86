"""The means of smaller depths are those that a reranker of that depth has."""

import pytest

from secondpass import Candidate, Reranker
from secondpass.ranking.blending import Blend
from secondpass_evaluation import compare, make_suite

COUNT = 30
LISTS = {
    f"q{number}": [
        Candidate(f"{(place * 7 + number) % 31} x", f"d{place}", score=1 - place / COUNT)
        for place in range(COUNT)
    ]
    for number in range(8)
}
SUITE = make_suite(
    "s",
    {query: f"text {query}" for query in LISTS},
    {query: {f"d{3 * number}": 1} for number, query in enumerate(LISTS)},
    candidates=LISTS,
)


class ByNumber:
    """Scores a passage by the number that it begins with."""

    model_name = "numbers"

    def __init__(self, pointwise=True):
        self.pointwise = pointwise

    def score_pairs(self, query, documents):
        return [float(text.split()[0]) for text in documents]


def result(scorer, **settings):
    return compare({"x": Reranker(scorer, **settings)}, SUITE, progress=False)["given+x"]


@pytest.mark.parametrize("blend", [None, Blend(0.3, "minmax"), Blend(0.5, "rrf")])
@pytest.mark.parametrize("depth", [None, 25])
def test_computed_as_measured(blend, depth):
    found = result(ByNumber(), blend=blend, depth=depth)
    assert [*found.depths] == [10, 20, depth or COUNT]
    for each, mean in found.depths.items():
        measured = result(ByNumber(), blend=blend, depth=each).evaluation.mean["nDCG@10"]
        assert mean == pytest.approx(measured)


@pytest.mark.parametrize(
    ("pointwise", "settings"),
    [(False, {}), (True, {"depth": 10}), (True, {"top_k": 5}), (True, {"floor": 9.0})],
    ids=["scores of lists", "no smaller depth", "top_k", "floor"],
)
def test_nothing_is_said_where_it_cannot_be_computed(pointwise, settings):
    assert result(ByNumber(pointwise), **settings).depths == {}
