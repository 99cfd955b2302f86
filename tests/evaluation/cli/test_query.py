"""``secondpass query``."""

import json
import re
import sys

import pytest

from fakes import Model
from remembered_model import remember
from secondpass import Candidate, MissingExtraError, Reranker
from secondpass_evaluation import HybridRetriever, write_corpus
from secondpass_evaluation.cli.query import _passage
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
MANY = [Candidate(f"owl {'a ' * (at % 8)}", f"d{at}") for at in range(240)]
OWL = ("owl at night", "--corpus", "index")
LEXICAL = ("--lexical", "--rerank", "--preset", "lexical")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    """Two corpora; of the first, indexes with vectors and without, of the second without."""
    folder = tmp_path_factory.mktemp("indexed")
    (folder / "empty").mkdir()
    write_corpus(folder / "corpus.jsonl", CORPUS)
    write_corpus(folder / "many.jsonl", MANY)
    with pytest.MonkeyPatch.context() as patch:
        remember(patch)
        build_index(folder / "corpus.jsonl", folder / "index", default_embedder())
    build_index(folder / "corpus.jsonl", folder / "words")
    build_index(folder / "many.jsonl", folder / "many")
    return folder


@pytest.fixture
def here(indexed, monkeypatch):
    monkeypatch.chdir(indexed)
    return indexed


@pytest.fixture
def index_of(tmp_path, monkeypatch):
    """Writes a corpus and an index of its words in a folder of the test."""
    monkeypatch.chdir(tmp_path)

    def build(*corpus):
        write_corpus("corpus.jsonl", corpus)
        build_index("corpus.jsonl", "index")

    return build


@pytest.fixture
def query(secondpass):
    """The record of a query that succeeds and prints this to standard error."""

    def call(*arguments, stderr=""):
        told = secondpass("query", *arguments)
        assert (told.code, told.err) == (0, stderr)
        return json.loads(told.out)

    return call


def ids(record):
    return [row["id"] for row in record["results"]]


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        (("--vector",), "vector"),
        (("--lexical",), "lexical"),
        (("--rrf-k", 5), "hybrid"),
        (("--hybrid", "--rrf-k", 5), "hybrid"),
    ],
)
def test_each_mode_is_that_of_the_retriever(here, query, options, mode):
    record = query(*OWL, *options, "--top-k", 3)
    expected = HybridRetriever(CORPUS, EmbeddedEmbedder()).retrieve("owl at night", 3, mode, 5)
    assert record["mode"] == mode
    assert record["results"] == [
        {
            "final_rank": rank,
            "id": item.id,
            "score": item.score,
            "text": item.text,
            "metadata": dict(item.metadata),
        }
        for rank, item in enumerate(expected, 1)
    ]
    assert ("rrf_k" in record) == (mode == "hybrid")
    assert "report" not in record


ALONE = "warning: --vector: the results of the vector search alone are reranked\n"


