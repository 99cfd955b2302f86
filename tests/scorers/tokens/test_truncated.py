from secondpass.questions import RenderedText
from secondpass.scorers.tokens.truncated import TruncatedPairs, TruncatedTexts


def test_pairs():
    pairs = TruncatedPairs()
    assert pairs.passages("q", ["a", "b"]) == []
    pairs.add("q", passages=["b", "c"], beside=["c", "d"])
    pairs.add("r", passages=["a"], beside=[])
    assert pairs.passages("q", ["a", "b", "c", "b", "d"]) == [1, 2, 3]
    assert pairs.queries("q", ["a", "b", "c", "b", "d"]) == [2, 4]
    assert pairs.passages("r", ["a", "b"]) == [0]
    assert pairs.queries("r", ["a", "b"]) == []
    assert pairs.passages("q", [RenderedText("b", ((0, 1),))]) == []


def test_texts_that_are_read_alone():
    texts = TruncatedTexts()
    assert texts.queries("q", ["a"]) == []
    texts.add_passage("b")
    texts.add_query("q")
    for query in ("q", "r"):
        assert texts.passages(query, ["a", "b"]) == [1]
    assert texts.queries("q", ["a", "b"]) == [0, 1]
    assert texts.queries("b", ["a", "q"]) == []
