"""``secondpass query``: S3's query command."""

import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fakes import Model
from remembered_model import remember
from secondpass import Candidate, Reranker
from secondpass.cli.app import app
from secondpass_evaluation import HybridRetriever, write_corpus
from secondpass_evaluation.search.embedders import EmbeddedEmbedder, default_embedder
from secondpass_evaluation.search.indexing import build_index
from terminals import on_a_terminal
from tiny_models import write_classifier

CORPUS = [
    Candidate("The owl hunts mice at night.", "owl", metadata={"title": "Owls", "year": 0}),
    Candidate("A mouse fears the cat and the owl.", "mouse", metadata={"tags": ["a", None]}),
    Candidate("Ships cross the sea under sail.", "ship", metadata={"closed": False}),
    Candidate("Harbours shelter a ship from storms.", "harbour"),
    Candidate("Owl, owl, owl.", "owls"),
]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("indexed")
    write_corpus(folder / "corpus.jsonl", CORPUS)
    with pytest.MonkeyPatch.context() as patch:
        remember(patch)
        build_index(folder / "corpus.jsonl", folder / "index", default_embedder())
    build_index(folder / "corpus.jsonl", folder / "words")
    return folder


@pytest.fixture
def here(indexed, monkeypatch) -> Path:
    monkeypatch.chdir(indexed)
    return indexed


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """An index of words alone that a test may change."""
    monkeypatch.chdir(tmp_path)
    write_corpus("corpus.jsonl", CORPUS)
    build_index("corpus.jsonl", "index")
    return tmp_path


def call(*arguments: object):
    return CliRunner().invoke(app, ["query", *map(str, arguments)])


def asked(*arguments: object, stderr: str = ""):
    done = call(*arguments)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == stderr
    return json.loads(done.stdout)


OWL = ("--question", "owl at night", "--corpus", "index")


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        (("--vector",), "vector"),
        (("--lexical",), "lexical"),
        (("--rrf-k", 5), "hybrid"),
        (("--hybrid", "--rrf-k", 5), "hybrid"),
    ],
)
def test_each_mode_is_that_of_the_retriever(here, options, mode) -> None:
    told = asked(*OWL, *options, "--k", 3)
    retriever = HybridRetriever(CORPUS, EmbeddedEmbedder())
    expected = retriever.retrieve("owl at night", 3, mode, 5)
    assert told["mode"] == mode
    assert told["results"] == [
        {
            "final_rank": rank,
            "id": one.id,
            "score": one.score,
            "text": one.text,
            "metadata": dict(one.metadata),
        }
        for rank, one in enumerate(expected, 1)
    ]
    assert ("rrf_k" in told) == (mode == "hybrid")
    assert "report" not in told


@pytest.mark.parametrize(
    ("options", "mode"), [((), "hybrid+rerank"), (("--vector",), "vector+rerank")]
)
def test_what_is_found_is_reranked(here, options, mode) -> None:
    answer = asked(*OWL, *options, "--rerank", "--preset", "lexical")
    assert answer["mode"] == mode
    assert answer["rerank_top_n"] == 50
    retrieved = [one["retrieval_rank"] for one in answer["results"]]
    assert sorted(retrieved) == [*range(1, len(retrieved) + 1)]
    assert answer["report"]["status"] == "ok"
    assert answer["report"]["method"] == "lexical"
    results = answer["results"]
    assert [one["final_rank"] for one in results] == [*range(1, len(results) + 1)]
    scores = [one["rerank_score"] for one in results]
    assert scores == sorted(scores, reverse=True)
    originals = {one.id: one for one in CORPUS}
    for one in results:
        original = originals[one["id"]]
        assert (one["text"], one["metadata"]) == (original.text, dict(original.metadata))


@pytest.fixture(scope="module")
def indexed_many(tmp_path_factory) -> Path:
    """An index of 240 passages of eight lengths, each of which has an owl."""
    folder = tmp_path_factory.mktemp("many")
    passages = [Candidate(f"owl {'a ' * (at % 8)}", f"d{at}") for at in range(240)]
    write_corpus(folder / "corpus.jsonl", passages)
    build_index(folder / "corpus.jsonl", folder / "index")
    return folder


