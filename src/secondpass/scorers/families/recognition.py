"""Recognises the family of a model, or says in one sentence why it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from secondpass.errors import ModelLoadError, with_article
from secondpass.scorers.families.descriptions import FAMILIES, Family
from secondpass.scorers.hub.facts import ModelFacts

_NO_RERANKER = {
    "ForConditionalGeneration": "it generates text from an encoder's states",
    "ForSequenceClassification": (
        "it is a language model with a head, and no file says what it reads; if that is query and "
        "passage alone, set `family: classifier`"
    ),
    "ForTokenClassification": "it labels each token, and no pair of texts",
    "ForMultipleChoice": "it compares answers, and no pair of texts",
    "ForQuestionAnswering": "it finds an answer in a text, and scores no pair of texts",
    "ForPreTraining": "it is an encoder that was not trained as a reranker",
    "ForMaskedLM": "it is an encoder that was not trained as a reranker",
    "ForNextSentencePrediction": "it is an encoder that was not trained as a reranker",
    "StaticModel": "it has no modules.json, with which newer versions of model2vec save it",
    "Model": "it is an encoder that was not trained as a reranker",
    "ForCausalLM": (
        "it has no read-out of a reranker: neither the ids of its answer tokens nor its template "
        "are known, unless its author's files for sentence-transformers have a LogitScore"
    ),
}
"""Why models are no rerankers as they are, by the end of their class's name."""


@dataclass(frozen=True)
class Recognised:
    """The family of a model, its name or that of its file, and what of the model fits it."""

    name: str
    family: Family
    reasons: Sequence[str]


def recognise(
    model: str,
    facts: ModelFacts | None,
    family: Any = None,
    *,
    trusted: bool = False,
) -> Recognised:
    """The family of a model.

    Args:
        model: the name or folder, for messages.
        facts: what its files say; None if it has neither ``config.json`` nor ``modules.json``, or
            if there is no model, which loading it tells.
        family: the setting; None selects among those that are built in.
        trusted: whether code of the model may run.

    Raises:
        ModelLoadError: it is of none, of several, of another than the setting names, or is computed
            by code of its own.
    """
    if facts is None:
        facts = ModelFacts(model, {}, {}, None, (), lambda _: None)
        if family is not None:
            return Recognised(_name_of(family), FAMILIES.resolve(family), ())
    found = _fitting(model, facts, family)
    is_a = f" ({facts.architecture})" if facts.architecture else ""
    if not found:
        end = next((end for end in _NO_RERANKER if facts.architecture.endswith(end)), None)
        reason = _NO_RERANKER[end] if end else "its class is not known"
        if end == "ForSequenceClassification" and (facts.types or facts.own):
            reason = "its files say different things of it"
        if facts.auto_map and not trusted:
            raise ModelLoadError(
                f"{_own_code(model, facts)}; if it is a reranker, run it on a rerank server, and "
                "name that in `endpoint`"
            )
        raise ModelLoadError(
            f"the model {model!r} is {with_article(facts.architecture or 'model of no class')} that"
            f" fits no description of a reranker: {reason}. If it is one, name its family in "
            "`family`, or describe it there"
        )
    if len(found) > 1:
        names = " and ".join(item.name for item in found)
        raise ModelLoadError(
            f"the model {model!r}{is_a} fits the descriptions of {names}: name one in `family`"
        )
    [result] = found
    kind = result.family
    if kind.code is not None and not (trusted and kind.code == "trusted"):
        trust = "; trust_remote_code runs it" if kind.code == "trusted" else ""
        reason = kind.reason or "whose scores only code of its own computes"
        raise ModelLoadError(
            f"the model {model!r}{is_a} is one of {kind.title}, {reason}: run it on a rerank "
            f"server, and name that in `endpoint`{trust}"
        )
    if family is None and kind.is_other_version(facts):
        raise ModelLoadError(
            f"the model {model!r}{is_a} has the files of {kind.title}, but by its name it is "
            "another version, which may read and score otherwise: wait for its description, or "
            f"name `family: {result.name}` if it is a fine-tune of it"
        )
    assert kind.run is not None
    if facts.auto_map and not kind.run.native and not trusted:
        raise ModelLoadError(f"{_own_code(model, facts)}; trust_remote_code runs it")
    return result


def torch_only(model: str, facts: ModelFacts) -> str | None:
    """Why an exported file is not enough, so that torch must run the model; None if one is.

    Such a file may hold what the author's code computes, but not what the model reads.
    """
    found = _fitting(model, facts, None)
    if not found:
        recognise(model, facts)
    for item in found:
        if item.family.needs_torch:
            return f"the model {model!r} is one of {item.family.title}, which only torch runs"
    return None


def _fitting(model: str, facts: ModelFacts, setting: Any) -> list[Recognised]:
    """The families that a model fits."""
    if setting is not None:
        chosen, name = FAMILIES.resolve(setting), _name_of(setting)
        reasons = chosen.reasons(facts, named=True)
        if reasons is None:
            kind = facts.architecture or "a model of no class"
            others = " and ".join(repr(item.name) for item in _fitting(model, facts, None))
            raise ModelLoadError(
                f"the model {model!r} ({kind}) does not fit the family {name!r} ({chosen.title})"
                + (f"; it fits {others}" if others else "")
            )
        return [Recognised(name, chosen, reasons)]
    found = [
        Recognised(name, family, reasons)
        for name, family in FAMILIES.items()
        if (reasons := family.reasons(facts)) is not None
    ]
    # What is said of the author's code is more than what its class is called.
    by_code = [item for item in found if item.family.names_code]
    by_name = [item for item in found if f"the name {facts.name}" in item.reasons]
    return by_code or by_name or found


def _own_code(model: str, facts: ModelFacts) -> str:
    code = next(iter(facts.auto_map.values()))
    return (
        f"the model {model!r} ({facts.architecture or 'of unknown kind'}) is defined by code of "
        f"its own ({code}), without which the scores would be others"
    )


def _name_of(setting: Any) -> str:
    """What a setting is called in messages."""
    if isinstance(setting, str | PathLike):
        return fspath(setting)
    return FAMILIES.resolve(setting).title
