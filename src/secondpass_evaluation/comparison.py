"""The public result of :func:`~secondpass_evaluation.experiment.compare`, with its reports."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from secondpass.formats.lines import AnyPath, write_lines
from secondpass.ranking.rendering import well_formed
from secondpass_evaluation.judging.labels import judged_by_path, write_judged_by
from secondpass_evaluation.reading import by_judged_id
from secondpass_evaluation.report import markdown, page
from secondpass_evaluation.report.verdict import verdict
from secondpass_evaluation.results import ComparisonData, Result, percentiles
from secondpass_evaluation.writing import write_qrels, write_run

_NAME_LENGTH = 120
"""Maximum length of a system's name in a file name; file systems allow 255 bytes or fewer."""

_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""The beginning of a cell that a spreadsheet evaluates; the last four are full-width."""


@dataclass(frozen=True, repr=False)
class Comparison(ComparisonData):
    """The results of all systems on a suite, and their reports.

    Attributes:
        measures: names; queries are compared by the first.
        baseline: name of the system that the others are compared with; None if none ran, or if
            rerankers stand behind several first stages, each compared with its own.
        results: the systems, in the order requested, then rerankers that could not be created.
        settings: of the comparison: depth, test, seed, date, versions, machine, ….
        notes: remarks on the data that affect the figures.
        judged_by: how a language model made the judgements; None: people did.
        corrected: means and differences corrected by a person's judgements, where a person has
            judged enough of the queries that a model has judged.
    """

    @property
    def verdict(self) -> str:
        """Whether reranking helps, with the figures, in a few sentences, as in the reports."""
        found = verdict(self)
        return f"{found.answer} {found.because}"

    def to_dict(self) -> dict[str, Any]:
        """Everything except runs, as plain values for JSON."""
        return {
            "suite": self.suite,
            "queries": len(self.queries),
            "measures": list(self.measures),
            "baseline": self.baseline,
            "settings": dict(self.settings),
            "verdict": self.verdict,
            "notes": list(self.notes),
            **self._judged_by(),
            "systems": [self._system(result) for result in self.results],
        }

    def to_markdown(self, *, details: bool = True) -> str:
        """The verdict, the tables, and the queries that changed most.

        Args:
            details: False: only the verdict and one table, a screen of text.
        """
        return markdown.report(self, details=details)

    def to_html(self) -> str:
        """One page without external resources; with plots if matplotlib is installed."""
        return page.page(self)

    def _repr_html_(self) -> str:
        """The verdict and the tables, in notebooks."""
        return page.fragment(self)

    def write(self, folder: AnyPath) -> list[str]:
        """Write the figures as JSON, CSV, Markdown, HTML and a TREC run for each system.

        Args:
            folder: created if it does not exist.

        Returns:
            The paths written: ``results.json``, ``per_query.csv``, ``report.md``, ``report.html``,
            ``qrels.trec`` (beside it ``qrels.judged-by.json`` if a model made the judgements) and
            ``runs/NAME.trec``.

        Raises:
            OSError: the folder cannot be written.
            FormatError: an id does not fit into TREC's files; the other files are written first.
        """
        place = Path(folder)
        (place / "runs").mkdir(parents=True, exist_ok=True)
        texts = {
            "results.json": json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n",
            "per_query.csv": self._per_query_csv(),
            "report.md": markdown.report(self),
        }
        written = []
        for name, text in texts.items():
            write_lines(place / name, [well_formed(text)])
            written.append(str(place / name))
        # Last, as they can fail: the page needs jinja2, and TREC files allow no white space in ids.
        try:
            write_lines(place / "report.html", [well_formed(page.page(self))])
            written.append(str(place / "report.html"))
        finally:
            written += self._write_trec(place)
        return written

    def _per_query_csv(self) -> str:
        """A line for each query and system: ``query,system``, each measure, ``seconds``."""
        text = io.StringIO()
        # Texts are quoted, since some spreadsheets separate cells by semicolons.
        writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(["query", "system", *self.measures, "seconds"])
        for query in self.queries:
            for result in self.ran:
                if result.evaluation is not None:
                    values = [result.evaluation.per_query[name][query] for name in self.measures]
                    names = _cell(query), _cell(result.name)
                    writer.writerow([*names, *values, result.cost.seconds.get(query, "")])
        return text.getvalue()

    def _write_trec(self, place: Path) -> list[str]:
        path = place / "qrels.trec"
        mark = judged_by_path(path)
        written = [str(path)]
        if self.judged_by is None:
            mark.unlink(missing_ok=True)  # left by an earlier comparison
        else:
            write_judged_by(path, self.judged_by)
            written.append(str(mark))
        write_qrels(path, self.qrels)
        taken: set[str] = set()
        for result in self.ran:
            path = place / "runs" / f"{_file_name(result.name, taken)}.trec"
            run = {q: by_judged_id(scores, self.qrels[q]) for q, scores in result.run.items()}
            write_run(path, run, tag=re.sub(r"\s", "_", well_formed(result.name)))
            written.append(str(path))
        return written

    def _judged_by(self) -> dict[str, Any]:
        """The mark of a model's judgements, and the corrected figures; empty if people judged."""
        if self.judged_by is None:
            return {}
        mark = asdict(self.judged_by)
        people = mark.pop("people")
        del mark["order"]
        return {
            "judged_by": {**mark, "people": len(people)},
            "corrected": [asdict(corrected) for corrected in self.corrected],
        }

    def _system(self, result: Result) -> dict[str, Any]:
        system = result.record()
        if result.status != "not_run":
            seconds = self.end_to_end(result).values()
            system["seconds"]["end_to_end"] = percentiles(seconds)
        return system


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula: then an apostrophe precedes it."""
    is_number = re.fullmatch(r"[+-]?\d+(\.\d+)?", text, re.ASCII)
    return text if is_number or not _FORMULA.match(text) else f"'{text}"


def _file_name(name: str, taken: set[str]) -> str:
    """A file name for a system, unique even if the file system ignores case."""
    base = re.sub(r"[^A-Za-z0-9._+-]", "_", name)
    if len(base) > _NAME_LENGTH:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        base = f"{base[: _NAME_LENGTH - 13]}-{digest[:12]}"
    unique = base
    number = 2
    while unique.lower() in taken:
        unique, number = f"{base}-{number}", number + 1
    taken.add(unique.lower())
    return unique
