import sys
from pathlib import Path

import pytest

from secondpass import Candidate, ConfigurationError, Reranker
from secondpass_evaluation import compare, make_suite
from topic_suites import SUITE, ByGrade


def test_no_reranker_is_not_run() -> None:
    for none in ({}, []):
        found = compare(none, SUITE, first_stages=["lexical"])
        assert [one.name for one in found.ran] == ["lexical"]
        assert found["lexical+rerank"].reason == "no reranker was given"


@pytest.mark.parametrize(
    ("rerankers", "names"),
    [
        ("lexical", ["lexical"]),
        (["lexical", "lexical"], ["lexical", "lexical-2"]),
        (Reranker("lexical"), ["rerank"]),
        ({"method": "lexical"}, ["rerank"]),
        (
            [{"method": "lexical"}, Reranker("lexical"), "lexical"],
            ["rerank", "rerank-2", "lexical"],
        ),
        ({"a b": "lexical", "b": {"method": "lexical"}}, ["a b", "b"]),
    ],
)
def test_names(rerankers, names) -> None:
    found = compare(rerankers, SUITE, first_stages=["lexical"])
    assert [one.name for one in found.ran[1:]] == [f"lexical+{name}" for name in names]
    assert all(one.config["method"] == {"type": "lexical"} for one in found.ran[1:])


@pytest.mark.parametrize("wrong", [5, [5], {"a": 5}, object])
def test_what_is_no_reranker(wrong) -> None:
    with pytest.raises(ConfigurationError, match="a preset name, a mapping, a YAML path"):
        compare(wrong, SUITE, first_stages=["lexical"])


def test_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("method: lexical\ndepth: 3\n")
    found = compare([path, Reranker(ByGrade())], SUITE, first_stages=["lexical"])
    assert found["lexical+mine"].config["depth"] == 3
    assert found["lexical+rerank"].config is None  # an object without a name


def test_missing_package_is_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    found = compare(["embedded", "lexical"], SUITE, first_stages=["lexical"])
    assert 'pip install "secondpass[embedded]"' in found["lexical+embedded"].reason
    assert found["lexical+lexical"].status == "ran"


def test_reranker_named_method() -> None:
    suite = make_suite("s", {"q": "cat"}, {"q": {"a": 1}}, corpus=[Candidate("a cat", "a")])
    named = compare({"method": Reranker("lexical"), "other": "lexical"}, suite)
    assert [one.name for one in named.results][-2:] == ["hybrid+method", "hybrid+other"]
    assert compare({"method": "lexical"}, suite).results[-1].name == "hybrid+rerank"
    assert compare({"method": {"method": "lexical"}}, suite).results[-1].name == "hybrid+method"
