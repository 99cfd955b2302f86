"""Every pipeline of the gallery is loaded as a person loads it, and run, without the network.

Models are loaded by their names from a hub cache that the tests write; services are asked by the
real clients, at a provider on the loopback interface.
"""

import asyncio
import dataclasses
import importlib.util
import inspect
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.document_stores.in_memory import InMemoryDocumentStore

import fake_provider as fake
from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass.apis import endpoint
from tiny_models import WORDS, write_classifier
from unhurried import _unhurried

__all__ = ["_unhurried"]

ROOT = Path(__file__).parents[3]
GALLERY = ROOT / "examples" / "haystack"
FILES = sorted(GALLERY.glob("*.yaml"))
GUIDE = ROOT / "docs" / "haystack.md"
QUESTION = "What is free will?"
KEY = "sk-of-the-gallery-SECRET"
KEYS = {
    "OPENAI_API_KEY": KEY,
    "ANTHROPIC_API_KEY": KEY,
    "GOOGLE_API_KEY": KEY,
    "CO_API_KEY": KEY,
}
MODELS = ("cross-encoder/ms-marco-MiniLM-L6-v2", "BAAI/bge-reranker-base")


def script_of_the_gallery() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gallery_run", GALLERY / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = script_of_the_gallery()


def lectures() -> list[Document]:
    """More documents than a cascade lets through, in words that the small models know."""
    draw = random.Random(1)
    return [
        Document(
            content=f"Lecture {index} on free will: "
            + " ".join(draw.choices(WORDS[5:], k=index + 3)),
            meta={
                "title": " ".join(draw.choices(WORDS[5:], k=3)),
                "path": f"note-lecture-{index}.md",
                "difficulty": draw.choice(["introductory", "intermediate", "advanced", "none"]),
            },
        )
        for index in range(24)
    ]


LIBRARY = [*script.articles(), *lectures()]
LIKING = {
    document.content: 10 * (index * 23 % len(LIBRARY)) / len(LIBRARY)
    for index, document in enumerate(LIBRARY)
}
"""The grade that the models of the provider give each text; no two are equal."""


def liking(text: str) -> float:
    """The grade of what a model was shown of a document."""
    return next(grade for content, grade in LIKING.items() if content in text)


@dataclasses.dataclass(frozen=True)
class Run:
    """What is to come of a file.

    Attributes:
        returned: how many documents.
        asked: the API that is asked, once, to judge; empty where none is.
        model: the cross-encoder that judges, if one does.
        keyless: the status without any key; None where the pipeline cannot run without.
    """

    returned: int = 5
    asked: str = ""
    model: str = ""
    keyless: str | None = "unchanged"


