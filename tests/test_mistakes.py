"""What is often passed by mistake: the message says what to write."""

import asyncio
import inspect
import re
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import secondpass
from secondpass import Candidate, Ranking, Request, Reranker, SecondPassError, config, fuse
from secondpass.extend import Completion, Judgement
from secondpass.limits import Prices
from secondpass.settings.arguments import explained
from secondpass_evaluation import HybridRetriever, compare
from secondpass_server.mcp.tools import create_server

RERANKER = Reranker("lexical")
TEXTS = ["A cat sleeps.", "An owl hunts."]
RANKING = RERANKER.rerank("owl", TEXTS)


class Frame:
    """Stands for a DataFrame of pandas, which iterates over the names of its columns."""

    def iterrows(self):
        return iter(())

    def __iter__(self):
        return iter(["id", "text"])


class Series:
    """A row of a DataFrame."""

    def to_dict(self):
        return {}


async def streamed(*args):
    return [ranking async for ranking in RERANKER.astream(*args)]


RECORDS = "df.to_dict('records')"
CANDIDATES = {
    "string": ("An owl hunts.", "not a str; for a single text, give [text]"),
    "texts by id": ({1: "A cat.", 2: "An owl."}, "give [{'id': id, 'text': text} for id, text in"),
    "mapping": ({"text": "An owl."}, "not a dict; for a single one, give [candidate]"),
    "columns": ({"ids": ["1"], "documents": ["An owl."]}, "give a mapping for each candidate"),
    "frame": (Frame(), f"not a Frame; its rows are {RECORDS}"),
    "rows": ([(0, Series())], f"the rows of a DataFrame are {RECORDS}"),
    "pairs": ([("1", "An owl.")], "for an id and a text, give {'id': …, 'text': …}"),
    "scores": ([("An owl.", 0.5)], "give {'text': …, 'score': …}"),
    "lists": ([TEXTS], "for the candidates of several queries, use rerank_many"),
    "vectors": (np.zeros((2, 3)), "candidates[0]: give a string, a mapping, a Candidate or an"),
    "nothing": (None, "not None"),
}
"""What may be passed in place of a list of candidates, and a part of the message."""


@pytest.mark.parametrize("name", CANDIDATES)
def test_in_place_of_a_list_of_candidates(name):
    values, part = CANDIDATES[name]
    for call in (
        lambda: RERANKER.rerank("owl", values),
        lambda: asyncio.run(RERANKER.arerank("owl", values)),
        lambda: asyncio.run(streamed("owl", values)),
        lambda: RERANKER.rerank_many([("owl", values)]),
        lambda: RERANKER.plan(values),
        lambda: fuse({"words": values}) if values is not None else RERANKER.rerank("owl", None),
        lambda: RERANKER.store(values),
    ):
        with pytest.raises(SecondPassError, match=re.escape(part.replace("candidates[0]: ", ""))):
            call()


def test_code_in_a_hint_about_candidates():
    texts = {1: "A cat.", 2: "An owl."}
    with pytest.raises(SecondPassError) as caught:
        RERANKER.rerank("owl", texts)
    (code,) = re.findall(r"give (\[.*\])", str(caught.value))
    assert RERANKER.rerank("owl", eval(code, {"texts": texts}))[0].id == 2
    with pytest.raises(SecondPassError) as caught:
        RERANKER.rerank_many({"owl": TEXTS})
    (code,) = re.findall(r"give (\[.*\])", str(caught.value))
    assert RERANKER.rerank_many(eval(code, {"requests": {"owl": TEXTS}}))[0][0].position == 1


class WrongScorer:
    model_name = "own"

    def score_pairs(self, pairs):
        return [1.0 for _ in pairs]


class WrongMethod:
    name, score_kind, scale = "own", "unbounded", None

    def judge(self):
        return []


class AsyncScorer(WrongScorer):
    async def score_pairs(self, query, documents):
        return [1.0 for _ in documents]


class AsyncMethod(WrongMethod):
    async def judge(self, task):
        return []


