"""docs/coming-from.md and the hints for what comes from other packages."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest
import yaml

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import ConfigurationError, Reranker, SecondPassError
from secondpass.settings import COMING_FROM
from secondpass.settings.name_hints import _ELSEWHERE

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/coming-from.md").read_text(encoding="utf-8")
PEERS = yaml.safe_load((ROOT / "tests/peers/rerankers.yaml").read_text(encoding="utf-8"))
OURS = {"haystack": SecondPassRanker, "llama_index": SecondPassRerank}
ALL = [(framework, name) for framework, peers in PEERS.items() for name in peers]
NOT_RERANKERS = {"SentenceTransformersDiversityRanker", "MetaFieldGroupingRanker"}
"""They have no row: their messages name an ordering, or say to keep them."""
HINT = (
    r"; (write|use|keep|pass|call|leave it out|there is no equivalent|it is a setting|did you mean"
    r"|to rank by)"
)


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(heading: str) -> list[list[str]]:
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# ---------------------------------------------------------------------- parameters


@pytest.mark.parametrize(("framework", "name"), ALL)
def test_every_foreign_parameter_names_its_home(framework: str, name: str) -> None:
    ours, peer = OURS[framework].PARAMETERS, PEERS[framework][name]
    parameters = {*peer["parameters"], *peer.get("removed", ())} - ours.defaults.keys()
    messages = {problem.path[0]: problem.message for problem in ours.unknown(parameters)}
    assert messages.keys() == parameters
    assert {key: text for key, text in messages.items() if not re.search(HINT, text)} == {}


@pytest.mark.parametrize(("framework", "name"), ALL)
def test_the_page_names_every_parameter(framework: str, name: str) -> None:
    if name in NOT_RERANKERS:
        pytest.skip("it has no row")
    table = PAGE.partition("\n## Parameters\n")[2].partition("\n## ")[0]
    peer = PEERS[framework][name]
    parameters = [*peer["parameters"], *peer.get("removed", ())]
    absent = [one for one in parameters if not re.search(rf"`{one}[`=]", table)]
    assert absent == []


def test_the_page_gives_the_default_model_of_each() -> None:
    found = {}
    for haystack, llama_index, _, models in rows("Rankers"):
        for framework, cell in (("haystack", haystack), ("llama_index", llama_index)):
            first, _, second = models.partition("; LlamaIndex: ")
            text = second if framework == "llama_index" and second else first
            for name in re.findall(r"`(\w+)`", cell):
                model = re.match(r"`([^`]+)`", text)
                found[framework, name] = model and model[1]
    expected = {
        (framework, name): PEERS[framework][name]["model"]
        for framework, name in ALL
        if name not in NOT_RERANKERS
    }
    assert found == expected


def is_core(framework: str, name: str) -> bool:
    return PEERS[framework][name]["module"].startswith(("haystack.", "llama_index.core."))


@pytest.mark.parametrize(
    ("framework", "name"),
    [pytest.param(*one, marks=() if is_core(*one) else pytest.mark.long) for one in ALL],
)
def test_the_list_of_parameters_is_that_of_the_package(framework: str, name: str) -> None:
    peer = PEERS[framework][name]
    cls = getattr(pytest.importorskip(peer["module"]), name)
    signature = inspect.signature(cls.__init__).parameters
    defaults = {key: one.default for key, one in signature.items()}
    fields = {*getattr(cls, "model_fields", ())}  # they are saved, too
    others = {"self", "callback_manager", "kwargs", "data"}
    assert defaults.keys() - others <= {*peer["parameters"]} <= defaults.keys() | fields
    for key in ("model", "model_name"):
        if isinstance(defaults.get(key), str) and peer["model"] is not None:
            assert defaults[key] == peer["model"]


# ---------------------------------------------------------------------- models


def first_arguments() -> list[tuple[str, str]]:
    """Each ranker's name, with the configuration in its row."""
    found = []
    for haystack, llama_index, configuration, _ in rows("Rankers"):
        code = re.match(r"`({.*?})`", configuration)
        if code and "…" not in code[1]:
            names = re.findall(r"`(\w+)`", f"{haystack} {llama_index}")
            found += [(name, code[1]) for name in names]
    return found


@pytest.mark.parametrize(("name", "code"), first_arguments())
def test_without_a_model_another_one_is_used_or_one_is_asked_for(name: str, code: str) -> None:
    """What the page says about the model of each row."""
    config = eval(code)
    for ours in OURS.values():
        if "cross_encoder" in code and "family" not in code:
            made = ours(config)
            core = made._reranker
            assert core.method.name == "cross-encoder/ms-marco-MiniLM-L6-v2"
            continue
        with pytest.raises(
            ConfigurationError, match=r"method\.(model|llm): is required.*; give it as"
        ):
            ours(config)


VALUES = {
    "base_url": "http://127.0.0.1:9",
    "llm": {"type": "openai", "model": "m"},
    "model": "m",
}
"""What stands for `…` in the setting of this name."""
CODE = [
    code
    for heading in ("Other libraries", "LangChain", "Search engines")
    for code in re.findall(r"`(?:Reranker\()?({\"type\": .*?})\)?`", section(heading))
]


