"""Descriptions by name, as mappings and in files."""

import pytest

from secondpass import ConfigurationError
from secondpass.scorers.families.descriptions import FAMILIES, Family

OWN = {"title": "own", "match": {"architectures": "X"}, "code": "required"}


def test_a_name_a_mapping_and_a_file(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("{title: own, match: {architectures: X}, code: required}")
    own = FAMILIES.resolve(OWN)
    assert own == FAMILIES.resolve(str(path)) == FAMILIES.resolve(path) == FAMILIES.resolve(own)
    assert isinstance(FAMILIES.resolve("monot5"), Family)
    assert FAMILIES.setting().build(path) == str(path)
    assert FAMILIES.setting(optional=True).build(None) is None


@pytest.mark.parametrize(
    ("setting", "content", "message"),
    [
        ("monot6", None, "has no such name: 'monot6'; did you mean 'monot5'"),
        (5, None, "give the name of a family, a mapping or a YAML path"),
        ("none.yaml", None, "has no such file"),
        ("own.yaml", "[1]", r"own\.yaml: must hold a mapping"),
        ("own.yaml", "{", r"own\.yaml: "),
        ("own.yaml", "{titel: x}", r"own\.yaml: titel"),
    ],
)
def test_errors(tmp_path, monkeypatch, setting, content, message):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / setting).write_text(content)
    with pytest.raises(ConfigurationError, match=message):
        FAMILIES.resolve(setting)


def test_it_is_a_mapping():
    assert "monot5" in FAMILIES
    assert len(FAMILIES) == len([*FAMILIES])
    FAMILIES["own"] = FAMILIES.resolve(OWN)
    assert FAMILIES["own"].title == "own"
    del FAMILIES["own"]
    assert "own" not in FAMILIES