RUNS = {
    "budget.yaml": Run(asked="openai", keyless="unchanged"),
    "cascade.yaml": Run(asked="openai", model=MODELS[0], keyless=None),
    "cascade_chat_generator.yaml": Run(asked="openai", model=MODELS[0], keyless=None),
    "cohere.yaml": Run(asked="cohere"),
    "first.yaml": Run(keyless="ok"),
    "guidelines.yaml": Run(asked="anthropic"),
    "hybrid.yaml": Run(model=MODELS[0], keyless=None),
    "hybrid_fused.yaml": Run(model=MODELS[1], keyless=None),
    "learners.yaml": Run(returned=20, asked="google"),
    "tei.yaml": Run(asked="tei", keyless="ok"),
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache as the hub's own library keeps it, with a small model under each name."""
    cache = tmp_path_factory.mktemp("hub")
    for seed, model in enumerate(MODELS):
        folder = cache / f"models--{model.replace('/', '--')}"
        write_classifier(folder / "snapshots" / ("0" * 40), seed=seed)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("0" * 40)
    return cache


@pytest.fixture(scope="module")
def server() -> Iterator[fake.FakeProvider]:
    with fake.FakeProvider() as one:
        yield one


@pytest.fixture
def provider(
    server: fake.FakeProvider, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> fake.FakeProvider:
    """A provider that every client asks, and a hub cache, by the variables that people set."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("GEMINI_API_KEY", "COHERE_API_KEY", "RERANK_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url("openai"))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url("anthropic"))
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.base_url("google"))
    monkeypatch.setenv("TEI_URL", server.base_url("tei"))
    # No variable moves Cohere's API, nor should one: the address in the table of APIs is moved.
    moved = dataclasses.replace(endpoint.APIS["cohere"], url=server.base_url("cohere"))
    monkeypatch.setitem(endpoint.APIS, "cohere", moved)  # type: ignore[arg-type]
    # The hub's own variable is read once a process; this one, of the same layout, at each load.
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", str(hub))
    # So that scores are those of the library on every processor.
    monkeypatch.setattr("secondpass.scorers.torch.runner.has_fast_bfloat16", lambda: False)
    monkeypatch.setattr(importlib.import_module("secondpass.asking.dispatch"), "_FIRST_PAUSE", 0.01)
    monkeypatch.setitem(fake.APIS, "/embeddings", "embeddings")
    serve(server, good)
    return server


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The articles and lectures, for the script to write into its store, which is empty before."""
    monkeypatch.setattr(script, "articles", lambda: LIBRARY)
    yield
    store = InMemoryDocumentStore(index="articles")
    store.delete_documents([*store.storage])


def serve(server: fake.FakeProvider, step: fake.Step) -> None:
    """Answer questions and rerank requests with a step, and embed what is to be embedded."""

    def embedded(request: fake.Request) -> Iterator[fake.Wire]:
        given = request.body["input"]
        rows = [
            {
                "object": "embedding",
                "index": index,
                "embedding": [text.count(one) for one in "aeiou"],
            }
            for index, text in enumerate([given] if isinstance(given, str) else given)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        yield fake.http(200, {"object": "list", "model": "fake", "data": rows, "usage": usage})

    server.play_by(lambda request: embedded if request.api == "embeddings" else step)


def good(request: fake.Request) -> Iterator[fake.Wire]:
    """A step: an answer by the grades, in the form that is asked for."""
    if request.api == "anthropic":  # a bare array of indices
        best = [int(label) for label in fake.best_first(fake.grades_of(request, liking))]
        yield fake.http(200, fake.envelope(request, json.dumps(best)))
    else:
        yield from fake.good(liking)(request)


def run(path: Path, *, asynchronous: bool = False, **settings: Any) -> dict[str, Any]:
    """The outputs of all components, after the store was filled as the script does it."""
    pipeline = Pipeline.loads(path.read_text(encoding="utf-8"))
    script.fill(pipeline)
    data = script.inputs(pipeline, QUESTION, **settings)
    everything = {name for name, _ in pipeline.walk()}

    async def go() -> dict[str, Any]:
        output: dict[str, Any] = await pipeline.run_async(data, everything)
        await pipeline.close_async()
        return output

    output = asyncio.run(go()) if asynchronous else pipeline.run(data, everything)
    pipeline.close()
    return output


def came_in(output: dict[str, Any]) -> list[Document]:
    """The documents that the ranker was given, each once."""
    names = ("by_meaning", "by_words", "retriever") if "fusion" not in output else ("fusion",)
    lists = [output[name]["documents"] for name in names if name in output]
    return [*{document.id: document for one in lists for document in one}.values()]


# ---------------------------------------------------------------------- every file


def test_every_file_can_be_run_and_is_in_the_table() -> None:
    assert [path.name for path in FILES] == sorted(RUNS)
    readme = (GALLERY / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[`(\w+\.yaml)`\]\(\1\) \|", readme, re.M)
    assert sorted(re.findall(r"^\| \[`(\w+\.yaml)`\]", readme, re.M)) == sorted(RUNS)
    for path in FILES:
        lines = path.read_text(encoding="utf-8").splitlines()
        head = "\n".join(lines[: next(index for index, line in enumerate(lines) if line[0] != "#")])
        assert "# Needs: " in head
        assert f"python examples/haystack/run.py {path.name} " in head


ASYNCHRONOUS = ("first.yaml", "hybrid.yaml", "cascade_chat_generator.yaml")
"""A scorer, two retrievers at once, and a chat generator."""


@pytest.mark.parametrize(
    ("path", "asynchronous"),
    [*((path, False) for path in FILES), *((GALLERY / name, True) for name in ASYNCHRONOUS)],
    ids=lambda value: getattr(value, "name", None),
)
def test_it_runs_and_loses_nothing(
    path: Path, provider: fake.FakeProvider, asynchronous: bool
) -> None:
    expected = RUNS[path.name]
    output = run(path, asynchronous=asynchronous)
    given, ranked = came_in(output), output["ranker"]["documents"]
    report = output["ranker"]["report"]
    assert (report["status"], report["issues"]) == ("ok", [])
    assert len(given) >= len(ranked) == expected.returned
    # What is not returned was cut off, or was there twice.
    assert report["left_out"].keys() <= {"top_k", "duplicate"}
    assert len(ranked) + len(report["left_out"].get("top_k", ())) == len(given)
    asked = [request.api for request in provider.requests if request.api != "embeddings"]
    assert asked == [expected.asked] * bool(expected.asked)
    assert {request.key for request in provider.requests} <= (
        {""} if expected.asked == "tei" else {KEY}
    )
    if expected.asked and not expected.model:
        best = sorted(given, key=lambda document: -liking(document.content or ""))
        assert [one.id for one in ranked] == [one.id for one in best[: expected.returned]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_without_a_key_the_script_says_so(
    path: Path,
    provider: fake.FakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in KEYS:
        monkeypatch.delenv(name)
    status = RUNS[path.name].keyless
    if status is None:
        with pytest.raises(SystemExit, match=rf"^{path.name} needs a key\. .*: OPENAI_API_KEY$"):
            script.main([path.name])
        return
    script.main([path.name, QUESTION])
    output = capsys.readouterr().out
    assert len(re.findall(r"^ ?\d+\. ", output, re.M)) == RUNS[path.name].returned
    assert f"\nstatus: {status}, by " in output
    assert ("no_key: no API key" in output) == (status != "ok")
    assert provider.calls == (1 if RUNS[path.name].asked == "tei" else 0)


# ---------------------------------------------------------------------- the guide


def rows_under(heading: str) -> list[list[str]]:
    """The cells of the table under a heading of the guide."""
    section = GUIDE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_the_guide_names_every_parameter_and_its_default() -> None:
    parameters = [*inspect.signature(SecondPassRanker.__init__).parameters.values()][1:]
    documented = {row[0].strip("` "): row[1].strip("` ") for row in rows_under("Parameters")}
    assert documented == {
        one.name: f'"{one.default}"' if isinstance(one.default, str) else str(one.default)
        for one in parameters
    } | {"embedding_separator": r'"\n"'}


def test_the_guide_names_every_run_time_input() -> None:
    inputs = [*inspect.signature(SecondPassRanker.run).parameters][1:]
    assert [row[0].strip("` ") for row in rows_under("Run-time inputs")] == inputs
