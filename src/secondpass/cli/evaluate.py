"""``secondpass eval``: first stages, and rerankers behind them, on a suite."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markdown import Markdown

from secondpass.cli.configurations import AsJson, Set, configuration, with_depth
from secondpass.cli.index import PassageSize, StaleOk, opened, warn_of_skipped
from secondpass.cli.terminal import (
    FAULT,
    WRONG_CALL,
    fail,
    on_terminal,
    print_json,
    progress,
    results,
    tell,
    warn,
    write,
)
from secondpass.cli.vectors import KeptVectors, cache_folder
from secondpass.config import load, preset_names
from secondpass.errors import ConfigurationError, InputError, MissingExtraError, ModelLoadError
from secondpass.evaluation.suites import with_title
from secondpass.search.documents import PASSAGE_SIZE, read_source
from secondpass.search.index_files import is_index
from secondpass.types import Candidate

if TYPE_CHECKING:
    from secondpass.evaluation.comparison import Comparison
    from secondpass.evaluation.first_stages import FirstStage, Retriever
    from secondpass.evaluation.suites import Suite
    from secondpass.search.index import Index
    from secondpass.search.retrieval import Mode

_ALONE = "rerank"
"""The name of a reranker that has none, where it is the only one: `hybrid+rerank`."""


class Stage(StrEnum):
    """First stages."""

    given = "given"
    vector = "vector"
    lexical = "lexical"
    hybrid = "hybrid"


class Test(StrEnum):
    """Tests of the differences."""

    randomization = "randomization"
    t = "t"


def evaluate(
    *,
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SUITE] [WHAT]...",
            help="A BEIR folder, a file of JSON lines with `relevant` ids, or an ir_datasets name. "
            "YAML files are compared, as with `--compare`.",
        ),
    ] = None,
    queries: Annotated[Path | None, typer.Option(help="JSON lines, or `id<TAB>text`.")] = None,
    qrels: Annotated[Path | None, typer.Option(help="Judgements.")] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            help="What is searched: JSON lines, a folder of documents, or an index "
            "(`secondpass index`)."
        ),
    ] = None,
    passage_size: PassageSize = PASSAGE_SIZE,
    stale_ok: StaleOk = False,
    run: Annotated[
        Path | None, typer.Option(help="A TREC run; its documents are the candidates.")
    ] = None,
    preset: Annotated[
        list[str] | None, typer.Option("--preset", "-p", help="A preset to measure. Repeatable.")
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option("--config", "-c", help="A YAML file. Repeatable.")
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]WHAT",
            help="A preset or a YAML file. Repeatable; more files may follow.",
        ),
    ] = None,
    rerank_model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A cross-encoder of the hub, or a folder. Repeatable."),
    ] = None,
    settings: Set = None,
    rerank_top_n: Annotated[
        int | None,
        typer.Option(min=1, help="How many to rerank; else `depth` as configured, else 50."),
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="Candidates of each query.")] = 100,
    stage: Annotated[
        list[Stage] | None, typer.Option("--mode", help="A first stage. Repeatable.")
    ] = None,
    behind: Annotated[
        Stage | None, typer.Option(help="The first stage that rerankers stand behind.")
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="Of ir_measures, such as nDCG@10. Repeatable."),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Take differences from this.")] = None,
    test: Annotated[Test, typer.Option(help="Of the differences.")] = Test.randomization,
    shuffles: Annotated[
        int, typer.Option(min=0, help="Shuffle the candidates so often, to see if it matters.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of shuffles and test.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first queries.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Rankings side by side.")] = 1,
    cache: Annotated[
        Path | None, typer.Option(help="Keep the corpus' vectors here.", show_default=False)
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not keep them.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for results.json, per_query.csv, report.md, .html, and runs."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if it has results.")] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No bars.")] = False,
) -> None:
    """Measure what reranking gains: first stages, and rerankers behind them, on one suite.

    A suite is a folder as BEIR has them, a file of `{"query": "…", "relevant": ["d1"]}` lines with
    `--corpus`, or `--queries`, `--qrels` and `--corpus` or `--run`. Vectors are made by the model
    of the extra `embedded`. For example:

    `secondpass eval suite --preset embedded --compare mine.yaml other.yaml --out results`
    """
    from secondpass.evaluation.experiment import compare as compared
    from secondpass.evaluation.loading import load_suite
    from secondpass.evaluation.measures import DEFAULT_MEASURES

    suite, more = _parted(places)
    compare = [*(compare or ()), *more]
    _check_call(suite, queries, qrels, out, force=force)
    known, skipped = _rerankers(
        _specs(preset, config, compare, rerank_model), settings, rerank_top_n
    )
    index = opened(corpus, depth, stale_ok=stale_ok) if corpus and is_index(corpus) else None
    passages = index.corpus if index else _passages(corpus, passage_size)
    data = load_suite(suite, queries=queries, qrels=qrels, corpus=passages, run=run).first(limit)
    stages: list[FirstStage] | None = [one.value for one in stage] if stage else None
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    with progress(quiet) as bars:
        folder = None if no_cache else cache or cache_folder()
        wanted = {*(stages or _usual(data)), *([behind.value] if behind else [])}
        comparison = compared(
            known,
            data,
            retriever=(
                _Indexed(index, wanted) if index else _retriever(data, wanted, depth, folder, bars)
            ),
            first_stages=stages,
            behind=behind.value if behind else None,
            depth=depth,
            measures=measure or DEFAULT_MEASURES,
            baseline=baseline,
            test=test.value,
            shuffles=shuffles,
            seed=seed,
            concurrency=concurrency,
            skipped=skipped,
            progress=bars,
        )
    written: list[str] = []
    try:
        if out is not None:
            written = comparison.write(out)
    finally:  # where a file cannot be written, the figures are not lost
        _report(comparison, written, as_json=as_json)


def _check_call(
    suite: str | None, queries: Path | None, qrels: Path | None, out: Path | None, *, force: bool
) -> None:
    if suite is None and (queries is None or qrels is None):
        fail("give a SUITE, or --queries and --qrels (or see --help)", WRONG_CALL)
    if out is not None and (out / "results.json").exists() and not force:
        fail(f"{out}: has results already; --force writes others in their place")


def _report(comparison: Comparison, written: Sequence[str], *, as_json: bool) -> None:
    for result in comparison.skipped:
        warn(f"{result.name} is skipped: {result.reason}")
    for result in comparison.not_measured:
        warn(f"{result.name} is not measured: {result.reason}")
    if as_json:
        print_json(comparison.to_dict())
    elif on_terminal(sys.stdout):
        results().print(Markdown(comparison.to_markdown()))
    else:
        write(comparison.to_markdown())
    for path in written:
        tell(f"written: {path}")
    if not comparison.ran:
        fail("nothing could be measured", FAULT)


# ---------------------------------------------------------------------- rerankers


def _parted(places: Sequence[str] | None) -> tuple[str | None, list[str]]:
    """The suite, and the YAML files that stand beside it."""
    files = [place for place in places or () if place.endswith((".yaml", ".yml"))]
    suites = [place for place in places or () if place not in files]
    if len(suites) > 1:
        told = f"SUITE: one at a time, not {' and '.join(suites)}"
        fail(f"{told}; a preset needs --preset or --compare before it", WRONG_CALL)
    return next(iter(suites), None), files


def _specs(
    presets: Sequence[str] | None,
    configs: Sequence[Path] | None,
    compared: Sequence[str] | None,
    models: Sequence[str] | None,
) -> dict[str, Any]:
    """What is to be measured, by name: a preset's name, a path, or a mapping."""
    found: list[tuple[str, Any]] = [(name, name) for name in presets or ()]
    found += [(path.stem, path) for path in configs or ()]
    for one in compared or ():
        name, equals, what = one.partition("=")
        if equals and (not name or not what):
            raise ConfigurationError(f"--compare {one}: write NAME=WHAT, or WHAT alone")
        what = what if equals else one
        found.append((name if equals else Path(what).stem, _preset_or_path(what)))
    for model in models or ():
        method = {"type": "cross_encoder", "model": model}
        found.append((Path(model).name or model, {"method": method}))
    if len(found) == 1 and not (compared and "=" in compared[0]):
        return {_ALONE: found[0][1]}
    specs: dict[str, Any] = {}
    for name, spec in found:
        free, number = name, 2
        while free in specs:
            free, number = f"{name}-{number}", number + 1
        specs[free] = spec
    return specs


