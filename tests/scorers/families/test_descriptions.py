"""The descriptions of families, as they are read."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import secondpass
from secondpass import ConfigurationError
from secondpass.scorers.families.descriptions import FAMILIES, Family
from secondpass.settings import from_mapping

BASE = {
    "title": "t",
    "match": {"architectures": "X"},
    "input": {"of": "pair", "parts": ["$query", "$passage"]},
    "run": {"model": "causal"},
    "read": {"logit": "yes"},
}


def changed(**parts):
    return {**BASE, **parts}


def inputs(**settings):
    return changed(input={**BASE["input"], **settings})


WRONG = {
    "unknown key": (changed(scal={}), "scal: .*did you mean 'scale'"),
    "no run": (changed(run=None), "run: is needed, or code: required"),
    "both": (changed(code="required"), "code: cannot be set beside run"),
    "two read-outs": (changed(read={"logit": "a", "label": 1}), "read: give one of"),
    "of another model": (changed(read={"label": 1}), "read: must be logit with run.model 'causal'"),
    "own of another model": (changed(read={"own": True}), "read: must be logit with run"),
    "vectors of a pair": (
        changed(run={"model": "encoder"}, read={"vectors": {"query": "q", "passage": "p"}}),
        r"input\.of: cannot be 'pair' with run\.model 'encoder' and read\.vectors",
    ),
    "lonely minus": (changed(read={"own": True, "minus": 1}), r"read\.minus: is for label"),
    "placeholder": (inputs(parts=["$query $pasage"]), r"input\.parts\[0\]: '\$pasage' is no"),
    "no passage": (inputs(parts=["$query"]), r"input\.parts: must contain the passage"),
    "of a list": (inputs(parts=["$query $count", "$passage"]), r"'\$count' is no placeholder here"),
    "no plain": (
        inputs(parts=["$instruction $query", "$passage"]),
        r"input\.parts\[0\]\.plain: is needed",
    ),
    "room": (inputs(parts=[{"text": "$query $passage", "room": 1}]), r"input\.parts\[0\]\.room"),
    "share": (inputs(parts=["$query $passage", {"text": "x", "at_most": 2}]), "at_most"),
    "no block": (inputs(of="list"), r"input\.block: is needed"),
    "name": (changed(match={"name": "("}), r"match\.name: is no regular expression"),
    "second way": (changed(match=[{}, {"nam": "x"}]), r"match\[1\]\.nam"),
    "divide": (changed(scale={"divide": 0}), r"scale\.divide"),
    "yes as a boolean": (changed(read={"logit": True}), r"read\.logit"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_place(name):
    description, message = WRONG[name]
    with pytest.raises(ConfigurationError, match=message):
        from_mapping(Family, description)


def test_every_description_is_sound_and_verified():
    for name, family in FAMILIES.items():
        assert family.verified is not None, name
        assert family.verified.version or family.verified.address, name
        assert family.models, name


def test_the_code_names_no_family():
    """A family costs one file; what is said of it here would be a second place."""
    names = [name for name in FAMILIES if "-" in name or name in {"splade", "monot5"}]
    words = {name for name in names if name not in {"bi-encoder", "logit-score"}}
    root = Path(secondpass.__file__).parent / "scorers"
    for path in root.glob("*/*.py"):
        text = path.read_text(encoding="utf-8").lower()
        assert not [word for word in words if fnmatchcase(text, f"*{word}*")], path
