"""Which configurations score all candidates of a list without an order."""

import pytest

from secondpass import Reranker
from secondpass.adapters.depths import scoring_all
from secondpass.asking.life_cycle import asks_service
from secondpass.config import load, preset, preset_names

LOCAL = {
    *("accurate_local", "accurate_multilingual", "cross_encoder_hybrid", "default", "embedded"),
    *("lexical", "multilingual", "multilingual_hub"),
}
"""Presets without a deadline, of which no method asks a service."""


@pytest.mark.parametrize("name", preset_names())
def test_presets(name, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    config = preset(name)
    assert scoring_all(config) == ({**config, "depth": None} if name in LOCAL else config)


def test_local_presets_are_those_that_ask_no_service():
    assert not any(asks_service(load(preset(name)).method) for name in ("lexical", "embedded"))
    assert Reranker.from_config(scoring_all({"method": "lexical"})).depth is None


@pytest.mark.parametrize("timed", [{"limits": {"deadline": 1}}, {"strict": True}])
def test_a_depth_that_was_chosen_for_a_time_stays(timed):
    config = {"method": "lexical", "depth": 9, **timed}
    assert scoring_all(config) == config


def test_a_scorer_that_is_not_built_in_may_ask_a_service():
    assert asks_service(Reranker(Own()).method)


class Own:
    def score_pairs(self, query, documents):
        return [0.0] * len(documents)


def test_a_wrong_configuration_is_as_it_was():
    assert scoring_all({"method": "lexcal"}) == {"method": "lexcal"}