@pytest.fixture
def many(indexed_many, monkeypatch) -> Path:
    monkeypatch.chdir(indexed_many)
    return indexed_many


@pytest.mark.parametrize(
    ("config", "options", "judged", "retrieved"),
    [
        ("", (), 50, 50),
        ("depth: 70", (), 70, 70),
        ("depth: 70", ("--rerank-top-n", 20), 20, 20),
        ("depth: {env: OWL_DEPTH, default: 9}", (), 11, 11),
        ("depth: null", (), 100, 100),
        ("depth: null", ("--k", 150), 150, 150),
        ("depth: 70\ncandidate_multiplier: 4", ("--k", 5), 20, 20),
        ("depth: 10\ncandidate_multiplier: 4", ("--k", 5), 10, 20),
    ],
)
def test_how_many_are_retrieved_and_judged(
    many, tmp_path, monkeypatch, config, options, judged, retrieved
) -> None:
    monkeypatch.setenv("OWL_DEPTH", "11")
    file = tmp_path / "c.yaml"
    file.write_text(f"method: lexical\n{config}\n")
    done = call("-q", "owl", "--corpus", "index", "--lexical", "--rerank", "-c", file, *options)
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["report"]["usage"]["pairs"] == judged
    assert answer["retrieved"] == retrieved
    assert answer["rerank_top_n"] == (None if config == "depth: null" else judged) or (
        answer["rerank_top_n"] > retrieved
    )
    assert len(answer["results"]) == min(retrieved, answer["k"])


def test_an_order_can_be_given(many) -> None:
    usual = ("-q", "owl", "--corpus", "index", "--lexical", "--rerank", "-p", "lexical", "--k", 5)
    plain, laid = (
        [one["id"] for one in json.loads(call(*usual, *order).stdout)["results"]]
        for order in ((), ("--order", "lost_in_the_middle"))
    )
    assert laid == [*plain[::2], *plain[1::2][::-1]]
    wrong = call(*usual, "--order", "larn")
    assert wrong.exit_code == 2
    assert "--order: no ordering is named 'larn'" in wrong.stderr


def test_an_instruction_reaches_the_model(here, monkeypatch) -> None:
    model = Model(lambda shown: json.dumps({"ranking": [*shown][::-1]}))
    reranker = Reranker({"type": "listwise", "llm": model})
    monkeypatch.setattr("secondpass.cli.options.load", lambda _config: reranker)
    usual = (*OWL, "--lexical", "--rerank", "--preset", "lexical")
    asked(*usual, "--instruction", "prefer owls")
    assert "<instruction>prefer owls</instruction>" in model.prompts[0].turns[0].text
    call(*usual, "--instruction", "prefer owls", "--dry-run")
    assert len(model.prompts) == 1


@pytest.mark.parametrize(
    "options", [("--order", "none"), ("--rerank-top-n", 3), ("--instruction", "prefer owls")]
)
def test_an_option_of_the_second_pass_without_it_is_told(here, options) -> None:
    told = "warning: options of the reranker have no effect without --rerank\n"
    asked(*OWL, *options, stderr=told)


@pytest.mark.long  # imports torch
def test_the_model_can_be_another(here, tmp_path) -> None:
    model = write_classifier(tmp_path / "tiny")
    answer = asked(*OWL, "--rerank", "--rerank-model", model, "--device", "cpu")
    assert answer["report"]["status"] == "ok"
    assert answer["report"]["method"] == str(model)
    assert all(isinstance(one["rerank_score"], float) for one in answer["results"])


