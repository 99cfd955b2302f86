"""What a fit is bound to."""

import pytest

from fakes import ByTable
from remembered_model import remember
from secondpass import ConfigurationError, Reranker
from secondpass.ranking.fits import doubts, precision_of
from secondpass.ranking.floors import Fit, Floor
from secondpass.types import EngineInfo
from secondpass_evaluation.calibration.calibrating import fingerprint

BASE = {"method": {"type": "lexical", "k1": 1.2}, "depth": 50}


def fitted(config, **changes):
    reranker = Reranker.from_config(config)
    return Fit(**{**fingerprint(reranker, "hybrid"), **changes})


def with_fit(config, fit, **changes):
    floor = {"at": 1.0, "keep": 0.9, "fitted": fit}
    return Reranker.from_config({**config, "floor": floor, **changes})


def test_the_same_reranker_is_accepted_and_saved():
    fit = fitted(BASE)
    assert (fit.method, fit.depth, fit.first_stage) == ("lexical", 50, "hybrid")
    reranker = with_fit(BASE, fit)
    again = Reranker.from_config(reranker.to_config())
    assert again.floor == Floor(1.0, keep=0.9, fitted=fit)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"method": {"type": "lexical", "k1": 1.3}}, "settings"),
        ({"depth": 40}, "depth"),
        ({"depth": None}, "depth"),
        ({"render": {"fields": ["title?", "text"]}}, "template"),
        ({"passages": {"size": 200}}, "settings"),
        ({"method": {"type": "embedded"}}, "method"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_another_reranker_is_refused(changes, part):
    with pytest.raises(ConfigurationError) as caught:
        with_fit(BASE, fitted(BASE), **changes)
    assert f"floor.fitted.{part}: was fitted for" in str(caught.value)
    assert "fit it again, or remove 'fitted'" in str(caught.value)


def test_settings_that_change_no_score_are_free():
    with_fit(BASE, fitted(BASE), top_k=3, dedupe=True, strict=True)
    base = {"method": {"type": "embedded", "memory_mb": 9, "threads": 1}}
    with_fit({"method": {"type": "embedded"}}, fitted(base))


def test_the_blend_binds_final_scores_only():
    blend = {"original": 0.5, "normalize": "minmax"}
    fit = fitted({**BASE, "blend": blend}, blend=None)
    floor = {"at": 1.0, "on": "rerank", "fitted": fit}
    Reranker.from_config({**BASE, "blend": blend, "floor": floor})
    with pytest.raises(ConfigurationError, match="another blend of the final scores"):
        with_fit(BASE, fitted({**BASE, "blend": blend}))


@pytest.mark.parametrize(
    ("method", "part"),
    [
        ({"prompt": {"criteria": ["recent"]}}, "template"),
        ({"options": {"seed": 3}}, "settings"),
        ({"context_window": 4096}, "settings"),
        ({"structured": "text"}, "settings"),
        ({"structured": "auto"}, None),
        ({"max_tokens": 800}, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_language_models(method, part, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "unused")

    def config(model="small", **settings):
        of_model = {"timeout", "options", "context_window", "structured", "max_tokens"}
        llm = {"type": "openai", "model": model, "api_key_env": "OPENAI_API_KEY"}
        llm |= {name: settings.pop(name) for name in of_model & settings.keys()}
        return {"method": {"type": "graded", "llm": llm, **settings}}

    fit = fitted(config())
    assert fit.model == "small"
    if part is None:
        with_fit(config(**method), fit)
        return
    with pytest.raises(ConfigurationError) as caught:
        with_fit(config(**method), fit)
    assert f"floor.fitted.{part}: " in str(caught.value)


def test_fallbacks_are_checked_as_well():
    fallback = {"type": "lexical", "k1": 2.0, "floor": {"at": 1.0, "fitted": fitted(BASE)}}
    with pytest.raises(ConfigurationError, match=r"fallback\[0\].floor.fitted.settings"):
        Reranker.from_config({**BASE, "fallback": [fallback]})


def test_probabilities_are_checked_as_well():
    mapping = {"slope": 1.0, "intercept": 0.0, "fitted": fitted(BASE)}
    Reranker.from_config({**BASE, "probabilities": mapping})
    with pytest.raises(ConfigurationError, match=r"probabilities.fitted.depth"):
        Reranker.from_config({**BASE, "depth": 9, "probabilities": mapping})


def test_a_threshold_at_the_depth_of_a_skipped_query():
    when = {"words": {"at_least": 2}, "depth": 1}
    reranker = with_fit(BASE, fitted(BASE), when=when, log_level="error")
    assert reranker.rerank("two words", ["two", "b"]).report.issues == ()
    (issue,) = reranker.rerank("two", ["two", "b"]).report.issues
    assert issue.message == "was fitted for depth 50, not 1"


def test_methods_without_a_registered_name_are_known_by_name():
    parts = fingerprint(Reranker(ByTable()))
    assert (parts["method"], parts["settings"], parts["template"]) == ("by-table", None, None)
    floor = Floor(1.0, fitted=Fit(**parts))
    assert Reranker(ByTable(), floor=floor).floor == floor
    with pytest.raises(ConfigurationError, match=r"floor.fitted.method: was fitted for 'by-table'"):
        Reranker("lexical", floor=floor)


@pytest.mark.parametrize(("precision", "known"), [("float32", False), ("bfloat16", True)])
def test_precision(precision, known):
    reranker = Reranker(
        ByTable(), floor=Floor(0.0, fitted=Fit("by-table", precision="float32", depth=100))
    )
    engines = [EngineInfo("by-table", "onnx", precision, 1, "none", "it is there")]
    assert precision_of(reranker.method, engines) == precision
    doubt = doubts(reranker._stages[0], 100, None, engines)
    assert doubt == ("was fitted for precision float32, not bfloat16" if known else None)
    assert doubts(reranker._stages[0], 100, None, []) is None


def test_precision_is_that_of_the_rankings(monkeypatch):
    remember(monkeypatch)
    reranker = Reranker.from_preset("embedded")
    assert fingerprint(reranker)["precision"] is None
    ranking = reranker.rerank("owl", ["an owl", "a train"])
    assert fingerprint(reranker, rankings=[ranking, ranking])["precision"]