def _preset_or_path(what: str) -> str | Path:
    is_path = Path(what).suffix in {".yaml", ".yml"} or "/" in what or os.sep in what
    return Path(what) if is_path and what not in preset_names() else what


def _rerankers(
    specs: Mapping[str, Any], settings: Sequence[str] | None, top_n: int | None
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The configurations of those that can be made, and why the others cannot."""
    known: dict[str, dict[str, Any]] = {}
    skipped = {} if specs else {_ALONE: "no reranker"}
    for name, spec in specs.items():
        if isinstance(spec, Mapping):
            described = configuration(None, None, settings, base=spec)
        else:
            is_path = isinstance(spec, Path)
            described = configuration(
                None if is_path else spec, spec if is_path else None, settings
            )
        described = with_depth(described, top_n)
        try:
            load(described)  # only to see; `compare` makes its own, and closes them
            known[name] = described
        except (MissingExtraError, ModelLoadError) as error:
            skipped[name] = str(error)
        except ConfigurationError as error:
            about = str(spec) if not isinstance(spec, Mapping) else name
            raise ConfigurationError(error.problems, about) from None
    return known, skipped


# ---------------------------------------------------------------------- first stages


def _usual(suite: Suite) -> list[FirstStage]:
    return ["given"] if suite.candidates is not None else ["vector", "lexical", "hybrid"]


def _passages(corpus: Path | None, passage_size: int) -> Path | list[Candidate] | None:
    """The passages of a folder of documents; a file of JSON lines is left to be read."""
    if corpus is None or not corpus.is_dir():
        return corpus
    source = read_source(corpus, passage_size=passage_size)
    warn_of_skipped(source.skipped)
    return source.corpus


class _Indexed:
    """Searches an index, and finds passages as those of a suite are: title and text as one."""

    def __init__(self, index: Index, stages: set[str]) -> None:
        self.index = index
        embedder = index.retriever.embedder
        if embedder is not None and stages.intersection(index.modes) - {"lexical"}:
            with suppress(ModelLoadError):  # searching by vectors tells it
                embedder.embed([""])  # the model is loaded now, not for a query

    def retrieve(self, query: str, k: int, mode: Mode = "hybrid") -> list[Candidate]:
        """The best passages.

        Raises:
            InputError | MissingExtraError: vectors are wanted, and it cannot be searched by them.
        """
        if mode not in self.index.modes:
            if self.index.manifest["embedder"] is not None:
                raise MissingExtraError("embedded", "searching by vectors")
            raise InputError(f"{self.index.folder}: the index holds words only")
        return [with_title(one) for one in self.index.retrieve(query, k, mode)]


class _Words:
    """Searches by words, and says why it cannot do more."""

    def __init__(self, retriever: Retriever, why: MissingExtraError | ModelLoadError) -> None:
        self.retriever = retriever
        self.why = why

    def retrieve(self, query: str, k: int, mode: Mode = "hybrid") -> list[Candidate]:
        """The best by words.

        Raises:
            MissingExtraError | ModelLoadError: vectors are wanted.
        """
        if mode != "lexical":
            raise self.why
        return self.retriever.retrieve(query, k, mode)


def _retriever(
    suite: Suite,
    stages: set[str],
    depth: int,
    folder: Path | None,
    bars: Callable[[str, int, int | None], None],
) -> Retriever | None:
    """What searches the corpus; None where nothing is searched."""
    if suite.corpus is None or stages == {"given"}:
        return None
    from secondpass.scorers.minilm import check_installed
    from secondpass.search.embedders import EmbeddedEmbedder
    from secondpass.search.retrieval import HybridRetriever

    if not stages & {"vector", "hybrid"}:
        return HybridRetriever(suite.corpus, depth=depth)
    try:
        check_installed()
        vectors = KeptVectors(
            EmbeddedEmbedder(), folder, lambda done, all_: bars("Encoding the corpus", done, all_)
        )
        retriever = HybridRetriever(suite.corpus, vectors, depth=depth)
        vectors.embed([""])  # where vectors were kept, the model is loaded now, not for a query
        return retriever
    except (MissingExtraError, ModelLoadError) as error:
        return _Words(HybridRetriever(suite.corpus, depth=depth), error)
