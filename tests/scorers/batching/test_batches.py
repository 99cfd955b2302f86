from hypothesis import given
from hypothesis import strategies as st

from secondpass.scorers.batching.batches import by_length

LENGTHS = st.lists(st.integers(1, 600), max_size=80)


@given(LENGTHS, st.integers(1, 2048), st.integers(1, 4), st.none() | st.integers(1, 9))
def test_each_text_once_within_the_budget(lengths, budget, threads, at_most):
    batches = by_length(lengths, budget, threads=threads, at_most=at_most)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget
        assert at_most is None or len(batch) <= at_most


@given(LENGTHS)
def test_sorted_by_length(lengths):
    order = [lengths[index] for batch in by_length(lengths, 512) for index in batch]
    assert order == sorted(lengths, reverse=True)


def test_short_lists_are_split_among_threads():
    assert [len(batch) for batch in by_length([80] * 12, 1024)] == [12]
    assert [len(batch) for batch in by_length([80] * 12, 1024, threads=3)] == [4, 4, 4]
    assert [len(batch) for batch in by_length([10] * 4, 1024, threads=4)] == [4]