@pytest.mark.parametrize("code", dict.fromkeys(CODE))
def test_what_to_write_can_be_written(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The methods of the tables, with a value in place of each `…`."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    text = re.sub(r'"(\w+)": …', lambda match: f"{match[0][:-1]}{VALUES[match[1]]!r}", code)
    Reranker(eval(text, {"name": "m"})).close()


def test_the_tables_have_code_to_try() -> None:
    assert len(CODE) > 25


CALLED = [
    code
    for row in rows("Other libraries")
    for code in re.findall(r"`([^`]+)`", row[1])
    if "reranker.rerank(q" in code and "…" not in code
]


@pytest.mark.parametrize("code", dict.fromkeys(CALLED))
def test_calls_can_be_written(code: str) -> None:
    texts = ["the owl hunts at night", "cats", "an owl", "night"]
    passages = [{"id": at, "text": text} for at, text in enumerate(texts)]
    names = {"reranker": Reranker("lexical"), "q": "owl", "texts": texts, "passages": passages}
    assert eval(code, names)


def test_scores_come_in_the_order_of_the_texts() -> None:
    (code,) = {code for code in CALLED if "sorted" in code}
    texts = [f"owl {'cat ' * (at * 7 % 5)}" for at in range(5)]
    reranker = Reranker("lexical")
    scores = {item.text: item.rerank_score for item in reranker.rerank("owl", texts)}
    assert len({*scores.values()}) == 5
    found = eval(code, {"reranker": reranker, "q": "owl", "texts": texts})
    assert found == [scores[text] for text in texts]


NOT_OF_RERANKERS = {"bm25", "late_interaction", "sentence-transformers"}
"""A formula, a former method and a package; the others are names of the package rerankers."""


@pytest.mark.parametrize("name", sorted({*_ELSEWHERE} - NOT_OF_RERANKERS))
def test_names_of_other_packages_have_a_row(name: str) -> None:
    assert f'"{name}"' in section("Other libraries")


# ---------------------------------------------------------------------- what leads to the page


def test_the_link_leads_to_the_page() -> None:
    path = COMING_FROM.partition("/blob/main/")[2]
    assert (ROOT / path).read_text(encoding="utf-8") == PAGE


@pytest.mark.parametrize(
    "name", ["colbert", "ColBERT", "rankllm", "monovlm", "text-embeddings-inference"]
)
@pytest.mark.parametrize("make", [Reranker, Reranker.from_preset])
def test_an_unknown_name(make: object, name: str) -> None:
    with pytest.raises(SecondPassError, match=re.escape(COMING_FROM)):
        make(name)  # type: ignore[operator]


def test_a_misspelt_name_does_not() -> None:
    with pytest.raises(SecondPassError, match=r"did you mean 'lexical'\?$"):
        Reranker("lexicl")


CALLS = ("rerank", "arerank", "astream")


@pytest.mark.parametrize("name", ["docs", "documents", "passages", "sentences", "texts", "nodes"])
@pytest.mark.parametrize("call", CALLS)
def test_a_foreign_keyword(call: str, name: str) -> None:
    reranker = Reranker("lexical")
    for arguments in ((), (["a"],)):
        outcome = called(getattr(reranker, call), *arguments, **{name: ["a"]})
        assert f"{name!r}; did you mean 'candidates'? " in outcome
        assert COMING_FROM in outcome


@pytest.mark.parametrize("call", CALLS)
def test_another_keyword_and_none(call: str) -> None:
    function = getattr(Reranker("lexical"), call)
    assert COMING_FROM in called(function, ["a"], return_documents=True)
    assert "missing 1 required positional argument: 'candidates'" in called(function)
    assert list(inspect.signature(function).parameters)[:2] == ["query", "candidates"]
    assert inspect.signature(function).parameters["candidates"].default is inspect.Parameter.empty


def called(function: object, *arguments: object, **keywords: object) -> str:
    """The message of the TypeError of a call."""

    def call() -> None:
        outcome = function("q", *arguments, **keywords)  # type: ignore[operator]
        if inspect.iscoroutine(outcome):
            outcome.send(None)

    with pytest.raises(TypeError) as raised:
        call()
    return str(raised.value)


class CrossEncoder:
    """As in sentence-transformers."""

    def predict(self, pairs: object) -> object: ...

    def rank(self, query: str, documents: object) -> object: ...


class Compressor:
    def compress_documents(self, documents: object, query: str) -> object: ...


@pytest.mark.parametrize("value", [CrossEncoder(), CrossEncoder, Compressor(), Compressor])
@pytest.mark.parametrize("make", [Reranker, Reranker.from_config, *OURS.values()])
def test_an_object_of_another_package(make: object, value: object) -> None:
    with pytest.raises(ConfigurationError) as raised:
        make(value)  # type: ignore[operator]
    message = str(raised.value)
    assert message.endswith(f"coming from another package: {COMING_FROM}")
    kind = getattr(value, "__name__", type(value).__name__)
    assert f"not the class {kind}" in message or f"not a {kind}" in message
    for code in re.findall(r"use ({.*}); ", message):
        config = eval(code.replace("…", "'m'"))
        assert (Reranker if make is Reranker else Reranker.from_config)(config).method.name == "m"
    assert ("use {" in message) == (kind == "CrossEncoder")


def test_the_real_cross_encoder() -> None:
    cross_encoder = importlib.import_module("sentence_transformers").CrossEncoder
    with pytest.raises(ConfigurationError, match=r"not the class CrossEncoder; use {'type': "):
        Reranker(cross_encoder)


def test_an_object_of_ours_is_not_called_foreign() -> None:
    for value in (Reranker("lexical"), object(), 3):
        with pytest.raises(ConfigurationError) as raised:
            Reranker(value)
        assert COMING_FROM not in str(raised.value)
