"""Runs an example pipeline: loads the YAML file, fills the store, and prints the ranking.

README.md has a table of the files.

    pip install -e . -e "./integrations/haystack[embedded]"
    python examples/haystack/run.py first.yaml "What is free will?"
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
sys.path.insert(0, str(Path(__file__).parents[1]))  # missing_package.py

import missing_package  # noqa: F401 - says what to install
import yaml
from haystack import Document, Pipeline
from haystack.core.errors import DeserializationError, PipelineRuntimeError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from secondpass import SecondPassError

HERE = Path(__file__).parent
QUESTION = "What is free will?"


def articles() -> list[Document]:
    """The articles of the library, as documents."""
    rows = json.loads((HERE / "articles.json").read_text(encoding="utf-8"))
    return [Document(content=row.pop("text"), meta=row) for row in rows]


def fill(pipeline: Pipeline) -> None:
    """Write the articles into the store of the pipeline.

    In-memory stores with the same index share their documents, so the pipeline sees them. If the
    pipeline has an embedder, it embeds the articles.
    """
    documents = articles()
    for name, sockets in pipeline.inputs().items():
        if "text" in sockets:  # the embedder of the question; also embeds the few articles
            embed: Any = pipeline.get_component(name)
            documents = [
                replace(one, embedding=embed.run(text=one.content)["embedding"])
                for one in documents
            ]
    store = InMemoryDocumentStore(index="articles")
    store.write_documents(documents, policy=DuplicatePolicy.OVERWRITE)


def inputs(pipeline: Pipeline, question: str, **settings: Any) -> dict[str, dict[str, Any]]:
    """The inputs: the question for every component that takes it, settings for the ranker."""
    data: dict[str, dict[str, Any]] = {
        name: {socket: question for socket in sockets if socket in {"query", "text"}}
        for name, sockets in pipeline.inputs().items()
    }
    data[ranker_of(pipeline)] |= settings
    return data


def ranker_of(pipeline: Pipeline) -> str:
    """The name of the pipeline's SecondPassRanker."""
    return next(name for name, one in pipeline.walk() if isinstance(one, SecondPassRanker))


def show(output: dict[str, Any], ranker: str) -> None:
    """Print ranks, scores and titles, and the report's status and issues."""
    for rank, document in enumerate(output[ranker]["documents"], 1):
        status = document.meta["rerank_status"]
        level = document.meta["difficulty"]
        print(f"{rank:2}. {document.score:7.3f}  {document.meta['title']}  ({level}, {status})")
    report = output[ranker]["report"]
    print(f"\nstatus: {report['status']}, by {report['method'] or 'the retriever'}")
    for issue in report["issues"]:
        print(f"  {issue['code']}: {issue['message']}")
    for name, values in output.items():
        if name != ranker:
            print(f"{name}: {', '.join(values)}")


def missing_keys(text: str) -> list[str]:
    """The environment variables of secrets in the file that are not set.

    The ranker's key is not included: if it is missing, the ranker's report says so.
    """
    components = yaml.safe_load(text)["components"]
    for component in components.values():
        if component["type"].endswith(".SecondPassRanker"):
            component.get("init_parameters", {}).pop("api_key", None)
    return [
        " or ".join(names)
        for names in _secrets(components)
        if not any(os.environ.get(name) for name in names)
    ]


def _secrets(value: Any) -> Iterator[list[str]]:
    if isinstance(value, dict) and value.get("type") == "env_var":
        yield value["env_vars"]
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _secrets(part)


def original_message(error: BaseException) -> str:
    """The message of the original error, without Haystack's wrappers."""
    while (
        isinstance(error, DeserializationError | PipelineRuntimeError)
        and error.__cause__ is not None
    ):
        error = error.__cause__
    return f"{error}" if isinstance(error, SecondPassError) else f"{type(error).__name__}: {error}"


def main(arguments: list[str] | None = None) -> None:
    """Run the file named on the command line."""
    parser = argparse.ArgumentParser(description="Run an example pipeline.")
    parser.add_argument("file", type=Path, help="a YAML file of this folder, or another one")
    parser.add_argument("question", nargs="?", default=QUESTION, help=f"default: {QUESTION}")
    parser.add_argument("--order", help="an ordering, such as learn in learners.yaml")
    parser.add_argument("--top-k", type=int, help="number of documents to return")
    options = parser.parse_args(arguments)

    path = options.file if options.file.exists() else HERE / options.file
    if not path.is_file():
        names = ", ".join(sorted(one.name for one in HERE.glob("*.yaml")))
        sys.exit(f"There is no file {options.file}. Choose one of: {names}")
    text = path.read_text(encoding="utf-8")
    if keys := missing_keys(text):
        names = ", ".join(dict.fromkeys(keys))
        sys.exit(f"{path.name} needs a key. Set it in the environment: {names}")
    arguments_of_run = {"order": options.order, "top_k": options.top_k}
    settings = {name: value for name, value in arguments_of_run.items() if value is not None}
    try:
        pipeline = Pipeline.loads(text)
        ranker = ranker_of(pipeline)
        with ExitStack() as stack:
            for _, component in pipeline.walk():  # pipelines of Haystack 2 have no close
                if hasattr(component, "close"):
                    stack.callback(component.close)
            fill(pipeline)
            data = inputs(pipeline, options.question, **settings)
            show(pipeline.run(data, include_outputs_from={ranker}), ranker)
    except Exception as error:  # print a message instead of a traceback
        sys.exit(f"{path.name} could not be run. {original_message(error)}")


if __name__ == "__main__":
    main()