class Predicts:
    """As a CrossEncoder of sentence-transformers."""

    def predict(self, pairs):
        return [float(len(text)) for _, text in pairs]


class HuggingFaceCrossEncoder:
    """As that of LangChain."""

    def score(self, pairs):
        return [float(len(text)) for _, text in pairs]


class Callable:
    def __call__(self, query, documents):
        return [1.0 for _ in documents]


def two_arguments(query, documents):
    return documents


PREDICTED = "model.predict([(query, text) for text in documents])"
METHOD_OF_PRESET = "a method: write that of the preset, {'type': 'cross_encoder', 'model': 'cross-"
ENDPOINT = {"type": "endpoint", "api": "tei", "base_url": "http://127.0.0.1:9"}
OTHER_PACKAGE = {"model": "m", "query": "owl", "documents": TEXTS, "top_n": 2}
CALLS = [
    (lambda: RERANKER.rerank(TEXTS, "owl"), "query: give a string, not a list; it comes first"),
    (lambda: RERANKER.rerank(TEXTS), "query: give a string, not a list; it comes first"),
    (lambda: RERANKER.rerank("owl"), "missing 1 required positional argument: 'candidates'"),
    (lambda: RERANKER.rerank_many("owl"), "not a str; for one query, use rerank(query, candidates"),
    (RERANKER.rerank_many, "missing 1 required positional argument: 'requests'"),
    (lambda: RERANKER.rerank_many(queries=["owl"]), "use rerank_many([(query, candidates), …])"),
    (lambda: RERANKER.rerank_many(Frame()), "requests: give (query, candidates) pairs, not a Fra"),
    (
        lambda: RERANKER.rerank_many([{"query": "owl", "candidates": TEXTS}]),
        "requests[0]: give (query, candidates), not a dict; use rerank_many([(it['query'], ",
    ),
    (lambda: RERANKER.rerank_many([("owl", "An owl.")]), "for a single text, give [text]"),
    (lambda: RERANKER.store("An owl."), "passages: give a sequence of strings"),
    (lambda: fuse([TEXTS, TEXTS]), "lists: give a mapping of lists by name, not a list, such as"),
    (lambda: fuse({"words": TEXTS}, weights=[1]), "weights: give a mapping of numbers by name"),
    (lambda: RANKING.explain(RANKING[0]), "give its id, or explain(position=item.position)"),
    (lambda: RERANKER.rerank_many(docs=TEXTS), "did you mean 'requests'? They are [(query, cand"),
    (lambda: RERANKER.rerank_many(request=1), "did you mean 'requests'?"),
    (lambda: RERANKER.rerank("owl", None), "candidates: give a sequence of strings, mappings or"),
    (lambda: RERANKER.rerank("owl", b"owl"), ", not bytes"),
    (lambda: RERANKER.rerank("owl", TEXTS, blend={}), "use reranker.changed(blend=…).rerank(…)"),
    (lambda: RERANKER.rerank("owl", [{"body": "owl"}]), "; name the text 'text', or set render.f"),
    (lambda: Reranker(WrongScorer()), "method: score_pairs must take (query, documents)"),
    (lambda: Reranker(AsyncScorer()), "write 'def score_pairs', not 'async def'"),
    (lambda: Reranker(AsyncMethod()), "write 'def judge', not 'async def'"),
    (lambda: Reranker(two_arguments), "put it into a class, as score_pairs(self, query, docum"),
    (lambda: Reranker(Path("a.yaml")), "if it is a file, use Reranker.from_config('a.yaml')"),
    (lambda: Reranker(Callable()), "put it into a class, as score_pairs(self, query, docum"),
    (lambda: Reranker(Predicts()), f"returns {PREDICTED}; coming from another package"),
    (lambda: Reranker("lexical", fallback=[Predicts()]), f"returns {PREDICTED}; coming from"),
    (lambda: Reranker("lexical", fallback=["default"]), METHOD_OF_PRESET),
    (lambda: Reranker("lexical", fallback=["Default"]), METHOD_OF_PRESET),
    (
        lambda: Reranker("lexical", fallback=["a.yaml"]),
        "it has a whole reranker; a fallback or a stage is a method: write that of the file",
    ),
    (lambda: Reranker("lexical", fallback=[{"preset": "default"}]), METHOD_OF_PRESET),
    (lambda: Reranker({"type": "cascade", "stages": ["default"]}), METHOD_OF_PRESET),
    (
        lambda: Reranker.from_preset("cheap", method={"llm": {"model": "m"}}),
        "method.llm: unknown key; it is a setting of stage 2, 'graded': write all stages, "
        "method={'stages': [{'type': 'embedded', 'depth': 50}, {'type': 'graded', 'depth': 10, ",
    ),
    (
        lambda: Reranker(preset="embedded"),
        "Reranker: preset: unknown key; use Reranker.from_preset('embedded')",
    ),
    (lambda: Reranker({"preset": "embedded"}), "use Reranker.from_preset('embedded')"),
    (lambda: RANKING.explain(0), "they have no ids: use explain(position=0)"),
    (lambda: RANKING.explain("a"), "they have no ids: use explain(position=…)"),
    (
        lambda: Reranker(ENDPOINT).rerank(**OTHER_PACKAGE),
        "Reranker({'type': 'endpoint', 'api': …, 'model': …})",
    ),
    (
        lambda: RERANKER.rerank(**OTHER_PACKAGE),
        "Reranker({'type': 'cross_encoder', 'model': …})",
    ),
    (
        lambda: Reranker(ENDPOINT).rerank(**OTHER_PACKAGE),
        "\n  'documents'; did you mean 'candidates'?\n  'top_n'; did you mean 'top_k'?",
    ),
    (lambda: Reranker(ENDPOINT, rank_fields=["title"]), "of 'render': use render={'fields': …}"),
    (lambda: Reranker({**ENDPOINT, "client": 1}), "the method has its own client, whose key"),
    (lambda: Reranker(HuggingFaceCrossEncoder()), "; use {'type': 'cross_encoder', 'model': …};"),
    (lambda: Reranker({"model": "a/b"}), "write {'type': 'cross_encoder', 'model': …} for a model"),
    (lambda: Reranker("rankgpt", api_key="k"), "'model': …, 'api_key_env': …}}), or 'method"),
    (
        lambda: Reranker({"type": "graded", "llm": {"provider": "openai"}}),
        "llm.type: is required; did you mean 'type' in place of 'provider'?",
    ),
    (lambda: Reranker("lexical", when={"min": 1}), "when.min: unknown key; known are: agreement"),
    (lambda: Reranker("lexical", terms=[{"type": "age"}]), "named 'age'; that is 'recency'"),
    (lambda: Reranker("embedded", cache="a.db"), "such as 'store' of embedded or 'score_cache' of"),
    (
        lambda: Reranker({"type": "cross_encoder", "model": "rerank-v3.5", "api_key": "k"}),
        "sent to the hub; for the rerank API 'cohere' use {'type': 'endpoint', 'api': 'cohere', ",
    ),
    (lambda: Reranker("lexical", render="title"), "such as {fields: [title, text]}, not 'title'"),
    (
        lambda: Reranker("lexical", render={"fields": "title"}),
        "render.fields: must be a list such as [title, text], not 'title'",
    ),
    (
        lambda: Reranker("embedded", blend=0.2),
        "such as {original: 0.2, normalize: minmax}",
    ),
    (lambda: Reranker(WrongMethod()), "method: judge must take (task)"),
    (
        lambda: Reranker({"type": "graded", "llm": two_arguments}),
        "the function must take (messages)",
    ),
    (lambda: Reranker("lexical", order=two_arguments), "order: the function must take (items)"),
    (
        lambda: RERANKER.rerank("owl", TEXTS, order=two_arguments),
        "order: the function must take (items)",
    ),
    (
        lambda: Reranker.from_config("method: lexical"),
        "'method: lexical': there is no such file; g",
    ),
    (lambda: Reranker("lexical", blend={"weight": 0.5}), "did you mean 'original'?"),
    (lambda: Reranker("lexical", floor={"value": 0.5}), "did you mean 'at'?"),
    (lambda: Prices(**{"in": 1}), "did you mean 'input'?"),
    (lambda: RANKING.pack(9, count="cl100k_base"), "count: give a tokenizer, or a function that"),
    (lambda: Reranker("cross_encoder", "BAAI/m"), "takes only method by position; name the others"),
    (lambda: Reranker.from_preset({}), "give the name of a preset, not a dict; use Reranker.from_"),
    (lambda: Reranker.from_preset(Path("a.yaml")), "; use Reranker.from_config(…)"),
    (
        lambda: Reranker.from_config(preset="embedded"),
        "Reranker.from_config() got an unexpected keyword argument 'preset'; use Reranker.from_pre",
    ),
    (lambda: Reranker.from_config({}, depth=3), "; write {'depth': …} in the configuration"),
    (lambda: Reranker.from_config({}, top_n=3), "; write {'top_k': …} in the configuration"),
    (lambda: Reranker.from_config({}, zzz=3), "'zzz'; known are: blend, cache, "),
    (
        lambda: Reranker.from_config({}, verbose=True),
        "'verbose'; leave it out; the result has a report",
    ),
    (
        lambda: Reranker.from_config({}, 3),
        "from_config takes only config by position; write further settings into the configuration",
    ),
    (lambda: config.load(path="a.yaml"), "load() got an unexpected keyword argument 'path'; did y"),
    (
        lambda: Reranker.from_preset("embedded", {"depth": 3}),
        "from_preset takes only name by position; write ** before the mapping of settings",
    ),
    (lambda: Reranker.from_preset("embedded", 3), "by position; name the settings"),
    (lambda: config.preset("embedded", {"depth": 3}), "; write ** before the mapping of settings"),
    (
        lambda: RERANKER.changed({"depth": 3}),
        "Reranker.changed takes no argument by position; write ** before the mapping of settings",
    ),
    (
        lambda: fuse(TEXTS, TEXTS),
        "fuse takes only lists by position; give the lists by name: fuse({'words': …, 'vectors'",
    ),
    (lambda: fuse(words=TEXTS, vectors=TEXTS), "'words'; give the lists by name: fuse({'words'"),
    (lambda: fuse({"words": TEXTS}, k=60), "'k'; did you mean 'rrf_k'?"),
    (lambda: fuse({"words": TEXTS}, weight={}), "'weight'; did you mean 'weights'?"),
    (lambda: fuse({"words": TEXTS}, top_n=2), "'top_n'; it returns all: fuse(…)[:k]"),
    (
        lambda: Candidate(content="An owl."),
        "Candidate() got an unexpected keyword argument 'content'; did you mean 'text'?",
    ),
    (lambda: Candidate(page_content="An owl."), "did you mean 'text'?"),
    (lambda: Candidate(document="An owl."), "did you mean 'text'?"),
    (lambda: Candidate("An owl.", meta={}), "did you mean 'metadata'?"),
    (lambda: Candidate("An owl.", doc_id=1), "did you mean 'id'?"),
    (lambda: Candidate("An owl.", title="Owls"), "metadata: Candidate(text, metadata={…})"),
    (Candidate, "missing 1 required positional argument: 'text'"),
    (lambda: Request("owl", documents=TEXTS), "'documents'; did you mean 'candidates'?"),
    (
        lambda: Completion(content="yes"),
        "Completion() got an unexpected keyword argument 'conte",
    ),
    (lambda: Judgement(score=[]), "'score'; did you mean 'scores'?"),
    (lambda: RERANKER.plan(docs=TEXTS), "did you mean 'candidates'? Coming from another package"),
    (
        lambda: RERANKER.plan(TEXTS, top_k=3),
        "it is a setting of the reranker: use reranker.changed",
    ),
    (lambda: RERANKER.plan(TEXTS, deadline=3), "Reranker(limits={'deadline': …})"),
    (lambda: RERANKER.plan(TEXTS, "owl"), "plan takes only candidates by position; name the other"),
    (lambda: RERANKER.candidates_needed(top_n=3), "'top_n'; did you mean 'top_k'?"),
    (lambda: RERANKER.store(documents=TEXTS), "'documents'; did you mean 'passages'?"),
    (lambda: RERANKER.forget(TEXTS, batch_size=3), "Reranker({'type': 'cross_encoder', 'batch_siz"),
    (lambda: RANKING.explain(index=0), "'index'; did you mean 'position'?"),
    (lambda: RANKING.pack(max_tokens=9), "'max_tokens'; did you mean 'tokens'?"),
    (lambda: RANKING.pack(9, tokenizer=str.split), "'tokenizer'; did you mean 'count'?"),
    (
        lambda: RANKING.to_dict(True),
        "takes no argument by position; name the others, as in",
    ),
    (lambda: RANKING.to_pandas(with_text=True), "'with_text'; did you mean 'text'?"),
    (lambda: HybridRetriever.retrieve(None, "owl", top_k=5), "'top_k'; did you mean 'k'?"),
    (lambda: create_server(reranker=RERANKER), "'reranker'; did you mean 'rerankers'?"),
    (lambda: compare("lexical", suite=None, measure=["P@1"]), "did you mean 'measures'?"),
]