@pytest.mark.parametrize(
    ("options", "mode", "warned"),
    [
        ((), "hybrid+rerank", ""),
        (("--vector",), "vector+rerank", ALONE),
    ],
)
def test_what_is_found_is_reranked(here, query, options, mode, warned):
    record = query(*OWL, *options, "--rerank", "--preset", "lexical", stderr=warned)
    rows = record["results"]
    assert (record["mode"], record["rerank_top_n"]) == (mode, 50)
    assert (record["report"]["status"], record["report"]["method"]) == ("ok", "lexical")
    assert [row["final_rank"] for row in rows] == [1, 2, 3, 4, 5]
    assert sorted(row["retrieval_rank"] for row in rows) == [1, 2, 3, 4, 5]
    scores = [row["rerank_score"] for row in rows]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("config", "options", "judged", "retrieved", "depth"),
    [
        ("", (), 50, 50, 50),
        ("depth: 70", (), 70, 70, 70),
        ("depth: 70", ("--rerank-top-n", 20), 20, 20, 20),
        ("depth: {env: OWL_DEPTH, default: 9}", (), 11, 11, 11),
        ("depth: null", (), 100, 100, None),
        ("depth: null", ("--top-k", 150), 150, 150, None),
        ("depth: 70\ncandidate_multiplier: 4", ("--top-k", 5), 20, 20, 70),
        ("depth: 10\ncandidate_multiplier: 4", ("--top-k", 5), 10, 20, 10),
    ],
)
def test_how_many_are_retrieved_and_judged(
    here, query, write, monkeypatch, config, options, judged, retrieved, depth
):
    monkeypatch.setenv("OWL_DEPTH", "11")
    file = write("c.yaml", f"method: lexical\n{config}\n")
    record = query("owl", "--corpus", "many", "--lexical", "--rerank", "-c", file, *options)
    assert record["report"]["usage"]["pairs"] == judged
    assert (record["retrieved"], record["rerank_top_n"]) == (retrieved, depth)
    assert len(record["results"]) == min(retrieved, record["top_k"])


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ((), 8),
        (("--set", "top_k=3"), 3),
        (("--set", "top_k=3", "-k", 4), 4),
        (("-k", 2), 2),
    ],
)
def test_the_number_of_results_is_that_of_the_option_or_the_configuration(
    here, query, options, number
):
    record = query("owl", "--corpus", "many", *LEXICAL, *options)
    assert (len(record["results"]), record["top_k"]) == (number, number)


def test_an_order_can_be_given(here, query):
    call = ("owl", "--corpus", "many", *LEXICAL, "--top-k", 5)
    plain, ordered = ids(query(*call)), ids(query(*call, "--order", "lost_in_the_middle"))
    assert ordered == [*plain[::2], *plain[1::2][::-1]]


def test_the_load_of_the_model_takes_nothing_of_the_deadline(here, query, monkeypatch):
    class Slow:
        score_kind, warmed = "unbounded", 0

        def warm_up(self):
            self.warmed += 1

        def score_pairs(self, _query, documents):
            return [float(self.warmed)] * len(documents)

    reranker = Reranker(Slow(), limits={"deadline": 9})
    monkeypatch.setattr("secondpass.cli.options.load", lambda _config: reranker)
    record = query(*OWL, *LEXICAL)
    assert {row["rerank_score"] for row in record["results"]} == {1.0}


def test_an_instruction_reaches_the_model(here, query, monkeypatch):
    model = Model(lambda shown: json.dumps({"ranking": [*shown][::-1]}))
    reranker = Reranker({"type": "listwise", "llm": model})
    monkeypatch.setattr("secondpass.cli.options.load", lambda _config: reranker)
    query(*OWL, *LEXICAL, "--instruction", "prefer owls")
    (prompt,) = model.prompts
    assert "<instruction>prefer owls</instruction>" in prompt.turns[0].text


@pytest.mark.parametrize(
    "option",
    [
        ("--order", "none"),
        ("--rerank-top-n", 3),
        ("--instruction", "prefer owls"),
        ("--set", "depth=3"),
    ],
)
def test_options_without_reranking_are_warned_of(here, query, option):
    message = "warning: options of the reranker have no effect without --rerank\n"
    query(*OWL, *option, stderr=message)


def test_a_dry_run_estimates_the_reranking_of_what_is_found(here, secondpass, priced):
    call = ("query", "ship", "--corpus", "words", "--lexical", "--rerank", "-c", priced)
    told = secondpass(*call, "--dry-run")
    estimate = json.loads(told.out)
    assert (told.code, estimate["queries"], estimate["candidates"]) == (0, 1, 1)
    assert estimate["total"]["calls"] == 1


@pytest.mark.long  # imports torch
def test_the_model_can_be_another(here, query, tmp_path):
    model = write_classifier(tmp_path / "tiny")
    options = ("--rerank-model", model, "--device", "cpu")
    record = query(*OWL, "--rerank", *options)
    assert (record["report"]["status"], record["report"]["method"]) == ("ok", str(model))


