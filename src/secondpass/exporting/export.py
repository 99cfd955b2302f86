"""Creates the ONNX or OpenVINO file of a cross-encoder, and compares it with the original."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from secondpass.concurrency.lazy import require
from secondpass.concurrency.processor import has_fast_bfloat16
from secondpass.errors import InputError, ModelLoadError
from secondpass.exporting.agreement import TOP, ScoreAgreement, agreement, by_query, sample_pairs
from secondpass.exporting.conversion import ExportError, convert, quiet
from secondpass.scorers.batching.pairs import PairEngine, Requests
from secondpass.scorers.families.recognition import recognise
from secondpass.scorers.hub.facts import read_facts
from secondpass.scorers.hub.find import in_folder
from secondpass.scorers.hub.model import HubModel
from secondpass.scorers.runtimes.light import LightModel
from secondpass.scorers.runtimes.light_files import model_files
from secondpass.scorers.runtimes.runtime import MODULES, Backend, Precision
from secondpass.scorers.torch.pairs import TorchModel
from secondpass.settings import counted
from secondpass.types import Progress

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

__all__ = ["LEAST_OVERLAP", "ExportError", "Exported", "ScoreAgreement", "export"]

LEAST_OVERLAP = 0.98
"""A file whose top-10 overlap with the original is lower is rejected."""

_PACKAGES = ("torch", "onnx", "sentence_transformers", "tokenizers", "numpy")
_STEPS = 4


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of :func:`export`.

    Attributes:
        folder: the model's folder.
        file: path of the new file within it.
        size: bytes, including a separate file of weights.
        agreements: the agreement with the original in each precision that the backend has on this
            processor: ``float32``, and perhaps ``bfloat16``.
        doubt: why the original is doubtful, by questions with obvious answers; None if it is not.
    """

    folder: Path
    file: str
    size: int
    agreements: Mapping[str, ScoreAgreement]
    doubt: str | None = None


