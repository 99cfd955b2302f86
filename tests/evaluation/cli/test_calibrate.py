"""``secondpass calibrate``: a suite in, a configuration with a threshold out."""

import json

import pytest

from secondpass import Reranker

TOPICS = [f"topic{number}" for number in range(24)]


@pytest.fixture
def suite(write, tmp_path):
    """Queries whose relevant passages have the word of the query; others of every list do not."""
    good = [{"_id": f"{t}-a", "text": f"{t} is what this passage is about"} for t in TOPICS]
    other = [
        {"_id": f"{t}-b", "text": f"a passage without {'owls ' * n}"} for n, t in enumerate(TOPICS)
    ]
    write("suite/corpus.jsonl", [*good, *other])
    write("suite/queries.jsonl", [{"_id": t, "text": f"passage about {t}"} for t in TOPICS])
    write("suite/qrels.tsv", "".join(f"{t} 0 {t}-a 1\n" for t in TOPICS))
    return tmp_path / "suite"


@pytest.fixture
def config(write):
    blend = "{original: 0.2, normalize: minmax}"
    return write("rerank.yaml", f"method: lexical\nblend: {blend}\n")


def calibrated(secondpass, suite, config, *arguments, code=0):
    options = ("--behind", "lexical", "--quiet", "--no-cache")
    result = secondpass("calibrate", suite, "--config", config, *options, *arguments)
    assert result.code == code, result.err
    return result


def test_a_configuration_with_a_threshold(secondpass, suite, config, tmp_path):
    path = tmp_path / "calibrated.yaml"
    result = calibrated(
        secondpass, suite, config, "--keep", "0.8", "--into", str(path), "--probabilities"
    )
    assert "keeps at least 80% of the relevant candidates, as a mean" in result.out
    assert f"wrote {path}" in result.flat
    floor = Reranker.from_config(path).floor
    assert (floor.on, floor.keep, floor.fitted.first_stage) == ("rerank", 0.8, "lexical")
    assert floor.nothing is not None
    assert Reranker.from_config(path).probabilities is not None
    again = calibrated(secondpass, suite, config, "--into", str(path), code=1)
    assert "already exists; use --force" in again.flat
    found = b'{"query": "passage about trains", "candidates": [{"id": "x", "text": "rails"}]}\n'
    ranked = secondpass("rerank", "--config", path, stdin=found)
    assert json.loads(ranked.out)["report"]["nothing_relevant"] is True
    assert "nothing relevant: 1" in ranked.err
    table = secondpass("rerank", "--config", path, "--format", "table", stdin=found)
    assert "(nothing relevant)" in table.out


def test_kept_rankings_are_not_made_again(secondpass, suite, config, tmp_path):
    rankings = tmp_path / "rankings.jsonl"
    first = calibrated(secondpass, suite, config, "--rankings", rankings)
    assert "were read" not in first.flat
    again = calibrated(secondpass, suite, config, "--rankings", rankings, "--keep", "0.8")
    assert f"finished rankings were read from {rankings}" in again.flat


def test_settings_without_a_file(secondpass, suite, config):
    result = calibrated(secondpass, suite, config)
    assert result.out.startswith("floor:\n  at: ")
    assert "Bound: for new queries of the same kind as these" in result.flat
    record = json.loads(calibrated(secondpass, suite, config, "--json", "--per", "document").out)
    assert record["floor"]["fitted"]["per"] == "document"
    assert record["found_empty"] >= 0.4


def test_what_cannot_be_written_is_refused_before_the_work(secondpass, suite, config, tmp_path):
    path = tmp_path / "calibrated.yaml"
    key = "method={type: graded, llm: {type: openai, model: m, api_key: secret-key}}"
    result = calibrated(secondpass, suite, config, "--set", key, "--into", str(path), code=1)
    assert "api_key" in result.flat
    assert "secret-key" not in result.err + result.out
    assert "query" not in result.flat
    assert not path.exists()
