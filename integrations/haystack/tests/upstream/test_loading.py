"""Loading a model, and its scores."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from haystack.utils import ComponentDevice, Secret

import tiny_models
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_rankers import CROSS_ENCODER, QUERY, Call, ids, saved_and_loaded, scores, sentences
from secondpass.errors import ModelLoadError


def test_construction_reads_no_secret_and_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.delenv("NOWHERE_TOKEN", raising=False)
    secret = Secret.from_env_var("NOWHERE_TOKEN", strict=True)
    folder = tmp_path / "later"
    ranker = SecondPassRanker(CROSS_ENCODER, model=folder, token=secret, raise_on_failure=True)
    saved_and_loaded(ranker)
    with pytest.raises(ModelLoadError, match="later"):
        ranker.warm_up()
    tiny_models.write_classifier(folder)
    ranker.warm_up()
    assert call(ranker, QUERY, sentences())["report"]["status"] == "ok"


def test_a_real_model_is_warmed_up_once_and_need_not_be(model: Path, call: Call) -> None:
    warmed = SecondPassRanker(CROSS_ENCODER, model=model)
    for _ in range(2):
        warmed.warm_up()
    asyncio.run(warmed.warm_up_async())
    cold = SecondPassRanker(CROSS_ENCODER, model=model)
    first, second = call(warmed, QUERY, sentences()), call(cold, QUERY, sentences())
    assert scores(first) == scores(second)
    assert ids(first) == ids(second)
    assert len({round(score, 4) for score in scores(first)}) == 5  # it tells all texts apart
    for _ in range(2):
        warmed.close()
    assert scores(call(warmed, QUERY, sentences())) == scores(first)


def test_a_model_s_scores_are_logits_or_scaled(model: Path, call: Call) -> None:
    plain = call(SecondPassRanker(CROSS_ENCODER, model=model), QUERY, sentences())
    logits = call(
        SecondPassRanker(CROSS_ENCODER, model=model, scale_score=False), QUERY, sentences()
    )
    scaled = call(
        SecondPassRanker(CROSS_ENCODER, model=model, scale_score=True), QUERY, sentences()
    )
    assert scores(plain) == scores(logits)
    assert ids(plain) == ids(logits) == ids(scaled)
    assert scores(scaled) == pytest.approx([1 / (1 + math.exp(-score)) for score in scores(logits)])
    assert scores(scaled) != scores(logits)


def test_device_batch_size_and_path_change_no_score(model: Path, call: Call) -> None:
    plain = call(SecondPassRanker(CROSS_ENCODER, model=model), QUERY, sentences())
    other = SecondPassRanker(
        "default", model=str(model), device=ComponentDevice.from_str("cpu"), batch_size=1
    )
    result = call(saved_and_loaded(other), QUERY, sentences())
    assert ids(result) == ids(plain)
    assert scores(result) == pytest.approx(scores(plain), abs=1e-4)


def logits_by(model: Path, **model_kwargs: Any) -> list[float]:
    ranker = SecondPassRanker(CROSS_ENCODER, model=model, model_kwargs=model_kwargs)
    return sorted(scores(saved_and_loaded(ranker).run(QUERY, sentences())))


def test_dtype_in_model_kwargs_reaches_the_model(model: Path) -> None:
    given = {"dtype": torch.bfloat16}
    before = SecondPassRanker(CROSS_ENCODER, model=model, model_kwargs=given)
    result = before.run(QUERY, sentences())
    assert given == {"dtype": torch.bfloat16}
    assert sorted(scores(result)) == logits_by(model, dtype=torch.bfloat16)
    assert logits_by(model, dtype="bfloat16") != logits_by(model, dtype="float32")


def test_older_name_of_dtype_reaches_the_model(model: Path) -> None:
    assert logits_by(model, torch_dtype=torch.bfloat16) == logits_by(model, dtype=torch.bfloat16)
