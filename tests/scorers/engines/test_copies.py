from secondpass.scorers.engines.copies import distinct


def test_indices_of_each_passage():
    requests = [("q", ["b", "a", "b"]), ("r", []), ("q", ["a"])]
    found = distinct(requests)
    assert found == [("q", {"b": [0, 2], "a": [1]}), ("r", {}), ("q", {"a": [0]})]
    assert [*found[0][1]] == ["b", "a"]  # in order
    assert distinct([]) == []
