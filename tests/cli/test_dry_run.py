"""``--dry-run``: calls, tokens and cost, estimated; the model must not be asked."""

import json

import pytest

from command_requests import FRUIT, requests
from fake_provider import FakeProvider
from terminals import on_a_terminal

PRICES = "{input: 1000000, output: 0}"  # an input token costs 1


@pytest.fixture
def provider():
    with FakeProvider() as running:
        yield running
        assert running.calls == 0


@pytest.fixture
def graded(write, provider):
    """A configuration that asks the provider, five candidates at a time."""
    address = provider.base_url("openai")
    return write(
        "graded.yaml",
        f"method: {{type: graded, batch_size: 5, llm: {{type: openai, model: m, prices: {PRICES}, "
        f"base_url: '{address}'}}}}\nfallback: [lexical]\n",
    )


def test_requests_are_estimated_and_nothing_is_written(secondpass, write, graded, tmp_path):
    output = tmp_path / "out.jsonl"
    empty = {"query_id": "q", "query": "none", "candidates": []}
    file = write("in.jsonl", [*requests(3, candidates=12), empty])
    told = secondpass("rerank", file, "-c", graded, "-o", output, "--dry-run")
    found = json.loads(told.out)
    assert (told.code, output.exists()) == (0, False)
    assert (found["dry_run"], found["queries"], found["candidates"]) == (True, 4, 36)
    (model,) = found["models"]
    assert (model["model"], model["calls"], model["pairs"]) == ("m", 9, 36)
    assert model["input_tokens"] > 36 * 30 / 4
    assert model["cost"] == pytest.approx(model["input_tokens"], abs=1)
    assert found["total"] == {key: value for key, value in model.items() if key != "model"}
    assert "no model was called" in told.flat
    assert "estimated" in told.flat


def test_a_limit_of_tokens_splits_requests(secondpass, write, provider):
    address = provider.base_url("voyage")
    config = write(
        "voyage.yaml",
        f"method: {{type: endpoint, api: voyage, model: m, base_url: '{address}'}}\n",
    )
    candidates = [{"id": str(number), "text": "word " * 40_000} for number in range(12)]
    file = write("in.jsonl", [{"query_id": "q", "query": "none", "candidates": candidates}])
    told = secondpass("rerank", file, "-c", config, "--dry-run")
    assert json.loads(told.out)["total"]["calls"] == 2


def test_options_of_the_command_and_of_a_line_count(secondpass, write, graded):
    lines = requests(2, candidates=12)
    lines[1]["depth"] = 3
    file = write("in.jsonl", lines)
    told = secondpass("rerank", file, "-c", graded, "--depth", 10, "--dry-run")
    assert json.loads(told.out)["total"]["pairs"] == 13
    assert json.loads(told.out)["total"]["calls"] == 3


def test_local_models_take_neither_calls_nor_tokens(secondpass, write):
    file = write("in.jsonl", FRUIT)
    told = secondpass("rerank", file, "-q", "fruit", "-p", "embedded", "--dry-run")
    (model,) = json.loads(told.out)["models"]
    assert (model["calls"], model["pairs"]) == (0, 3)
    assert model["input_tokens"] is model["output_tokens"] is model["cost"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rerank", "-q", "a", "-o", "out", "--resume"], "--dry-run, --resume: give one of them"),
        (["query", "-q", "a", "--corpus", "."], "--dry-run: needs --rerank"),
    ],
)
def test_what_has_no_dry_run_is_a_wrong_call(secondpass, arguments, message):
    told = secondpass(*arguments, "--dry-run")
    assert (told.code, message in told.flat, told.out) == (2, True, "")


def test_an_input_error_is_one_here_too(secondpass, write, graded):
    told = secondpass("rerank", write("in.jsonl", "{}"), "-c", graded, "--dry-run")
    assert (told.code, "in.jsonl:1: " in told.flat, told.out) == (1, True, "")


def test_a_question_is_searched_and_its_reranking_estimated(secondpass, write, graded):
    corpus = write("corpus.jsonl", [{"_id": one["id"], "text": one["text"]} for one in FRUIT])
    call = ["query", "-q", "fruit", "--corpus", corpus, "--lexical", "--rerank", "-c", graded]
    told = secondpass(*call, "--dry-run")
    found = json.loads(told.out)
    assert (told.code, found["queries"], found["candidates"]) == (0, 1, 2)
    assert found["total"]["calls"] == 1


@pytest.fixture
def suite(write):
    write("suite/corpus.jsonl", [{"_id": one["id"], "text": one["text"]} for one in FRUIT])
    write("suite/queries.jsonl", [{"_id": "q1", "text": "fruit"}, {"_id": "q2", "text": "moon"}])
    return write("suite/qrels.tsv", "q1 0 pear 1\nq2 0 moon 1\n").parent


def test_a_comparison_is_estimated_per_reranker(secondpass, suite, graded, tmp_path):
    out = tmp_path / "results"
    call = ["eval", suite, "--mode", "lexical", "--compare", "lexical", graded, "--into", out]
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


def test_a_terminal_shows_a_table(write, graded):
    file = write("in.jsonl", requests(3, candidates=12))
    shown = on_a_terminal("rerank", str(file), "-c", str(graded), "--dry-run")
    assert "tokens in, about" in shown
    assert "3 queries, 36 candidates" in shown
    assert '"models"' not in shown
