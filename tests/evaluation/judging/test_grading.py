"""The reranker that asks a language model for grades."""

import pytest

from fakes import Model
from secondpass import ConfigurationError, Reranker
from secondpass.strategies.graded import Graded
from secondpass_evaluation.judging.grading import GRADES, grading_reranker

LLM = {"type": "openai", "model": "m", "api_key": "k", "base_url": "http://127.0.0.1:9"}
OTHER = {**LLM, "model": "other"}


@pytest.mark.parametrize(
    ("grader", "name", "owned"),
    [
        (LLM, "m", True),
        ({"method": {"type": "listwise", "llm": LLM}}, "m", True),
        ({"method": {"type": "cascade", "stages": [
            {"type": "listwise", "llm": OTHER}, {"type": "graded", "llm": LLM}]}}, "m", True),
    ],
    ids=["language model", "configuration", "cascade"],
)  # fmt: skip
def test_the_language_model_of_a_configuration_is_asked(grader, name, owned):
    reranker, llm, is_owned = grading_reranker(grader)
    assert (llm.model, is_owned) == (name, owned)
    reranker.close()


def test_objects_stay_their_owners():
    model = Model()
    for grader in (model, Reranker({"type": "listwise", "llm": model}), lambda messages: "{}"):
        assert not grading_reranker(grader)[2]


def test_every_candidate_gets_a_whole_grade():
    model = Model()
    reranker, *_ = grading_reranker(model, batch_size=2)
    assert isinstance(reranker.method, Graded)
    assert (reranker.depth, reranker.method.batch_size) == (None, 2)
    reranker.rerank("wombats", ["1 wombat", "3 wombats", "2 wombats"])
    first, _ = model.prompts
    text = first.system + first.turns[0].text
    for grade, meaning in GRADES.items():
        assert f"{grade}: it {meaning}." in text


def test_limits_and_rendering_of_a_reranker_are_taken():
    own = Reranker({"type": "listwise", "llm": Model()}, limits={"calls": 3})
    reranker, *_ = grading_reranker(own)
    assert (reranker.limits, reranker.render) == (own.limits, own.render)


@pytest.mark.parametrize("grader", ["lexical", {"method": "lexical"}])
def test_without_a_language_model(grader):
    with pytest.raises(ConfigurationError, match="lexical asks no language model"):
        grading_reranker(grader)