@pytest.mark.parametrize("index", [2, -3])
def test_an_item_that_a_ranking_does_not_have(index):
    with pytest.raises(IndexError, match=r"^the ranking has 2 items$"):
        RANKING[index]


class Scorer:
    model_name = "own"

    def score_pairs(self, query, documents, *, more=None):
        raise KeyError(query)


class LooseScorer(Scorer):
    def score_pairs(self, *args, **kwargs):
        return [1.0] * len(args[1])


def test_what_may_take_the_arguments_of_a_scorer_is_accepted():
    mock = Mock(model_name="mock", spec=["model_name", "score_pairs"])
    for scorer in (Scorer(), LooseScorer(), mock):
        assert Reranker(scorer).method.scorer is scorer


def raising(_items):
    raise KeyError


OWN_CODE = {
    "scorer": {"method": Scorer()},
    "model": {"method": {"type": "graded", "llm": raising}},
    "ordering": {"method": "lexical", "order": raising},
}


@pytest.mark.parametrize("name", OWN_CODE)
def test_an_exception_of_own_code_can_be_seen(name):
    """The issue says how, where that is so."""
    hint = "; with strict, the exception is raised"
    [issue] = Reranker(**OWN_CODE[name]).rerank("owl", TEXTS).report.issues
    assert issue.message.endswith(hint)
    with pytest.raises(SecondPassError) as caught:
        Reranker(**OWN_CODE[name], strict=True).rerank("owl", TEXTS)
    assert isinstance(caught.value.__cause__, KeyError)
    assert hint not in str(caught.value)


