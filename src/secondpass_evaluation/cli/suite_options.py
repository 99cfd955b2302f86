"""Options that several subcommands share, in groups, and what each group describes.

A subcommand decorated with ``grouped`` takes a group as one parameter.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from secondpass import (
    Candidate,
    ConfigurationError,
    InputError,
    MissingExtraError,
    ModelLoadError,
)
from secondpass.cli.console import (
    ERROR,
    USAGE_ERROR,
    escaped,
    fail,
    info,
    on_terminal,
    result_console,
    write,
)
from secondpass.cli.options import AsJson, configuration, with_depth
from secondpass.config import preset_names, resolve
from secondpass.formats.files import open_input
from secondpass.settings import counted
from secondpass.types import Progress
from secondpass_evaluation.search.passages import PASSAGE_SIZE, SMALLEST_PASSAGE

if TYPE_CHECKING:
    from secondpass_evaluation.first_stages import FirstStage, Retriever
    from secondpass_evaluation.journal import Journal
    from secondpass_evaluation.search.index import Index
    from secondpass_evaluation.suites import Suite


class Stage(StrEnum):
    """First stages, of a repeatable option."""

    given = "given"
    vector = "vector"
    lexical = "lexical"
    hybrid = "hybrid"


STAGES = "|".join(Stage)
"""The values of a repeatable option in help."""


def stage_names(stages: list[Stage] | None) -> list[FirstStage] | None:
    """The values of a repeatable option; None without any."""
    return [stage.value for stage in stages] if stages else None


SuiteArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SUITE",
        help="Judged queries: a folder in BEIR's format, a file of JSON lines with "
        "`relevant` ids, or a name of ir_datasets.",
    ),
]
PassageSize = Annotated[
    int,
    typer.Option(
        min=SMALLEST_PASSAGE,
        metavar="CHARACTERS",
        help="Maximum length of the passages that documents are split into.",
    ),
]
StaleOk = Annotated[
    bool,
    typer.Option(
        "--stale-ok", help="Search the index even if the documents have changed since it was built."
    ),
]
RerankTopN = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of candidates to rerank. Default: the configuration's `depth`, or 50 "
        "if it has none.",
    ),
]
Depth = Annotated[
    int, typer.Option(min=1, help="Number of candidates that the search finds for each query.")
]
Behind = Annotated[
    Literal["given", "vector", "lexical", "hybrid"] | None,
    typer.Option(
        help="Search (first stage) whose results are reranked; `given`: the candidates that "
        "are part of the suite."
    ),
]
Concurrency = Annotated[
    int, typer.Option(min=1, help="Number of queries to rank at the same time.")
]
Seed = Annotated[
    int,
    typer.Option(min=0, help="Seed of the random numbers, so that a run can be repeated exactly."),
]
Now = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time for `terms`, such as 2026-11-27. Default: the beginning of this day.",
        show_default=False,
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Continue an interrupted run; what is finished is not repeated."),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing output.")]
Rankings = Annotated[
    Path | None,
    typer.Option(
        "--rankings",
        metavar="FILE",
        help="Keep the finished rankings in this file, and reuse the rankings that it already has.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class DocumentOptions:
    """What is searched, or a run whose documents are the candidates."""

    corpus: Annotated[
        Path | None,
        typer.Option(
            help="What to search: JSON lines, a folder of documents, or an index "
            "(`secondpass index`)."
        ),
    ] = None
    passage_size: PassageSize = PASSAGE_SIZE
    stale_ok: StaleOk = False
    run: Annotated[
        Path | None, typer.Option("--run", help="TREC run; its documents are the candidates.")
    ] = None

    def read(self, depth: int) -> tuple[Index | None, Path | Sequence[Candidate] | None]:
        """The index, if it is one, which then lists up to ``depth`` candidates; and the passages.

        These are the path of a file, which is not read yet.
        """
        from secondpass_evaluation.cli.first_stages import open_for_search, read_passages
        from secondpass_evaluation.search.selection import is_index

        if self.corpus is not None and is_index(self.corpus):
            index = open_for_search(self.corpus, depth, stale_ok=self.stale_ok)
            return index, index.corpus
        return None, read_passages(self.corpus, self.passage_size)


def _has_judgements(queries: Path | None) -> bool:
    """Whether the first line of a file is a judged query."""
    if queries is None or not queries.is_file():
        return False
    try:
        with open_input(queries) as file:
            record = json.loads(file.readline())
    except (OSError, EOFError, ValueError, RecursionError, InputError):
        return False  # what is wrong is said where it is read
    return isinstance(record, dict) and "relevant" in record


@dataclass(frozen=True)
class SuiteOptions:
    """The parts of a suite."""

    queries: Annotated[
        Path | None, typer.Option(help="File of queries: JSON lines, or lines of `id<TAB>text`.")
    ] = None
    qrels: Annotated[
        Path | None,
        typer.Option("--qrels", help="File of judgements, in the format of TREC or BEIR."),
    ] = None
    documents: DocumentOptions = DocumentOptions()

    def check(self, name: str | None) -> None:
        """Exit with a usage error if no suite is named."""
        if name is None and self.qrels is None and _has_judgements(self.queries):
            hint = "has judgements (`relevant`); give it as SUITE, without --queries"
            fail(f"--queries {self.queries}: {hint}", USAGE_ERROR)
        if name is None and (self.queries is None or self.qrels is None):
            fail(
                "missing SUITE, a folder or file with judged questions, or --queries and --qrels; "
                "`secondpass example FOLDER` writes a suite",
                USAGE_ERROR,
            )

    def open(self, name: str | None, *, limit: int | None, depth: int) -> Searched:
        """Load the first queries of the suite."""
        from secondpass_evaluation.loading import load_suite

        index, corpus = self.documents.read(depth)
        suite = load_suite(
            name, queries=self.queries, qrels=self.qrels, corpus=corpus, run=self.documents.run
        )
        return Searched(suite.first(limit), index, depth)


@dataclass(frozen=True)
class Searched:
    """A suite, the index that is searched for it, and how many candidates are listed."""

    suite: Suite
    index: Index | None
    depth: int

    def retriever(self, vectors: VectorOptions, progress: Progress) -> Retriever | None:
        """The retriever over the corpus; None if there is none."""
        from secondpass_evaluation.cli.first_stages import CachedEmbedder
        from secondpass_evaluation.first_stages import CorpusRetriever, required_embedder
        from secondpass_evaluation.search.embedders import CorpusEmbedder, Embedder

        if self.index is not None or self.suite.corpus is None:
            return self.index

        def make_embedder() -> Embedder:
            model = required_embedder()
            batches = CorpusEmbedder(model, progress)
            folder = vectors.folder
            return batches if folder is None else CachedEmbedder(batches, model.name, folder)

        return CorpusRetriever(self.suite.corpus, self.depth, make_embedder)


@dataclass(frozen=True)
class QueryOptions:
    """How many queries are used, and how many at a time."""

    limit: Annotated[
        int | None, typer.Option(min=1, help="Use only this many queries, from the first.")
    ] = None
    concurrency: Concurrency = 1


@dataclass(frozen=True)
class VectorOptions:
    """Where the vectors of a corpus are cached."""

    cache: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which the vectors of the corpus are cached. Default: the cache "
            "folder of the system.",
            show_default=False,
        ),
    ] = None
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not cache vectors.")] = False

    @property
    def folder(self) -> Path | None:
        """The folder, by default the cache folder of the platform; None with ``--no-cache``."""
        return None if self.no_cache else self.cache or cache_folder()


def cache_folder() -> Path:
    """The cache folder of the platform."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "secondpass"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "secondpass"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "secondpass"


