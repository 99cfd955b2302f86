"""The settings of an object are fixed, and `changed` makes what the constructor would."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from secondpass import ConfigurationError, Reranker
from secondpass.settings import parameters_of

TEXTS = ["a red fox", "the fox", "foxes", "no"]

SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "depth": st.sampled_from([1, 2, None]),
        "top_k": st.sampled_from([1, 3, None]),
        "candidate_multiplier": st.sampled_from([None, 2]),
        "tail": st.sampled_from(["keep", "drop"]),
        "dedupe": st.booleans(),
        "strict": st.booleans(),
        "log_level": st.sampled_from(["debug", "error"]),
        "floor": st.sampled_from([None, 0.5, {"at": 0.5}, 100]),
        "blend": st.sampled_from([None, {"original": 0.2, "normalize": "minmax"}]),
        "orders": st.sampled_from([{"a": "lost_in_the_middle"}, {"a": "diverse", "b": None}]),
        "order": st.sampled_from([None, "lost_in_the_middle", "none"]),
        "limits": st.sampled_from([None, {"deadline": 9.0}, {"concurrency": 2}]),
        "render": st.sampled_from([None, {"prefix": "p"}]),
        "passages": st.sampled_from([None, {"size": 50}]),
        "when": st.sampled_from([None, {"words": {"below": 3}}]),
    },
)
OTHERS = st.sampled_from(
    [
        *({"depth": 0}, {"top_k": "1"}, {"tail": "Keep"}, {"floor": "low"}, {"depht": 3}),
        *({"blend": {"original": 2}}, {"limits": {"deadline": -1}}, {"order": "b"}, {"order": "a"}),
        *({"order": "a", "orders": None}, {"render": {"fields": []}}, {"when": {}}, {"cache": "x"}),
        *({"limits": {"cost": 1}}, {"probabilities": {}}),
    ]
)
CHANGES = SETTINGS | st.tuples(SETTINGS, OTHERS).map(lambda pair: {**pair[0], **pair[1]})


def outcome(make):
    """The configuration of what is made and its ranking, or the problems."""
    try:
        reranker = make()
    except ConfigurationError as error:
        return sorted(map(str, error.problems))
    ranking = reranker.rerank("fox", TEXTS)
    return reranker.to_config(), ranking.order, ranking.report.left_out, ranking.report.status


@examples(100)
@given(SETTINGS, CHANGES)
def test_changed_makes_what_the_constructor_would(before, settings):
    reranker = Reranker("lexical", **before)
    as_it_was = outcome(lambda: reranker)
    expected = outcome(lambda: Reranker("lexical", **{**before, **settings}))
    assert outcome(lambda: reranker.changed(**settings)) == expected
    for copied in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        assert outcome(lambda: copied(reranker)) == as_it_was  # noqa: B023  # called at once
    assert outcome(lambda: reranker) == as_it_was


@examples(25)
@given(SETTINGS, st.sampled_from(sorted(parameters_of(Reranker))), st.sampled_from([None, 0, "x"]))
def test_no_setting_of_a_reranker_can_be_set(before, name, value):
    reranker = Reranker("lexical", **before)
    as_it_was = outcome(lambda: reranker)
    for one in (reranker, copy.copy(reranker), reranker.changed(top_k=2)):
        with pytest.raises(AttributeError, match=f"^{name} cannot be changed after construction; "):
            setattr(one, name, value)
        with pytest.raises(AttributeError, match=f"^{name} cannot be changed"):
            delattr(one, name)
    if reranker.orders:
        with pytest.raises(TypeError):
            reranker.orders["c"] = "none"
    assert outcome(lambda: reranker) == as_it_was