def export(
    model: str,
    *,
    into: str | os.PathLike[str] | None = None,
    backend: Backend = "onnx",
    pairs: Iterable[tuple[str, str]] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Create a model file that runs without torch, for ``backend: onnx`` or ``openvino``.

    The file is created in a temporary folder; if it is rejected, or the export is interrupted,
    nothing else has changed.

    Args:
        model: a sequence classifier with one label: a folder, or a name on the hub.
        into: folder for the new file, the configuration and the tokenizer. None writes the new file
            into the folder of the model.
        backend: what the file is for.
        pairs: (query, passage) pairs to compare the scores on, at least one query with more than
            ten passages. None is 200 pairs that are shipped.
        force: replace existing files, and keep a file that ranks differently, or that of a model
            which ranks obvious answers last.
        progress: called as the export advances.

    Raises:
        ExportError: the model cannot be converted, ranks obvious answers last, or a score is not
            finite, or the top-10 overlap in float32 is below 0.98.
        InputError: an argument is wrong, the file exists, or a file of the folder would change.
        MissingExtraError: a package is not installed.
        ModelLoadError: the model cannot be loaded, is no such model, or only torch can run it.
        OSError: a file cannot be written.
    """
    extra = "export" if backend == "onnx" else "export,openvino"
    require([*_PACKAGES, MODULES[backend]], extra, f"the export to {backend}")
    folder, complete = _folder(model, into)
    file = {"onnx": "onnx/model.onnx", "openvino": "openvino/openvino_model.xml"}[backend]
    if (folder / file).exists() and not force:
        raise InputError(f"{folder / file}: exists; it is replaced with force=True")
    lists = _lists(pairs)
    advance = progress or (lambda _label, _done, _total: None)

    advance("Loading the model", 0, _STEPS)
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    with TemporaryDirectory(prefix=".secondpass-export-", dir=nearest) as scratch, quiet():
        draft = Path(scratch) / "model"
        original = _load(model)
        engine = PairEngine(original)
        doubt = _doubt(engine, force=force)
        _write_others(original.encoder, folder, draft, complete=complete)
        if not force:
            check_differences(draft, folder)
        advance("Converting the model", 1, _STEPS)
        convert(
            original.encoder,
            draft / file,
            backend,
            sample=sample_pairs()[:2],
            scratch=Path(scratch),
        )
        advance("Scoring with the original", 2, _STEPS)
        expected = engine.score(lists)
        _check_finite(expected, "the original's")
        advance("Scoring with the new file", 3, _STEPS)
        agreements = _agreements(
            model, [draft, folder], file, backend, lists=lists, expected=expected
        )
        _check(agreements["float32"], agreements, force=force)
        size = sum(path.stat().st_size for path in (draft / file).parent.iterdir())
        aside = Path(scratch) / "replaced"
        aside.mkdir()
        move_into(draft, folder, file, aside)
    advance("Done", _STEPS, _STEPS)
    return Exported(folder, file, size, agreements, doubt)


def _doubt(engine: PairEngine, *, force: bool) -> str | None:
    """Why the original is doubtful, if it is."""
    try:
        return engine.doubt()
    except ModelLoadError as error:
        if not force:
            message = f"refused: {error}; nothing was written (force=True writes it)"
            raise ExportError(message) from error
        return str(error)


def _folder(model: str, into: str | os.PathLike[str] | None) -> tuple[Path, bool]:
    """The folder to write to, and whether it needs configuration and tokenizer, too."""
    source = Path(model)
    if source.exists() and not (source / "config.json").is_file():
        raise ModelLoadError(f"the model {model!r} has no config.json")
    if into is None:
        if not source.exists():
            raise InputError(
                f"into: is needed, because {model!r} is not a local folder; name a folder for the "
                "exported model (--into)"
            )
        return source, False
    folder = Path(into)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"into: {str(folder)!r} is a file")
    return folder, not (source.exists() and folder.exists() and folder.samefile(source))


def _lists(pairs: Iterable[tuple[str, str]] | None) -> list[tuple[str, list[str]]]:
    lists = by_query(sample_pairs() if pairs is None else pairs)
    if not any(len(passages) > TOP for _, passages in lists):
        raise InputError(
            f"pairs: no query has more than {TOP} passages, so that rankings cannot be compared"
        )
    return lists


def _load(model: str) -> TorchModel:
    """The original in float32, checked to be of a kind that other backends run."""
    source = HubModel(model)
    offline = source.is_offline()
    with source.loading(offline):
        facts = read_facts(source, offline=offline)
        recognised = recognise(model, facts)
    if recognised.family.run is None or recognised.family.run.model != "CrossEncoder":
        raise ModelLoadError(
            f"the model {model!r} is one of {recognised.family.title}, which only torch runs"
        )
    original = TorchModel(
        source,
        offline,
        facts,
        device="cpu",
        precision="exact",
        # The runtimes recognise and fuse eager attention only.
        options={"model_kwargs": {"attn_implementation": "eager"}},
    )
    encoder = original.encoder
    kind = type(encoder.model).__name__
    reason = ""
    if not kind.endswith("ForSequenceClassification"):
        reason = f"is of the class {kind}, which is no sequence classifier"
    elif len(encoder) > 1:
        reason = f"has {len(encoder)} modules"
    elif encoder.default_prompt_name is not None:
        reason = "has a default prompt"
    elif getattr(encoder[0], "do_lower_case", False):
        reason = "lower-cases texts before its tokenizer"
    elif not getattr(encoder.tokenizer, "is_fast", False):
        reason = "has a tokenizer without a tokenizer.json"
    if reason:
        raise ModelLoadError(f"the model {model!r} {reason}, so that it cannot be exported")
    return original


def _write_others(encoder: CrossEncoder, folder: Path, draft: Path, *, complete: bool) -> None:
    """Write the configuration and the tokenizer, as far as the folder needs them."""
    draft.mkdir()
    if not complete:
        if not (folder / "tokenizer.json").exists():
            encoder.tokenizer.backend_tokenizer.save(str(draft / "tokenizer.json"))
        return
    config: Any = encoder.config
    config.architectures = [type(encoder.model).__name__]
    templates = getattr(encoder.tokenizer, "chat_template", None)
    for name in templates if isinstance(templates, Mapping) else ():
        # Templates are written to files of their names, by some versions also outside the folder.
        if not re.fullmatch(r"\w[\w .-]*", str(name)):
            raise ExportError(f"the tokenizer has a chat template named {name!r}: no file name")
    try:
        config.save_pretrained(str(draft))
        encoder.tokenizer.save_pretrained(str(draft))
    except OSError:
        raise
    except Exception as error:
        message = f"the configuration or the tokenizer cannot be saved: {error}"
        raise ExportError(message) from error


def _agreements(
    model: str,
    folders: Sequence[Path],
    file: str,
    backend: Backend,
    *,
    lists: Requests,
    expected: Sequence[Sequence[float]],
) -> dict[str, ScoreAgreement]:
    """The agreement in each precision, with the files that a reranker would load."""

    def find(name: str) -> Path | None:
        paths = (in_folder(folder)(name) for folder in folders)
        return next((path for path in paths if path is not None), None)

    agreements = {}
    precisions: list[Precision] = ["exact"]
    if backend == "openvino" and has_fast_bfloat16():
        precisions.append("auto")
    for precision in precisions:
        files = model_files(model, find, backend, file)
        assert files is not None  # a named file is there, or an error is raised
        loaded = LightModel(files, backend, precision=precision)
        scores = PairEngine(loaded).score(lists)
        _check_finite(scores, f"the new file's {loaded.precision}")
        agreements[loaded.precision] = agreement(expected, scores)
    return agreements


def _check_finite(lists: Sequence[Sequence[float]], whose: str) -> None:
    """Check that all scores are finite. Others cannot be compared, even with ``force``."""
    scores = [score for scores in lists for score in scores]
    count = sum(not math.isfinite(score) for score in scores)
    if count:
        raise ExportError(
            f"refused: of {whose} {counted(len(scores), 'score')}, NaN or infinite are {count}; "
            "nothing was written"
        )


def _check(
    measured: ScoreAgreement, agreements: Mapping[str, ScoreAgreement], *, force: bool
) -> None:
    overlap = measured.overlap
    if not force and (overlap is None or overlap < LEAST_OVERLAP):
        raise ExportError(
            f"refused: the top-{TOP} overlap with the original is {overlap:.3f}, below "
            f"{LEAST_OVERLAP}; nothing was written (force=True writes it)",
            agreements,
        )


def check_differences(draft: Path, folder: Path) -> None:
    """Raise InputError unless a folder's files are equal to the new ones of the same names."""
    for path, place in _places(draft, folder).items():
        if place.exists() and not _same(path, place):
            raise InputError(f"{place}: exists with other content; it is replaced with force=True")


def move_into(draft: Path, folder: Path, file: str, aside: Path) -> None:
    """Move complete new files into a folder. After an exception, the folder is as before.

    If only the model file is replaced, that is one step. Otherwise, the old model file is first
    moved to ``aside``, and the new one is moved last: a process that is killed meanwhile leaves a
    folder without this model file, never one with files that do not belong together. All folders
    are on one file system.
    """
    places = _places(draft, folder)
    model = draft / file
    changed = {
        path: place
        for path, place in places.items()
        if path != model and not (place.exists() and _same(path, place))
    }
    replaced = [place for place in changed.values() if place.exists()]
    if replaced and places[model].exists():
        replaced.insert(0, places[model])
    new_folders = [path for path in (folder / file).parents if not path.exists()]
    try:
        for number, place in enumerate(replaced):
            os.replace(place, aside / str(number))
        for path, place in [*changed.items(), (model, places[model])]:
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, place)
    except BaseException:
        if model.exists():  # else all are in place
            for place in changed.values():
                if place not in replaced:
                    place.unlink(missing_ok=True)
            for number, place in enumerate(replaced):
                with suppress(FileNotFoundError):  # it was not moved yet
                    os.replace(aside / str(number), place)
            for path in new_folders:
                with suppress(OSError):
                    path.rmdir()
        raise
    for suffix in ("_data", ".data"):  # weights of a larger model that was replaced
        place = folder / f"{file}{suffix}"
        if place not in places.values():
            place.unlink(missing_ok=True)


def _places(draft: Path, folder: Path) -> dict[Path, Path]:
    paths = (path for path in sorted(draft.rglob("*")) if path.is_file())
    return {path: folder / path.relative_to(draft) for path in paths}


def _same(first: Path, second: Path) -> bool:
    if first.suffix != ".json" and first.stat().st_size != second.stat().st_size:
        return False  # weights of gigabytes are not read
    contents = first.read_bytes(), second.read_bytes()
    if contents[0] == contents[1]:
        return True
    if first.suffix != ".json":
        return False
    try:
        return bool(json.loads(contents[0]) == json.loads(contents[1]))
    except ValueError:
        return False
