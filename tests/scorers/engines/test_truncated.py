from secondpass.questions import RenderedText
from secondpass.scorers.engines.truncated import TruncatedPairs


def test_passages_of_a_query():
    pairs = TruncatedPairs()
    assert pairs.indices("q", ["a", "b"]) == []
    pairs.add("q", ["b", "c"])
    pairs.add("r", ["a"])
    assert pairs.indices("q", ["a", "b", "c", "b"]) == [1, 2, 3]
    assert pairs.indices("r", ["a", "b"]) == [0]
    assert pairs.indices("q", [RenderedText("b", ((0, 1),))]) == []
