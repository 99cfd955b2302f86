"""What is recognised in a model, what runs it and how it scores, for ``doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from statistics import pstdev
from typing import TYPE_CHECKING, Any

from secondpass.errors import ModelLoadError, SecondPassError
from secondpass.ranking.blending import sigmoid
from secondpass.scorers.families.descriptions import Family
from secondpass.scorers.families.recognition import recognise
from secondpass.scorers.hub.facts import read_facts
from secondpass.scorers.hub.model import HubModel
from secondpass.scorers.runtimes.light_files import FILES
from secondpass.scorers.torch.readouts import READ_OUTS

if TYPE_CHECKING:
    from secondpass.scorers.cross_encoder import CrossEncoderScorer

QUERY, PASSAGE = "Which fruit is rich in potassium?", "Bananas are rich in potassium."

ScoredPair = tuple[str, str, float]
"""A query, a passage, and the score that it should have."""

_EXACT, _REDUCED = 1e-3, 0.05
"""Differences from known scores: in float32, and else in standard deviations of these scores."""


def inspect_model(
    model: str,
    family: Any = None,
    against: Sequence[ScoredPair] = (),
    tolerance: float | None = None,
) -> dict[str, Any]:
    """What is recognised in a model and why, and what it scores, as JSON values.

    Args:
        model: a name or a folder.
        family: the setting; None recognises the family.
        against: pairs whose scores are known, which the model scores as well.
        tolerance: the largest difference from them at which they agree; None is 0.001 in float32,
            and 5 % of their standard deviation in other precisions.

    Returns:
        ``family``, ``title``, ``reasons``, ``read_out``, ``score_kind``, ``cut`` and ``verified``;
        if it can be loaded, the ``engine`` that ``backend: auto`` chooses and its reason,
        ``tokens`` of a sample pair and its ``score``, and what :func:`compared` returns as
        ``against``. If it is not recognised or cannot be loaded, ``refused``.
    """
    source = HubModel(model)
    try:
        offline = source.is_offline()
        with source.loading(offline):
            facts = read_facts(source, offline=offline)
            if facts is None:
                raise FileNotFoundError("config.json")
    except SecondPassError as error:
        return {"model": model, "refused": str(error)}
    result: dict[str, Any] = {"model": model, "architecture": facts.architecture}
    try:
        recognised = recognise(model, facts, family)
    except ModelLoadError as error:
        return {**result, "refused": str(error)}
    found = recognised.family
    verified = found.verified
    result |= {
        "family": recognised.name,
        "title": found.title,
        "reasons": [*recognised.reasons],
        "read_out": read_out(found),
        "score_kind": found.scale.kind,
        "cut": _cut(found),
        "verified": None if verified is None else verified.version or verified.address,
    }
    from secondpass.scorers.cross_encoder import CrossEncoderScorer

    scorer = CrossEncoderScorer(model, family=family)
    try:
        result |= _sample(scorer)
        if against:
            result["against"] = compared(scorer, against, tolerance)
    except SecondPassError as error:
        reason = str(error)
        if family is None and any(map(facts.find, FILES["openvino"])) and _runs_on_torch(model):
            reason += "; the model's weights are whole, and `backend: torch` runs them"
        result["refused"] = reason
    finally:
        scorer.close()
    return result


def _sample(scorer: CrossEncoderScorer) -> dict[str, Any]:
    """What runs a model, the tokens of a sample pair, and its score."""
    from secondpass.scorers.runtimes.light import LightModel
    from secondpass.scorers.torch.families import FamilyModel
    from secondpass.scorers.torch.pairs import TorchModel

    [score] = scorer.score_pairs(QUERY, [PASSAGE])
    pairs, engine = scorer.loaded_model, scorer.engine
    assert engine is not None
    result: dict[str, Any] = {
        "engine": {
            "backend": engine.backend,
            "precision": engine.precision,
            "reason": engine.reason,
        },
        "score": score,
        "score_kind": scorer.score_kind,
        "doubt": scorer.doubt,
    }
    if isinstance(pairs, LightModel):
        tokens: Any = pairs.tokenizer.shown(QUERY, PASSAGE)
    elif isinstance(pairs, FamilyModel):
        ids = pairs.sample_ids(QUERY, PASSAGE)
        tokens = pairs.tokenizer.convert_ids_to_tokens(ids)
    elif isinstance(pairs, TorchModel):
        for module in pairs.encoder:
            if type(module).__name__ == "LogitScore":
                result["read_out"] = _logits(module, pairs.encoder.tokenizer)
        features = pairs.encoder.preprocess([(QUERY, PASSAGE)])
        ids = features["input_ids"][0].tolist()
        tokens = pairs.encoder.tokenizer.convert_ids_to_tokens(ids)
    else:
        return result
    return {**result, "tokens": [*map(str, tokens)]}


def _runs_on_torch(model: str) -> bool:
    """Whether torch runs the model's weights, and they know the known answers."""
    from secondpass.scorers.cross_encoder import CrossEncoderScorer

    scorer = CrossEncoderScorer(model, backend="torch")
    try:
        scorer.warm_up()
        return scorer.doubt is None
    except SecondPassError:
        return False
    finally:
        scorer.close()