@pytest.mark.parametrize(
    ("options", "status", "warning"),
    [
        (["--rerank-model", "./absent"], "degraded", "a fallback gave the order (all-"),
        (
            ["-s", "method.model=./absent", "-s", "fallback=[]"],
            "unchanged",
            "the results were not reranked: ",
        ),
    ],
)
def test_what_was_not_reranked_as_configured_is_warned_of(
    here, secondpass, query, options, status, warning
):
    told = secondpass("query", *OWL, "--rerank", *options)
    record = json.loads(told.out)
    assert (told.code, record["report"]["status"]) == (0, status)
    assert told.err.startswith(f"warning: {warning}")
    assert told.err.count("\n") == 1
    if status == "unchanged":
        assert ids(record) == ids(query(*OWL))
        assert {row["rerank_score"] for row in record["results"]} == {None}


GERMAN = [
    "Der Leuchtturm auf der Insel wurde im vergangenen Jahrhundert aus roten Ziegeln gebaut.",
    "Die alte Brücke über den Fluss ist seit dem Frühjahr wegen der Arbeiten geschlossen.",
    "Im Herbst werden die Äpfel von den Kindern der Schule im Garten gesammelt.",
]


def test_a_list_that_is_not_english_was_not_reranked_by_a_fallback(index_of, secondpass):
    index_of(*(Candidate(text, str(place)) for place, text in enumerate(GERMAN)))
    options = ("--corpus", "index", "--lexical", "--rerank", "--preset", "embedded")
    told = secondpass("query", "Wann wurde der Leuchtturm auf der Insel gebaut?", *options)
    assert json.loads(told.out)["report"]["degraded_by"] == ["language"]
    assert told.err.startswith("warning: query or texts are not English, so the original order ")
    assert "fallback" not in told.err


# ------------------------------------------------------------------ what is searched


@pytest.mark.parametrize("options", [("--lexical",), ()])
def test_a_corpus_can_be_indexed_in_memory(here, query, options):
    warning = (
        "warning: corpus.jsonl is not an index and is indexed in memory for this query; "
        "to store one, run: secondpass index corpus.jsonl --into FOLDER\n"
    )
    in_memory = query("owl", "--corpus", "corpus.jsonl", *options, stderr=warning)
    assert in_memory["results"] == query("owl", "--corpus", "index", *options)["results"]


def test_words_only_are_searched_by_words_only(here, secondpass, query):
    in_words = query("owl", "--corpus", "words", "--lexical")
    assert in_words == query("owl", "--corpus", "index", "--lexical") | {"corpus": "words"}
    for options in ((), ("--vector",)):
        told = secondpass("query", "owl", "--corpus", "words", *options)
        assert (told.code, told.err) == (
            1,
            "secondpass: words: has no vectors; use --lexical, or add vectors: "
            f"secondpass index {here / 'corpus.jsonl'} --into words\n",
        )


