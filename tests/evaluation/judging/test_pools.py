"""Which queries are judged."""

from hypothesis import given
from hypothesis import strategies as st

from secondpass_evaluation.judging.pools import sampled

QUERIES = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=8)


@given(QUERIES, st.integers(0, 9), st.integers(0, 3))
def test_a_smaller_sample_begins_a_larger_one(queries, count, seed):
    whole = sampled(queries, None, seed)
    assert whole == queries
    assert [*sampled(queries, count, seed).items()] == [*whole.items()][:count]


@given(QUERIES, QUERIES, st.integers(0, 3))
def test_queries_that_are_added_change_no_order(queries, more, seed):
    both = {**more, **queries}
    order = [query for query in sampled(both, None, seed) if query in queries]
    assert order == [*sampled(queries, None, seed)]
    assert [*sampled(dict(reversed(both.items())), None, seed)] == [*sampled(both, None, seed)]


def test_another_seed_is_another_order():
    queries = {str(number): "owl" for number in range(9)}
    assert len({tuple(sampled(queries, None, seed)) for seed in range(5)}) == 5
