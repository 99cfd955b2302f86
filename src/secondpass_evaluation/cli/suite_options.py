"""Options that several subcommands share, in groups, and what each group describes.

A subcommand decorated with ``grouped`` takes a group as one parameter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secondpass import Candidate, ConfigurationError, MissingExtraError, ModelLoadError
from secondpass.cli.shared import (
    USAGE_ERROR,
    AsJson,
    configuration,
    fail,
    info,
    with_depth,
)
from secondpass.config import load, preset_names
from secondpass.types import Progress
from secondpass_evaluation.search.documents import PASSAGE_SIZE, SMALLEST_PASSAGE

if TYPE_CHECKING:
    from secondpass_evaluation.first_stages import FirstStage, Retriever
    from secondpass_evaluation.journal import Journal
    from secondpass_evaluation.search.index import Index
    from secondpass_evaluation.suites import Suite


class Stage(StrEnum):
    """First stages."""

    given = "given"
    vector = "vector"
    lexical = "lexical"
    hybrid = "hybrid"


STAGES = "|".join(Stage)
"""The values of a repeatable option in help."""


SuiteArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SUITE",
        help="A BEIR folder, a file of JSON lines with `relevant` ids, or an ir_datasets name.",
    ),
]
PassageSize = Annotated[
    int,
    typer.Option(min=SMALLEST_PASSAGE, metavar="CHARACTERS", help="Maximum length of a passage."),
]
StaleOk = Annotated[
    bool, typer.Option("--stale-ok", help="Search an index even if its source has changed.")
]
RerankTopN = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of candidates to rerank. Default: `depth` of the configuration, else 50.",
    ),
]
Depth = Annotated[int, typer.Option(min=1, help="Number of candidates to retrieve per query.")]
Behind = Annotated[Stage | None, typer.Option(help="First stage whose candidates are reranked.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Number of rankings at a time.")]
Rankings = Annotated[
    Path | None,
    typer.Option(
        "--rankings",
        metavar="FILE",
        help="Keep finished rankings in this file, and reuse those that it has.",
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
        Path | None, typer.Option("--run", help="TREC run whose documents are the candidates.")
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


@dataclass(frozen=True)
class SuiteOptions:
    """The parts of a suite."""

    queries: Annotated[
        Path | None, typer.Option(help="Queries: JSON lines, or lines of `id<TAB>text`.")
    ] = None
    qrels: Annotated[Path | None, typer.Option("--qrels", help="Judgements: TREC or BEIR TSV.")] = (
        None
    )
    documents: DocumentOptions = DocumentOptions()

    def check(self, name: str | None) -> None:
        """Exit with a usage error if no suite is named."""
        if name is None and (self.queries is None or self.qrels is None):
            fail("missing SUITE, or --queries and --qrels (see --help)", USAGE_ERROR)

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

    @property
    def default_stages(self) -> list[FirstStage]:
        """The first stages to measure if no option names any."""
        return ["given"] if self.suite.candidates is not None else ["vector", "lexical", "hybrid"]

    def retriever(
        self,
        stages: Collection[FirstStage] | None,
        vectors: Path | None,
        progress: Progress,
        *,
        behind: Collection[FirstStage] = (),
    ) -> Retriever | None:
        """The retriever over the corpus; None if no stage searches.

        Args:
            stages: the first stages that will run; None: the default.
            vectors: folder to cache vectors in; None: no cache.
            progress: is told how many passages have vectors.
            behind: first stages that rerankers run behind, in addition.
        """
        from secondpass_evaluation.cli.first_stages import IndexStage, suite_retriever

        names: set[str] = {*(stages or self.default_stages), *behind}
        if self.index is not None:
            return IndexStage(self.index, names)
        return suite_retriever(self.suite, names, self.depth, vectors, progress)


@dataclass(frozen=True)
class QueryOptions:
    """How many queries are used, and how many at a time."""

    limit: Annotated[
        int | None, typer.Option(min=1, help="Number of queries to use, from the first.")
    ] = None
    concurrency: Concurrency = 1


@dataclass(frozen=True)
class VectorOptions:
    """Where the vectors of a corpus are cached."""

    cache: Annotated[
        Path | None,
        typer.Option(help="Folder to cache the vectors of the corpus in.", show_default=False),
    ] = None
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not cache vectors.")] = False

    @property
    def folder(self) -> Path | None:
        """The folder, by default that of the platform; None with ``--no-cache``."""
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


@contextmanager
def open_journal(
    path: Path | None, *, resume: bool, kept: bool = False
) -> Iterator[Journal | None]:
    """The journal of a run; prints where the finished rankings are if it is interrupted.

    Args:
        path: None: no journal.
        resume: continue an interrupted run; otherwise its rankings and answers are deleted.
        kept: whether the file is kept for other runs; then ``partial`` rankings are repeated.
    """
    if path is None:
        yield None
        return
    from secondpass_evaluation.journal import Journal

    with Journal(path, partial=not kept) as journal:
        if not (resume or kept):
            journal.clear()
        try:
            yield journal
        finally:
            if len(journal) and not kept:  # it was not deleted
                info(f"finished rankings are in {path}; continue with --resume")
        if journal.reused:
            info(f"{journal.reused:,} finished rankings were read from {path}")


_SINGLE_NAME = "rerank"
"""Name of a single reranker without one: `hybrid+rerank`."""


def reranker_specs(
    presets: Sequence[str] | None,
    configs: Sequence[Path] | None,
    compared: Sequence[str] | None,
    models: Sequence[str] | None,
) -> dict[str, Any]:
    """The rerankers of the options: unique name -> preset name, path, or configuration.

    Raises:
        ConfigurationError: a value of ``--compare`` is malformed.
    """
    from secondpass_evaluation.rerankers import unique_name  # slow to import

    specs: list[tuple[str, Any]] = [(name, name) for name in presets or ()]
    specs += [(path.stem, path) for path in configs or ()]
    for argument in compared or ():
        name, equals, value = argument.partition("=")
        if equals and (not name or not value):
            raise ConfigurationError(f"--compare {argument}: write NAME=WHAT, or WHAT alone")
        value = value if equals else argument
        specs.append((name if equals else Path(value).stem, _preset_or_path(value)))
    for model in models or ():
        method = {"type": "cross_encoder", "model": model}
        specs.append((Path(model).name or model, {"method": method}))
    if len(specs) == 1 and not (compared and "=" in compared[0]):
        return {_SINGLE_NAME: specs[0][1]}
    unique: dict[str, Any] = {}
    for name, spec in specs:
        unique[unique_name(name, unique)] = spec
    return unique


def loadable_rerankers(
    specs: Mapping[str, Any], settings: Sequence[str] | None, top_n: int | None
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The configurations that can be loaded, and why the others cannot, by name.

    Raises:
        ConfigurationError: a configuration is wrong.
    """
    loadable: dict[str, dict[str, Any]] = {}
    not_run = {} if specs else {_SINGLE_NAME: "no reranker; give --preset or --config"}
    for name, spec in specs.items():
        if isinstance(spec, Mapping):
            config = configuration(None, None, settings, base=spec)
        elif isinstance(spec, Path):
            config = configuration(None, spec, settings)
        else:
            config = configuration(spec, None, settings)
        config = with_depth(config, top_n)
        try:
            load(config)  # only to check it: `compare` loads and closes its own
            loadable[name] = config
        except (MissingExtraError, ModelLoadError) as error:
            not_run[name] = str(error)
        except ConfigurationError as error:
            place = name if isinstance(spec, Mapping) else str(spec)
            raise ConfigurationError(error.problems, place) from None
    return loadable, not_run


def _preset_or_path(value: str) -> str | Path:
    is_path = Path(value).suffix in {".yaml", ".yml"} or "/" in value or os.sep in value
    return Path(value) if is_path and value not in preset_names() else value