def test_without_the_extra_vectors_are_told_to_need_it(here, secondpass, query, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert query(*OWL, "--lexical")["results"]
    for corpus in ("index", "words", "corpus.jsonl"):
        told = secondpass("query", "owl", "--corpus", corpus)
        assert (told.code, told.out) == (1, "")
        assert MissingExtraError("embedded", "it").command in told.err
        assert "--lexical" in told.err


def test_a_stale_index_is_searched_on_request_only(index_of, secondpass, query, tmp_path):
    index_of(*CORPUS)
    write_corpus("corpus.jsonl", [*CORPUS, Candidate("A new owl.", "new")])
    search = ("owl", "--corpus", "index", "--lexical")
    renew = f"secondpass index {tmp_path / 'corpus.jsonl'} --into index --words-only"
    told = secondpass("query", *search)
    assert (told.code, told.out) == (1, "")
    assert told.err == (
        "secondpass: index: is stale: corpus.jsonl has changed. "
        f"To rebuild it, run: {renew}. To search it as it is, use --stale-ok\n"
    )
    warning = "warning: index: searching a stale index: corpus.jsonl has changed\n"
    assert "new" not in ids(query(*search, "--stale-ok", stderr=warning))
    secondpass(*renew.split()[1:])
    assert "new" in ids(query(*search))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--corpus", "words"], 2, "missing QUESTION"),
        ([*OWL, "-q", "owl"], 2, "QUESTION, --question: give one of them"),
        ([" ", "--corpus", "words"], 2, "the question is empty"),
        (["owl"], 2, "--corpus"),
        (["owl", "--corpus", "empty", "--lexical"], 1, "empty: has no text to search"),
        ([*OWL, "--explain", "owls"], 2, "--explain: needs --rerank"),
        ([*OWL, "--dry-run"], 2, "--dry-run: needs --rerank"),
        ([*OWL, "--top-k", 0], 2, "--top-k"),
        ([*OWL, "--rerank-top-n", 0], 2, "--rerank-top-n"),
        ([*OWL, "--rrf-k", -1], 2, "--rrf-k"),
        ([*OWL, "-f", "table", "--json"], 2, "--json, --format: give one of them"),
        ([*OWL, "-f", "jsonl"], 2, "must be one of 'json', 'table', not 'jsonl'; did you mean"),
        ([*OWL, "--rrf-k", "inf"], 2, "--rrf-k: must be a finite number"),
        ([*OWL, "--lexical", "--vector"], 2, "--hybrid, --vector, --lexical: give one of them"),
    ],
)
def test_errors(here, secondpass, arguments, code, message):
    told = secondpass("query", *arguments)
    assert (told.code, message in told.flat, told.out) == (code, True, ""), told.err


def test_the_question_may_be_an_option(here, query):
    options = ("--corpus", "words", "--lexical")
    assert query("-q", "owl night", *options) == query("owl night", *options)


# ------------------------------------------------------------------ what is shown


def test_a_terminal_gets_a_table(index_of):
    text = "owl \x1b[31m" + "word " * 99
    index_of(Candidate(text, "a\x07", metadata={"title": "T [bold]x"}))
    shown = on_a_terminal("query", "owl", "--corpus", "index", *LEXICAL)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"# +was +score +reranked +final", plain)
    assert "T [bold]x" in shown
    assert not [part for part in ("\x1b[31m", "\x07", "{") if part in shown]
    assert "…" in shown
    assert json.loads(on_a_terminal(*"query owl --corpus index --lexical --json".split()))
    assert "No results." in on_a_terminal(*"query zebra --corpus index --lexical".split())


def test_the_format_can_be_chosen(here, secondpass):
    call = ("query", "owl", "--corpus", "words", *LEXICAL)
    for options in (["-f", "json"], ["--format", "json", "--json"]):
        shown = json.loads(on_a_terminal(*call, *options))
        assert ids(shown) == ids(json.loads(secondpass(*call).out))
    told = secondpass(*call, "--format", "table")
    assert (told.code, told.out.split()[:3]) == (0, ["#", "was", "score"]), told.err
    assert "status ok" in told.err
    dry = secondpass(*call, "--format", "table", "--dry-run")
    assert (dry.code, dry.out.split()[0]) == (0, "model"), dry.err


@pytest.mark.parametrize("width", [60, 80, 130])
def test_scores_are_shown_beside_a_long_text_and_id(index_of, width):
    name = "handbook/" * 9
    index_of(Candidate("owl " * 99, name), Candidate("Owls bark", "short"))
    shown = on_a_terminal("query", "owl", "--corpus", "index", *LEXICAL, columns=width)
    lines = [line for line in shown.splitlines() if line.strip()]
    heading = next(line for line in lines if line.startswith("#"))
    assert heading.split() == ["#", "was", "score", "reranked", "final"]
    assert re.search(r"^1 +\d( +\d+\.\d{4}){3}  \w", shown, re.MULTILINE)
    start = len(heading) + 2
    assert name in "".join(line[start:] for line in lines[lines.index(heading) + 1 :])


