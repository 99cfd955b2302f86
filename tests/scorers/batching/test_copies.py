from secondpass.questions import RenderedText
from secondpass.scorers.batching.copies import distinct


def test_indices_of_each_passage():
    requests = [("q", ["b", "a", "b"]), ("r", []), ("q", ["a"])]
    assert distinct(requests) == [
        ("q", ["b", "a"], [[0, 2], [1]]),
        ("r", [], []),
        ("q", ["a"], [[0]]),
    ]
    assert distinct([]) == []


def test_a_passage_is_no_copy_of_what_the_configuration_wrote():
    texts = [RenderedText("[SEP] a", ((0, 5),)), "[SEP] a", RenderedText("[SEP] a", ((0, 5),))]
    assert distinct([("q", texts)]) == [("q", texts[:2], [[0, 2], [1]])]