@dataclass(frozen=True)
class OutputOptions:
    """What is printed."""

    as_json: AsJson = False
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress bars.")] = False


def journal_path(
    into: Path | None, name: Callable[[Path], Path], *, resume: bool, force: bool
) -> Path | None:
    """The path of the finished rankings for an output; None without one.

    Exits if there are some of an interrupted run, and neither option is set.
    """
    if resume and force:
        fail("--resume, --force: give one of them", USAGE_ERROR)
    if into is None:
        if resume:
            fail("--resume: needs --into of the interrupted run", USAGE_ERROR)
        return None
    path = name(into)
    if is_interrupted(path) and not (resume or force):
        hint = "use --resume to continue it, or --force to start again"
        fail(f"{into}: has the rankings of an interrupted run; {hint}")
    return path


def is_interrupted(journal: Path) -> bool:
    """Whether a file has finished rankings."""
    return journal.exists() and journal.stat().st_size > 0


@contextmanager
def open_journal(
    path: Path | None, *, resume: bool, kept: bool = False
) -> Iterator[Journal | None]:
    """The journal of a run; prints where the finished rankings are if it is not deleted.

    A journal that is ``kept`` for other runs is not announced, and has no ``partial`` rankings.
    """
    if path is None:
        try:
            yield None
        except KeyboardInterrupt:
            info("finished rankings are kept only with --into")
            raise
        return
    from secondpass_evaluation.journal import Journal

    with Journal(path, partial=not kept) as journal:
        if not (resume or kept):
            journal.clear()
        try:
            yield journal
        finally:
            if len(journal) and not kept:
                info(f"finished rankings are in {path}; continue with --resume")
            elif journal.answers_path.exists() and not kept:
                info(f"the answers so far are in {journal.answers_path}; continue with --resume")
        report_reused(journal)


