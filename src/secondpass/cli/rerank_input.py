"""The input of ``secondpass rerank``: which options go together, and the requests they name."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from secondpass.asking.life_cycle import asks_service
from secondpass.cli.console import USAGE_ERROR, check_usage, fail, on_terminal, warn
from secondpass.cli.options import RankingOptions, RerankerOptions, RunOptions
from secondpass.cli.resuming import answers_of, state_of
from secondpass.errors import ConfigurationError
from secondpass.formats.files import open_input
from secondpass.formats.lines import DoubledKeyError, strict_json
from secondpass.formats.reading import read_queries
from secondpass.formats.requests import (
    InputRequest,
    read_candidate,
    read_requests,
    read_single_request,
    read_text,
)
from secondpass.formats.trec_requests import CorpusFile, read_run_requests
from secondpass.ranking.options import validate
from secondpass.reranker import Reranker
from secondpass.settings import yaml_text
from secondpass.settings.messages import not_utf8
from secondpass.types import Progress, Request

_EMPTY_QUERY = (
    "--query: is empty, perhaps an unset variable of the shell; a query in JSON lines may be empty"
)

_LOCAL_BATCH = 8
"""Queries at a time by a local method: enough to fill its batches, and few, so that rankings come
steadily."""
_SERVICE_BATCH = 64
"""Queries at a time by a method that asks a service: most of them wait for an answer."""


@dataclass(frozen=True)
class RerankInput:
    """The options that name the input; None where an option is absent."""

    file: Path | None
    query: str | None
    lines: bool
    """Whether each line is the text of a candidate, not JSON."""
    trec: RunOptions

    @property
    def place(self) -> str:
        """The file, as the beginning of a message; empty for standard input and for a run."""
        return "" if self.file is None or not self.is_file else f"{self.file}: "

    @property
    def is_file(self) -> bool:
        return str(self.file or self.trec.run or "-") != "-"

    def check(self) -> None:
        has_run = self.trec.run is not None
        check_usage(
            {
                _EMPTY_QUERY: self.query is not None and not self.query.strip(),
                "--query, --run: give one of them": self.query is not None and has_run,
                "--lines: needs --query": self.lines and self.query is None,
                "FILE, --run: give one of them": self.file is not None and has_run,
            }
        )
        self.trec.check()
        if self.file is not None and self.query is None and self.is_file and not self.file.exists():
            hint = f"if it is the query, write --query {shlex.quote(str(self.file))}"
            fail(f"{self.file}: there is no such file or folder; {hint}")
        if self.file is None and not has_run and on_terminal(sys.stdin):
            fail("missing FILE, or JSON lines on standard input (see --help)", USAGE_ERROR)

    def check_not_overwritten(self, output: Path, *others: Path | None) -> None:
        """Exit if the output or a file beside it is an input file or one of ``others``."""
        inputs = (self.file, self.trec.run, self.trec.queries, self.trec.corpus, *others)
        for target in (output, state_of(output), answers_of(output)):
            for file in inputs:
                if file is not None and file.exists() and target.exists() and target.samefile(file):
                    fail(
                        f"--output {output}: {file} is an input file; name another output",
                        USAGE_ERROR,
                    )

    def warn_of_lines(
        self, lines: int, beyond: int, configured: RerankerOptions, defaults: RankingOptions
    ) -> None:
        """Warn if some of the ``--lines`` stand beyond the depth, unless an option states it."""
        is_stated = defaults.depth is not None or configured.sets("depth")
        if self.lines and beyond and not is_stated:
            reranked = f"only the first {lines - beyond:,} of {lines:,} lines are reranked"
            warn(f"{reranked}; --depth {lines} reranks all")

    def requests(
        self, stack: ExitStack, reranker: Reranker, progress: Progress
    ) -> Iterator[InputRequest]:
        """Read the requests lazily; the stack closes the files."""
        trec = self.trec
        if trec.run is not None and trec.queries is not None and trec.corpus is not None:
            queries = read_queries(trec.queries)
            name, lines = _open(stack, trec.run)
            indexed = partial(_report_documents, progress)
            corpus = stack.enter_context(CorpusFile(trec.corpus, indexed))
            return read_run_requests(lines, name, queries, corpus)
        text_needed = reranker.render.needs_text
        name, lines = _open(stack, self.file)
        if self.query is not None:
            read = read_text if self.lines else partial(read_candidate, text_needed=text_needed)
            request = read_single_request(lines, name, self.query, read)
            if not request.candidates and self.is_file:
                fail(f"{self.place}there is no candidate in the input")
            return iter([request])
        check = partial(validate, orders=reranker.orders)
        return read_requests(lines, name, text_needed=text_needed, check_options=check, warn=warn)


def read_context(file: Path | None) -> tuple[Any, str]:
    """The value of a JSON or YAML file, and the hash of the file."""
    if file is None:
        return None, ""
    raw = file.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    try:
        text = raw.decode("utf-8")
        try:
            return strict_json(text), digest
        except DoubledKeyError:
            raise
        except ValueError:
            return yaml_text.parse(text), digest
    except UnicodeDecodeError as error:
        raise ConfigurationError(not_utf8(file, error), str(file)) from None
    except DoubledKeyError as error:
        raise ConfigurationError(str(error), str(file)) from None
    except yaml_text.NotYAMLError as error:
        raise ConfigurationError(f"not JSON; as YAML: {error}", str(file)) from None
    except (ValueError, RecursionError):
        raise ConfigurationError("not JSON or YAML", str(file)) from None


def _open(stack: ExitStack, file: Path | None) -> tuple[Path | str, BinaryIO]:
    """The name of the input in messages, and its lines."""
    if file is not None and str(file) != "-":
        return file, stack.enter_context(open_input(file))
    if sys.stdin is None:
        fail("standard input: is closed")
    return "standard input", sys.stdin.buffer


def _report_documents(progress: Progress, count: int) -> None:
    progress("Indexing the corpus", count, None)


def default_batch(reranker: Reranker) -> int:
    """Number of queries to rank at the same time."""
    return _SERVICE_BATCH if asks_service(reranker.method) else _LOCAL_BATCH


def request_of(item: InputRequest, context: Any) -> Request:
    """A request with its own context, or without one with the shared context."""
    return Request(item.query, item.candidates, context if item.context is None else item.context)
