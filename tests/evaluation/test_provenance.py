"""Configurations with comments: what is loaded is what was given, and no file is lost."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sampling import examples
from secondpass.config import load, read_yaml
from secondpass.errors import ConfigurationError, InputError
from secondpass.settings import Secret, yaml_text
from secondpass.settings.keys import literal_keys
from secondpass_evaluation.provenance import (
    TUNED,
    check_output,
    tuning_notes,
    with_provenance,
    write_config,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@examples(25)
@given(
    st.dictionaries(st.sampled_from(["method", "depth", "blend", "top_k"]), VALUES),
    st.lists(st.text()),
)
def test_comments_do_not_change_what_is_read(config, lines):
    assume(not [*literal_keys(config)])
    text = with_provenance(config, lines)
    assert yaml_text.parse(text) == (config or {})
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert len(comments) >= len(lines)


def test_a_comment_is_wrapped_and_cannot_end(tmp_path):
    lines = ["word " * 40, "", "a\nmethod: lexical\r\x85\u2028top_k: 1"]
    path = write_config(tmp_path / "a.yaml", {"method": "embedded", "depth": 5}, lines)
    text = path.read_text(encoding="utf-8")
    assert all(len(line) <= 100 for line in text.split("\n"))
    assert "\n#\n" in text
    assert read_yaml(path) == {"method": "embedded", "depth": 5}
    assert load(path).depth == 5


def test_an_existing_file_is_kept_unless_forced(tmp_path):
    path = tmp_path / "a.yml"
    path.write_text("method: lexical\n")
    with pytest.raises(InputError, match=r"already exists; use force=True"):
        write_config(path, {"method": "embedded"}, [])
    assert path.read_text() == "method: lexical\n"
    write_config(path, {"method": "embedded"}, [], force=True)
    assert path.read_text() == "method: embedded\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.json", "must end in .yaml or .yml"),
        ("missing/a.yaml", "missing does not exist"),
        ("folder.yaml", "is a folder"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused(tmp_path, name, message):
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(InputError, match=message):
        check_output(tmp_path / name, force=True)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"method": {"type": "endpoint", "api": "cohere", "api_key": "k"}}, "cannot hold a key"),
        ({"method": {"type": "endpoint", "api_key": Secret("k")}}, "cannot hold a key"),
        ({"method": object()}, "cannot be written as YAML"),
    ],
    ids=["key", "secret", "object"],
)
def test_keys_and_objects_are_not_written(tmp_path, config, message):
    path = tmp_path / "a.yaml"
    path.write_text("depth: 3\n")
    with pytest.raises(ConfigurationError, match=message):
        write_config(path, config, [], force=True)
    assert path.read_text() == "depth: 3\n"


def test_a_configuration_that_tuning_wrote_is_known_by_its_comment(tmp_path):
    path = tmp_path / "rerank.yaml"
    write_config(path, {"method": "lexical"}, [f"{TUNED}, 2026-11-25.", "Adopt lexical."])
    (note,) = tuning_notes(path)
    assert note.startswith("rerank.yaml was chosen by tuning")
    write_config(path, {"method": "lexical"}, ["Calibrated."], force=True)
    assert tuning_notes(path) == tuning_notes("lexical") == tuning_notes(tmp_path / "x.yaml") == []