def test_an_exception_before_a_fallback_is_not_shown_by_strict():
    reranker = Reranker(Scorer(), fallback="lexical", strict=True)
    [issue] = reranker.rerank("owl", TEXTS).report.issues
    assert issue.message == "the scorer raised KeyError"
    [issue] = reranker.changed(strict=False).rerank("owl", TEXTS).report.issues
    assert issue.message == "the scorer raised KeyError"


@pytest.mark.parametrize("query", ["", " ", "\u200b\n"])
@pytest.mark.parametrize("method", ["lexical", LooseScorer()])
def test_a_query_without_a_visible_character(method, query):
    report = Reranker(method).rerank(query, TEXTS).report
    assert (report.status, [issue.code for issue in report.issues]) == ("ok", ["query_empty"])
    assert Reranker(method).rerank(query, []).report.issues == ()


@pytest.mark.parametrize(("call", "part"), CALLS)
def test_the_wrong_argument(call, part):
    with pytest.raises((SecondPassError, TypeError), match=re.escape(part)):
        call()


WITH_OPTIONS = {"rerank", "arerank", "astream", "rerank_many", "arerank_many", "expected_use"}
"""Calls whose options say what to write."""


def arguments_of(function):
    parameters = inspect.signature(function).parameters.values()
    return [each for each in parameters if each.name not in {"self", "cls", "_cls"}]