def report_reused(journal: Journal) -> None:
    """Print how many rankings of a journal were not repeated, if there are any."""
    if journal.reused:
        were = "was" if journal.reused == 1 else "were"
        count = counted(journal.reused, "finished ranking")
        info(f"{count} {were} read from {journal.path}")


def print_markdown(text: str) -> None:
    """Print a report, formatted on terminals."""
    if on_terminal(sys.stdout):
        from secondpass_evaluation.cli.markdown import Report

        result_console().print(Report(escaped(text)))
    else:
        write(text)


_SINGLE_NAME = "rerank"
"""Name of a single reranker without one: `hybrid+rerank`."""


def reranker_specs(
    presets: Sequence[str] | None,
    configs: Sequence[Path] | None,
    compared: Sequence[str] | None,
    models: Sequence[str] | None,
) -> dict[str, Any]:
    """The rerankers of the options: unique name -> preset name, path, or configuration."""
    from secondpass_evaluation.rerankers import unique_name  # slow to import

    specs: list[tuple[str, Any]] = [(name, name) for name in presets or ()]
    specs += [(path.stem, path) for path in configs or ()]
    given: set[str] = set()
    for argument in compared or ():
        name, value = named_value("--compare", argument, ERROR, given)
        specs.append((name or Path(value).stem, _preset_or_path(value)))
    for model in models or ():
        method = {"type": "cross_encoder", "model": model}
        specs.append((Path(model).name or model, {"method": method}))
    if len(specs) == 1 and not (compared and "=" in compared[0]):
        return {_SINGLE_NAME: specs[0][1]}
    unique: dict[str, Any] = {}
    for name, spec in specs:
        unique[unique_name(name, unique)] = spec
    return unique


def named_value(option: str, argument: str, code: int, given: set[str]) -> tuple[str, str]:
    """Name and value of ``[NAME=]VALUE``; exits with the code if one is empty.

    ``given`` are the names of the arguments before, of which the name must be none.
    """
    name, equals, value = argument.partition("=")
    if equals and not (name and value):
        fail(f"{option} {argument}: write NAME=WHAT, or WHAT alone", code)
    if equals and name in given:
        fail(f"{option} {argument}: another has the name {name!r}", code)
    given.add(name)
    return (name, value) if equals else ("", argument)


def configurations(
    specs: Mapping[str, Any], settings: Sequence[str] | None = None, top_n: int | None = None
) -> dict[str, dict[str, Any]]:
    """The configurations of rerankers by name, with ``--set`` and ``--rerank-top-n``.

    Raises:
        ConfigurationError: one is wrong.
    """
    configs = {}
    for name, spec in specs.items():
        if isinstance(spec, Mapping):
            config = configuration(None, None, settings, base=spec)
        elif isinstance(spec, Path):
            config = configuration(None, spec, settings)
        else:
            config = configuration(spec, None, settings)
        configs[name] = with_depth(config, top_n)
        check_reranker(configs[name], name if isinstance(spec, Mapping) else str(spec))
    return configs


def check_reranker(spec: Any, place: str) -> None:
    """Check a configuration before anything is searched.

    Raises:
        ConfigurationError: it is wrong, with the place in the message.
    """
    try:
        resolve(spec).close()
    except (MissingExtraError, ModelLoadError):
        pass  # the results say that it is not run
    except ConfigurationError as error:
        raise ConfigurationError(error.problems, place) from None


def _preset_or_path(value: str) -> str | Path:
    is_path = Path(value).suffix in {".yaml", ".yml"} or "/" in value or os.sep in value
    return Path(value) if is_path and value not in preset_names() else value