def test_a_fallback_ranks_if_a_model_cannot_be_loaded(here) -> None:
    done = call(*OWL, "--rerank", "--rerank-model", "./absent")
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: the results were reranked by a fallback (")
    assert done.stderr.count("\n") == 1
    answer = json.loads(done.stdout)
    assert answer["mode"] == "hybrid+rerank"
    assert answer["report"]["status"] == "degraded"


def test_where_nothing_can_rerank_the_order_that_came_in_is_told(here) -> None:
    model = ("--set", "method.model=./absent", "-s", "fallback=[]")
    done = call(*OWL, "--rerank", *model)
    assert done.exit_code == 0
    assert done.stderr.startswith("warning: the results were not reranked: ")
    answer = json.loads(done.stdout)
    plain = asked(*OWL)["results"]
    assert [one["id"] for one in answer["results"]] == [one["id"] for one in plain]
    assert {one["rerank_score"] for one in answer["results"]} == {None}


# ------------------------------------------------------------------ what is searched


@pytest.mark.parametrize("options", [("--lexical",), ()])
def test_a_corpus_can_be_indexed_in_memory(here, options) -> None:
    stderr = (
        "warning: corpus.jsonl is not an index and is indexed in memory for this query; "
        "to store one, run: secondpass index corpus.jsonl --into FOLDER\n"
    )
    in_memory = asked("-q", "owl", "--corpus", "corpus.jsonl", *options, stderr=stderr)
    kept = asked("-q", "owl", "--corpus", "index", *options)
    assert in_memory["results"] == kept["results"]


def test_words_only_are_searched_by_words_only(here) -> None:
    words = ("-q", "owl", "--corpus", "words")
    assert asked(*words, "--lexical") == asked(*OWL[2:], "-q", "owl", "--lexical") | {
        "corpus": "words"
    }
    for options in ((), ("--vector",)):
        done = call(*words, *options)
        source = here / "corpus.jsonl"
        assert done.exit_code == 1
        assert done.stderr == (
            "secondpass: words: has no vectors; use --lexical, or add vectors: "
            f"secondpass index {source} --into words\n"
        )


def test_without_the_extra_vectors_are_told_to_need_it(here, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    install = 'pip install "secondpass[embedded]"'
    assert asked(*OWL, "--lexical")["results"]
    for corpus in ("index", "words", "corpus.jsonl"):
        done = call("-q", "owl", "--corpus", corpus)
        assert done.exit_code == 1
        assert install in done.stderr
        assert "--lexical" in done.stderr
        assert done.stdout == ""


def test_a_stale_index_is_told_not_served(own) -> None:
    search = ("-q", "owl", "--corpus", "index", "--lexical")
    write_corpus("corpus.jsonl", [*CORPUS, Candidate("A new owl.", "new")])
    renew = f"secondpass index {own / 'corpus.jsonl'} --into index --words-only"
    done = call(*search)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "secondpass: index: is stale: corpus.jsonl has changed. "
        f"To rebuild it, run: {renew}. To search it as it is, use --stale-ok\n"
    )
    stderr = "warning: index: searching a stale index: corpus.jsonl has changed\n"
    assert "new" not in [
        one["id"] for one in asked(*search, "--stale-ok", stderr=stderr)["results"]
    ]
    CliRunner().invoke(app, renew.split()[1:])
    assert "new" in [one["id"] for one in asked(*search)["results"]]


def cut(own: Path) -> None:
    part = next(own.glob("index/parts-*/passages.jsonl"))
    part.write_bytes(part.read_bytes()[:-9])


LEXICAL = ("-q", "owl", "--lexical", "--corpus")


@pytest.mark.parametrize(
    ("spoil", "arguments", "code", "told"),
    [
        (
            cut,
            (*LEXICAL, "index"),
            1,
            "index: its part passages.jsonl was changed: its size differs",
        ),
        (Path.mkdir, (*LEXICAL, "empty"), 1, "empty: has no text to search"),
        (None, ("--corpus", "index"), 2, "missing QUESTION"),
        (None, (*LEXICAL, "index", "--explain", "owls"), 2, "--explain: needs --rerank"),
        (None, ("-q", " ", "--corpus", "index"), 2, "the question is empty"),
        (None, ("-q", "owl"), 2, "--corpus"),
        (None, (*LEXICAL, "index", "--k", 0), 2, "--k"),
        (None, (*LEXICAL, "index", "--rerank-top-n", 0), 2, "--rerank-top-n"),
        (None, (*LEXICAL, "index", "--rrf-k", -1), 2, "--rrf-k"),
        (None, (*LEXICAL, "index", "--vector"), 2, "--hybrid, --vector, --lexical: give one"),
    ],
)
def test_faults_are_told_in_a_sentence(own, spoil, arguments, code, told) -> None:
    if spoil is Path.mkdir:
        (own / "empty").mkdir()
    elif spoil:
        spoil(own)
    done = call(*arguments)
    assert done.exit_code == code
    assert told in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


# ------------------------------------------------------------------ as a process


def test_a_terminal_gets_a_table(own) -> None:
    write_corpus(
        "corpus.jsonl",
        [Candidate("owl \x1b[31m" + "word " * 99, "a\x07", metadata={"title": "T [bold]x"})],
    )
    build_index("corpus.jsonl", "index")
    output = on_a_terminal("query", "-q", "owl", "--corpus", "index", "--lexical", "--rerank",
                           "-p", "lexical")  # fmt: skip
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)
    assert re.search(r"# +was +score +reranked +final", plain)
    assert "T [bold]x" in output
    assert "\x1b[31m" not in output
    assert "\x07" not in output
    assert "…" in output
    assert "{" not in output
    assert json.loads(on_a_terminal(*"query -q owl --corpus index --lexical --json".split()))
    assert "No results." in on_a_terminal(*"query -q zebra --corpus index --lexical".split())