def public_functions():
    """The functions that `secondpass` exports, and methods of its classes, with arguments."""
    functions = {name: getattr(secondpass, name) for name in secondpass.__all__}
    for cls in (Reranker, Ranking):
        for name in {*vars(cls)} - WITH_OPTIONS:
            functions[f"{cls.__name__}.{name}"] = getattr(cls, name)
    for name, function in sorted(functions.items()):
        is_public = inspect.isroutine(function) and not name.rpartition(".")[2].startswith("_")
        if is_public and arguments_of(function):
            yield name, function


PUBLIC = dict(public_functions())


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_function_says_what_to_write(name):
    function = PUBLIC[name]
    arguments = arguments_of(function)
    if any(each.kind is each.VAR_KEYWORD for each in arguments):
        with pytest.raises(TypeError, match="by position; name the settings"):
            function(*[None] * 9)
        return
    unknown = f"{arguments[0].name}s"
    of_instance = [None] * ("self" in inspect.signature(function).parameters)
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{unknown}'; did you mean"):
        function(*of_instance, **{unknown: None})


def test_the_code_of_a_hint_about_lists():
    with pytest.raises(TypeError) as caught:
        fuse(TEXTS, TEXTS)
    (code,) = re.findall(r"fuse\(\{.*\}\)", str(caught.value))
    fused = eval(code.replace("…", "texts"), {"fuse": fuse, "texts": TEXTS})
    assert [candidate.text for candidate in fused] == TEXTS


