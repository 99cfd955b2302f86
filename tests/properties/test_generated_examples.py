"""Generated examples are the same in every run of `make test`, and new in `make test-long`."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st


def drawn(profile):
    seen = []

    @settings(
        settings.get_profile(profile), max_examples=50, database=None, phases=[Phase.generate]
    )
    @given(st.integers())
    def draw(number):
        seen.append(number)

    draw()
    return seen


@pytest.mark.parametrize(("profile", "is_same"), [("default", True), ("long", False)])
def test_examples_of_two_runs(profile, is_same):
    assert (drawn(profile) == drawn(profile)) is is_same
