"""``--dry-run`` of searches and comparisons; the model must not be asked."""

import json

import pytest

from command_requests import FRUIT


def test_a_search_without_reranking_has_no_dry_run(secondpass):
    told = secondpass("query", "-q", "a", "--corpus", ".", "--dry-run")
    assert (told.code, told.out) == (2, "")
    assert "--dry-run: needs --rerank" in told.flat


def test_a_question_is_searched_and_its_reranking_estimated(secondpass, write, priced):
    corpus = write("corpus.jsonl", [{"_id": one["id"], "text": one["text"]} for one in FRUIT])
    call = ["query", "-q", "fruit", "--corpus", corpus, "--lexical", "--rerank", "-c", priced]
    told = secondpass(*call, "--dry-run")
    found = json.loads(told.out)
    assert (told.code, found["queries"], found["candidates"]) == (0, 1, 2)
    assert found["total"]["calls"] == 1


@pytest.fixture
def suite(write):
    write("suite/corpus.jsonl", [{"_id": one["id"], "text": one["text"]} for one in FRUIT])
    write("suite/queries.jsonl", [{"_id": "q1", "text": "fruit"}, {"_id": "q2", "text": "moon"}])
    return write("suite/qrels.tsv", "q1 0 pear 1\nq2 0 moon 1\n").parent


def test_a_comparison_is_estimated_per_reranker(secondpass, suite, priced, tmp_path):
    out = tmp_path / "results"
    call = ["eval", suite, "--mode", "lexical", "--compare", "lexical", priced, "--into", out]
    told = secondpass(*call, "--dry-run")
    found = json.loads(told.out)
    assert (told.code, out.exists()) == (0, False), told.err
    assert found["queries"] == 2
    assert set(found["systems"]) == {"lexical+lexical", "lexical+graded"}
    assert found["systems"]["lexical+graded"]["total"]["calls"] == 2
    assert found["total"]["calls"] == 2
    shuffled = secondpass(*call, "--dry-run", "--shuffles", 2)
    assert json.loads(shuffled.out)["total"]["calls"] == 6


def test_finished_rankings_are_not_estimated(secondpass, suite, tmp_path, monkeypatch):
    from secondpass_evaluation import experiment

    def interrupted(_comparison):
        raise KeyboardInterrupt

    out = tmp_path / "results"
    begin = ["eval", suite, "--mode", "lexical", "--compare", "lexical"]
    call = [*begin, "--into", out]
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "corrected_results", interrupted)
        assert secondpass(*call).code == 130
    kept = (out / "rankings.jsonl").read_bytes()

    def pairs(*arguments):
        told = secondpass(*arguments, "--dry-run")
        assert told.code == 0, told.err
        return json.loads(told.out)["total"]["pairs"]

    assert pairs(*call, "--resume") == 0
    assert pairs(*call, "--resume", "--shuffles", 1) == pairs(*begin) > 0
    assert (out / "rankings.jsonl").read_bytes() == kept