def test_the_best_window_is_shown(index_of, query):
    text = "Cats sleep here. " * 20 + "Owls bark there."
    index_of(Candidate(text, "long"), Candidate("Owls bark", "short"))
    call = ("bark", "--corpus", "index", *LEXICAL)
    assert not any("span" in row for row in query(*call)["results"])
    call += ("--set", "passages={size: 20, overlap: 0}")
    spans = {row["id"]: row["span"] for row in query(*call)["results"]}
    assert text[slice(*spans["long"])] == "Owls bark there."
    assert spans["short"] == [0, 9]
    assert "…Owls bark there." in on_a_terminal("query", *call)


def test_the_table_shows_what_it_is_sorted_by(here, query):
    call = ["owl", "--corpus", "words", *LEXICAL, "--top-k", "3"]
    call += ["--set", "blend={original: 0.9, normalize: minmax}"]
    rows = query(*call)["results"]
    finals = [row["final_score"] for row in rows]
    assert finals == sorted(finals, reverse=True)
    assert finals != [row["rerank_score"] for row in rows]
    shown = on_a_terminal("query", *call)
    for row in rows:
        numbers = [row["score"], row["rerank_score"], row["final_score"]]
        cells = [str(row["final_rank"]), str(row["retrieval_rank"])]
        cells += [f"{number:.4f}" for number in numbers]
        assert re.search(" +".join(map(re.escape, cells)), shown)


STATUS_LINES = [
    # options of the reranker, the last line
    ((), r"reranking: status ok, method lexical, \d\.\d s"),
    (
        ("-s", "when={words: {at_least: 9}}"),
        r"reranking: status ok, skipped: words 1 is not at least 9, \d\.\d s",
    ),
    (
        ("-s", "method={type: cross_encoder, model: ./absent}", "-s", "fallback=[]"),
        r"reranking: status unchanged, \d\.\d s",
    ),
]


@pytest.mark.parametrize(("options", "line"), STATUS_LINES)
def test_the_table_ends_with_status_method_and_time(here, options, line):
    call = ("query", "owl", "--corpus", "words", *LEXICAL, *options)
    shown = on_a_terminal(*call, columns=100)
    assert re.fullmatch(line, shown.strip().splitlines()[-1])