def compared(
    scorer: CrossEncoderScorer, pairs: Sequence[ScoredPair], tolerance: float | None = None
) -> dict[str, Any]:
    """How far a model's scores are from known ones.

    Pairs of a query are scored as one list, in their order. Known scores between 0 and 1 may be
    the sigmoid of a model's logits.

    Returns:
        ``agrees``, the number of ``pairs``, the ``largest_difference``, the ``tolerance``, the
        place of the ``pair`` with that difference, counted from 1, with its ``score`` and the
        ``known`` one; and the ``activation`` with which they were compared. What is no number is
        None.
    """
    lists: dict[str, list[int]] = {}
    for index, (query, _, _) in enumerate(pairs):
        lists.setdefault(query, []).append(index)
    requests = [(query, [pairs[index][1] for index in own]) for query, own in lists.items()]
    scores = [0.0] * len(pairs)
    for own, found in zip(lists.values(), scorer.score_many(requests), strict=True):
        for index, score in zip(own, found, strict=True):
            scores[index] = score
    known = [score for _, _, score in pairs]
    readings = {"none": scores}
    if scorer.score_kind == "logit" and all(0 <= score <= 1 for score in known):
        readings["sigmoid"] = [*map(sigmoid, scores)]
    furthest = {name: _furthest(values, known) for name, values in readings.items()}
    activation = min(furthest, key=lambda name: furthest[name][0])
    difference, place = furthest[activation]
    score, engine = readings[activation][place], scorer.engine
    assert engine is not None
    if tolerance is None:
        tolerance = _EXACT
        if engine.precision != "float32":
            tolerance = max(tolerance, _REDUCED * pstdev(known))
    return {
        "agrees": difference <= tolerance,
        "pairs": len(pairs),
        "largest_difference": difference if isfinite(difference) else None,
        "tolerance": tolerance,
        "pair": place + 1,
        "score": score if isfinite(score) else None,
        "known": known[place],
        "activation": activation,
    }


def _furthest(scores: Sequence[float], known: Sequence[float]) -> tuple[float, int]:
    """The largest difference, and where it is; a score that is no number is infinitely far."""
    differences = [
        abs(score - right) if isfinite(score) else inf
        for score, right in zip(scores, known, strict=True)
    ]
    largest = max(differences)
    return largest, differences.index(largest)


def _logits(module: Any, tokenizer: Any) -> str:
    """The read-out that sentence-transformers' files declare."""
    ids = [module.true_token_id, module.false_token_id]
    names = [repr(tokenizer.convert_ids_to_tokens(id)) for id in ids if id is not None]
    return f"the logit of {' minus the logit of '.join(names)} at the last token"


def read_out(family: Family) -> str:
    """Where the score of a family that can be run is read, in words."""
    read, run = family.read, family.run
    assert read is not None
    assert run is not None
    if read.own:
        return f"what sentence-transformers' {run.model} returns, without its activation"
    divide = family.scale.divide
    divided = "" if divide == 1 else f", divided by {divide}"
    return READ_OUTS[read.place].words(run, read) + divided


def _cut(family: Family) -> str:
    """What is cut of long texts, in words."""
    spec = family.input
    if spec.of == "own":
        return "as the model's files say"
    limit = f"{spec.limit:,} tokens" if spec.limit else "what the model reads"
    caps = [
        f"{name} to {cap.tokens or cap.characters} {'tokens' if cap.tokens else 'characters'}"
        for name, cap in (("query", spec.query), ("passage", spec.passage))
        if cap is not None
    ]
    caps += [
        f"the part of {', '.join(sorted(part.names))} to {part.at_most:g} of the limit"
        for part in spec.parts
        if part.at_most is not None
    ]
    if spec.block is not None:
        caps.append(f"lists to {spec.block} passages")
    return f"the passage first, to {limit}" + (f"; {'; '.join(caps)}" if caps else "")