def test_the_code_of_a_hint_about_pairs():
    class Model:
        def score_pairs(self, query, documents):
            return eval(PREDICTED, {"model": Predicts(), "query": query, "documents": documents})

    assert Reranker(Model()).rerank("owl", TEXTS).order == (0, 1)


PARTS = {
    "gpt-4o-mini": {"type": "graded", "llm": {"type": "openai", "model": "gpt-4o-mini"}},
    "openai": {"type": "graded", "llm": {"type": "openai", "model": "…"}},
    "BAAI/bge-reranker-base": {"type": "cross_encoder", "model": "BAAI/bge-reranker-base"},
    "bge-reranker-base": {"type": "cross_encoder", "model": "BAAI/bge-reranker-base"},
    "rerank-v3.5": {"type": "endpoint", "api": "cohere", "model": "rerank-v3.5"},
    "rankgpt": {"type": "listwise", "llm": {"type": "openai", "model": "…"}},
}
"""What may be passed in place of a fallback or a stage, and the method that is meant."""


@pytest.mark.parametrize("name", PARTS)
def test_in_place_of_a_part(name):
    for make in (
        lambda part: Reranker("lexical", fallback=[part]),
        lambda part: Reranker({"type": "cascade", "stages": ["lexical", part]}),
    ):
        with pytest.raises(SecondPassError) as caught:
            make(name)
        assert "Reranker(" not in str(caught.value)
        (code,) = re.findall(r"write (.*)$", str(caught.value))
        method = eval(code.replace("…", "'…'"))
        assert method == PARTS[name]
        make(method).close()


@explained()
def failing(text):
    raise TypeError(text)


@explained()
async def failing_later(text):
    raise TypeError(text)


def test_an_error_of_the_function_itself_is_not_changed():
    with pytest.raises(TypeError, match=r"^an owl$"):
        failing("an owl")
    with pytest.raises(TypeError, match=r"^an owl$"):
        asyncio.run(failing_later("an owl"))
    with pytest.raises(TypeError, match=r"got an .* 'txt'; did you mean 'text'\?"):
        asyncio.run(failing_later(txt="an owl"))
    assert inspect.iscoroutinefunction(failing_later)


def test_what_iterates_like_a_list_is_taken():
    for values in ((text for text in TEXTS), np.array(TEXTS), dict.fromkeys(TEXTS).keys()):
        assert RERANKER.rerank("owl", values)[0].position == 1