def test_the_best_window_is_shown(own) -> None:
    text = "Cats sleep here. " * 20 + "Owls bark there."
    write_corpus("corpus.jsonl", [Candidate(text, "long"), Candidate("Owls bark", "short")])
    build_index("corpus.jsonl", "index")
    options = ("-q", "bark", "--corpus", "index", "--lexical", "--rerank", "-p", "lexical")
    plain = asked(*options)["results"]
    assert not any("span" in row for row in plain)
    options += ("--set", "passages={size: 20, overlap: 0}")
    rows = {row["id"]: row for row in asked(*options)["results"]}
    assert text[slice(*rows["long"]["span"])] == "Owls bark there."
    assert rows["short"]["span"] == [0, 9]
    assert "…Owls bark there." in on_a_terminal("query", *options)


def test_the_table_shows_what_it_is_sorted_by(own) -> None:
    options = ("-q", "owl", "--corpus", "index", "--lexical", "--rerank", "-p", "lexical")
    blend = ("--set", "blend={original: 0.9, normalize: minmax}", "--k", 3)
    rows = json.loads(call(*options, *blend).stdout)["results"]
    finals = [one["final_score"] for one in rows]
    assert finals == sorted(finals, reverse=True)
    assert finals != [one["rerank_score"] for one in rows]
    output = on_a_terminal("query", *options, *map(str, blend))
    for one in rows:
        numbers = [one["score"], one["rerank_score"], one["final_score"]]
        cells = [str(one["final_rank"]), str(one["retrieval_rank"])]
        cells += [f"{number:.4f}" for number in numbers]
        assert re.search(" +".join(map(re.escape, cells)), output)


def test_results_are_explained(here) -> None:
    rerank = ["--lexical", "--rerank", "--preset", "lexical"]
    done = call("-q", "owl", "--corpus", "words", *rerank, "--explain", "owls", "--explain", "far")
    (explanation,) = json.loads(done.stdout)["explanations"]
    (row,) = [row for row in json.loads(done.stdout)["results"] if row["id"] == "owls"]
    assert explanation["rank"] == row["final_rank"]
    assert explanation["retrieval_rank"] == row["retrieval_rank"]
    assert "--explain far: was not retrieved" in done.stderr


def test_the_question_is_an_argument_too(here) -> None:
    options = ["--corpus", "words", "--lexical"]
    assert call("owl night", *options).stdout == call("-q", "owl night", *options).stdout
    both = call("owl", "-q", "owl", *options)
    assert (both.exit_code, "QUESTION, --question: give one of them" in both.stderr) == (2, True)
    none = call(*options)
    assert (none.exit_code, "missing QUESTION" in none.stderr) == (2, True)


# ---------------------------------------------------------------------- results of a search