def test_the_table_says_that_another_score_decides_its_order(secondpass, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert secondpass("example", "demo").code == 0
    assert secondpass("index", "demo/docs", "--into", "index").code == 0
    question = "How do I cancel an order?"
    call = ["query", question, "--corpus", "index", "--rerank", "--preset"]
    line = "final uses the score in this list, which also depends on the other results"
    shown = {name: on_a_terminal(*call, name, columns=100) for name in ("embedded", "lexical")}
    found = secondpass(*call, "lexical", "--json").out
    found = "".join(f"{json.dumps(row)}\n" for row in json.loads(found)["results"])
    call = ["rerank", "-q", question, "--format", "table", "--preset"]
    for name in ("embedded", "lexical"):
        shown[f"rerank {name}"] = secondpass(*call, name, stdin=found.encode()).out
    assert {name: line in table for name, table in shown.items()} == {
        "embedded": True,
        "lexical": False,
        "rerank embedded": True,
        "rerank lexical": False,
    }


HEADINGS = [
    # title, text, what is shown in a line below the id and the title
    ("Owls", "# Owls\n\nThey hunt an owl.", "They hunt an owl."),
    ("Owls > Food", "# Owls\n\n## Food ##\n\nMice, says the owl.", "Mice, says the owl."),
    ("Owls > Mice", "# Owls\n## Food\n### Mice\nAn owl eats.", "Food An owl eats."),
    ("Owls", "Owls\n====\n\nAn owl.", "An owl."),
    ("A page > Owls", "Owls\n\nAn owl of HTML.", "An owl of HTML."),
    ("Birds", "# Owl", "Owl"),
    ("Birds", "# Owl C#\n## #\nx", "Owl C# x"),
    ("Owl", "# Owl", ""),
    ("Birds", "#owl is no heading", "#owl is no heading"),
    ("Birds", "An owl\n\n# a comment", "An owl # a comment"),
]


@pytest.mark.parametrize(("title", "text", "shown"), HEADINGS)
def test_headings_are_shown_once_and_without_marks(index_of, query, title, text, shown):
    index_of(Candidate(text, "d", metadata={"title": title}))
    call = ("owl", "--corpus", "index", "--lexical")
    (row,) = query(*call)["results"]
    assert row["text"] == text
    lines = [line.strip() for line in on_a_terminal("query", *call, columns=100).splitlines()]
    start = next(place for place, line in enumerate(lines) if line.endswith(f"d  {title}"))
    assert lines[start + 1] == shown


@pytest.mark.parametrize(("start", "shown"), [(0, "An"), (8, "An"), (11, "…owl")])
def test_no_ellipsis_stands_for_a_heading(start, shown):
    row = {"id": "d", "text": "# Owls\n\nAn owl.", "metadata": {"title": "Owls"}}
    assert _passage(row | {"span": [start, 15]}).plain.split("\n")[1].split()[0].strip(".") == shown


UNKNOWN = "secondpass: --explain {}: the search did not find this id; {}\n"


@pytest.mark.parametrize(
    ("identifier", "hint"),
    [("howls", "did you mean 'owls'?"), ("far", "ids are, for example: owls, owl, mouse")],
)
def test_an_id_that_was_not_found_is_an_error(here, secondpass, identifier, hint):
    call = ("query", "owl", "--corpus", "words", *LEXICAL, "--explain", "owls")
    told = secondpass(*call, "--explain", identifier)
    assert (told.code, told.err) == (1, UNKNOWN.format(identifier, hint))
    assert [item["id"] for item in json.loads(told.out)["explanations"]] == ["owls"]


def test_nothing_found_is_nothing_to_explain(here, secondpass):
    told = secondpass("query", "zzz", "--corpus", "words", *LEXICAL, "--explain", "owls")
    assert (told.code, told.err) == (1, "secondpass: --explain owls: the search found nothing\n")


def test_results_are_explained(here, query):
    call = ("owl", "--corpus", "words", *LEXICAL, "--explain", "owls")
    record = query(*call)
    (explanation,) = record["explanations"]
    (row,) = [row for row in record["results"] if row["id"] == "owls"]
    assert explanation["rank"] == row["final_rank"]
    assert explanation["retrieval_rank"] == row["retrieval_rank"]


def test_a_result_has_all_that_rerank_writes_of_it(here, query):
    fitted = ("--set", "probabilities={intercept: 0, slope: 1}")
    record = query("owl", "--corpus", "words", *LEXICAL, *fitted)
    assert record["results"]
    for row in record["results"]:
        assert row["rank"] == row["final_rank"]
        assert row["position"] + 1 == row["retrieval_rank"]
        assert 0 < row["probability"] < 1
        assert {"status", "score", "rerank_score", "final_score", "text", "metadata"} <= {*row}


@pytest.mark.parametrize(("floor", "count"), [(2, 3), (-1, 0)])
def test_the_table_says_what_is_below_the_threshold(here, floor, count):
    call = ("query", *OWL, *LEXICAL, "--set", f"floor={floor}", "--set", "blend.normalize=minmax")
    shown = " ".join(on_a_terminal(*call, "--set", "blend.original=0.1", columns=100).split())
    line = (
        f"{count} of {count} candidates are below the threshold {floor} and left out; --explain ID"
    )
    assert (line in shown, "No results." in shown) == (count > 0, count > 0)
