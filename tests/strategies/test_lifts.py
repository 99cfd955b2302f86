"""Orders in which nothing is lifted too far."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from secondpass.strategies.lifts import bounded_order

ORDERS = st.integers(0, 6).flatmap(lambda count: st.permutations(range(count)))


@given(ORDERS, st.randoms(), st.integers(0, 6), st.sets(st.integers(0, 5)))
def test_the_first_by_preference_of_all_that_keep_the_bound(preferred, random, lift, free):
    anchor = [*preferred]
    random.shuffle(anchor)
    places = {index: place for place, index in enumerate(anchor)}

    def allowed(order):
        return all(
            index in free or place >= places[index] - lift for place, index in enumerate(order)
        )

    # Permutations come in the order of the places that their first elements have in `preferred`.
    expected = next(filter(allowed, permutations(preferred)))
    assert bounded_order(preferred, places, lift, free) == [*expected]
