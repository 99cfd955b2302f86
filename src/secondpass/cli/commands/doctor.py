"""``secondpass doctor``: what is installed, and whether a configuration can run."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from secondpass import Reranker, __version__
from secondpass.cli.console import (
    ERROR,
    escaped,
    on_terminal,
    one_line,
    print_error,
    print_json,
    result_console,
)
from secondpass.cli.network import check_network
from secondpass.cli.options import AsJson, RerankerOptions, grouped
from secondpass.cli.tables import plain_table
from secondpass.config import load, preset_names
from secondpass.errors import ConfigurationError, InputError, MissingExtraError, SecondPassError
from secondpass.formats.pairs import read_scored_pairs
from secondpass.scorers.families.descriptions import FAMILIES
from secondpass.scorers.inspection import inspect_model
from secondpass.settings import counted
from secondpass.settings.messages import ALIKE, most_similar
from secondpass.settings.name_hints import CONFIGURATION_SUFFIXES, name_hint
from secondpass.types import Candidate

if TYPE_CHECKING:
    from secondpass.asking.response_cache import ResponseCache

_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+).*?extra\s*==\s*['\"]([\w-]+)['\"]")
_QUERY = "Which fruit is rich in potassium?"
_CANDIDATES = (
    Candidate("The moon moves around the earth.", "moon", 0.6),
    Candidate("Bananas are rich in potassium.", "banana", 0.5),
)


@grouped
def doctor(
    *,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A model on the Hugging Face Hub, or a folder with one: say which family it "
            "belongs to, and why.",
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="Treat MODEL as a model of this family: the name of a family, or a YAML file "
            "that describes one."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="JSON lines with `query`, `text` and `score`, such as the scores that the model's "
            "author publishes. MODEL scores the same pairs, and the largest difference is shown."
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="The largest difference of a score that `--against` accepts. Default: 0.001 in "
            "float32; otherwise 5 % of the standard deviation of the scores in the file.",
        ),
    ] = None,
    configured: RerankerOptions,
    network: Annotated[
        bool,
        typer.Option(
            "--network",
            help="Also check which keys are set, list proxies and certificates, and connect to "
            "each address.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is installed, and whether a configuration works.

    With `--preset` or `--config`, the command loads the models of the reranker and ranks two
    sentences with it. A model behind an API receives one request. With `--network`, it also lists
    the proxies and certificates of the environment and opens a connection to each address,
    without sending anything. Keys are never shown, only whether their variables are set.

    With a MODEL, it names the family of rerankers that the model belongs to, and says why. It also
    says which output of the model is read as the score, loads the model as a reranker would, and
    shows what runs it and the tokens of a sample pair. With `--against`, the model also scores the
    pairs of a file whose scores are known.

    The exit code is 1 if the configuration or the model does not work, or if the scores differ. It
    is also 1 if MODEL is doubtful, unless `--against` finds that its scores agree. In a pipe, and
    with `--json`, the output is JSON.
    """
    result: dict[str, Any] = {}
    config: dict[str, Any] | None = None
    if configured != RerankerOptions():
        try:
            config = configured.read()
        except ConfigurationError as error:
            result["reranker"] = {"runs": False, "reason": str(error)}
    if config is not None:
        result["reranker"] = _run_reranker(config, configured)
    if network:
        result["network"] = check_network(config)
    of_model = {"--family": family, "--against": against, "--tolerance": tolerance}
    if model is not None:
        result = {"model": _inspected(model, family, against, tolerance), **result}
    elif given := [name for name, value in of_model.items() if value is not None]:
        raise InputError(f"{given[0]}: needs a MODEL")
    result |= {
        "secondpass": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "extras": _extras(),
    }
    in_json = as_json or not on_terminal(sys.stdout)
    if in_json:
        print_json(result)
    else:
        _print(result)
    if reasons := [*_reasons(result)]:
        if in_json:  # whose reader may be a program, or only see its end
            print_error("; ".join(reasons))
        raise typer.Exit(ERROR)


def _reasons(result: Mapping[str, Any]) -> Iterator[str]:
    """Why something does not work; a model that is doubtful does if it has the known scores."""
    reranker, model = result.get("reranker"), result.get("model")
    if reranker is not None and not reranker["runs"]:
        yield reranker["reason"]
    if model is None:
        return
    if not model["runs"]:
        yield f"{model['model']}: {model['refused']}"
    elif not model.get("against", {}).get("agrees", True):
        yield f"{model['model']}: its scores differ from the known ones"
    elif "against" not in model and model.get("doubt") is not None:
        yield f"{model['model']} is doubtful: {model['doubt']}"


def _inspected(
    model: str, family: str | None, against: Path | None, tolerance: float | None
) -> dict[str, Any]:
    """What is recognised in a model and how it scores, and whether it runs.

    Raises:
        InputError: it is no model, or an option is wrong.
    """
    try:
        if family is not None:
            FAMILIES.resolve(family)
    except ConfigurationError as error:
        raise InputError(f"--family: {error}") from None
    _check_is_model(model)
    if tolerance is not None and against is None:
        raise InputError("--tolerance: needs --against")
    pairs = () if against is None else read_scored_pairs(against)
    found = inspect_model(model, family, pairs, tolerance)
    return {"runs": "refused" not in found, **found}


def _check_is_model(name: str) -> None:
    """Check that this is no preset, method, service or file, for which there are options.

    Raises:
        InputError: it says which.
    """
    path = Path(name)
    if path.suffix.lower() in CONFIGURATION_SUFFIXES:
        hint = f"; if it is a configuration, use --config {shlex.quote(name)}"
    elif "/" in name or path.exists():
        return
    else:
        hint = name_hint(name, as_options=True) or _similar_preset(name)
    if hint:
        raise InputError(f"MODEL: {name!r} is no folder and no model at Hugging Face{hint}")


def _similar_preset(name: str) -> str:
    similar = most_similar(name, preset_names(), ALIKE)
    hint = f"; did you mean the preset {similar!r}? (doctor --preset {similar})"
    return "" if similar is None else hint


def _extras() -> dict[str, Any]:
    extras: dict[str, dict[str, str | None]] = {}
    try:
        requirements = metadata.requires("secondpass") or []
    except metadata.PackageNotFoundError:  # run from source without an installation
        requirements = []
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match and match[2] != "dev":
            extras.setdefault(match[2], {})[match[1]] = _version(match[1])
    return {
        extra: {
            "installed": None not in packages.values(),
            "packages": packages,
            "install": MissingExtraError(extra, "doctor").command,
        }
        for extra, packages in sorted(extras.items())
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _run_reranker(config: Mapping[str, Any], options: RerankerOptions) -> dict[str, Any]:
    """Construct a reranker, load its models, and rank two sentences."""
    result: dict[str, Any] = {"runs": False}
    try:
        with options.naming_file():
            configured = load({**config, "log_level": "debug"})  # issues are printed, not logged
        if configured.cache is not None:
            result["cache"] = _state_of(configured.cache)
        # A cached answer would hide a service that is down.
        reranker = configured.changed(cache=None)
        result["made"] = True
        try:
            reranker.warm_up()
            result["loaded"] = True
            result["stores"] = _stores(reranker)  # before the ranking, which adds its sentences
            ranking = reranker.rerank(_QUERY, _CANDIDATES)
            if result["stores"] and ranking.report.usage.encoded:
                reranker.forget(_CANDIDATES)
        finally:
            reranker.close()
    except SecondPassError as error:
        return {**result, "reason": str(error)}
    except Exception as error:  # of another package; its message may contain a key
        return {**result, "reason": f"{type(error).__name__} was raised"}
    report = ranking.report
    result["runs"] = report.status == "ok"
    result["order"] = [item.id for item in ranking]
    result["report"] = report.to_dict()
    if not result["runs"]:
        issues = "; ".join(f"{issue.code}: {issue.message}" for issue in report.issues)
        result["reason"] = f"the ranking is {report.status_text}: {issues}"
    return result


def _stores(reranker: Reranker) -> list[dict[str, Any]]:
    """What the passage stores of the methods hold."""
    found = []
    for method in (reranker.method, *(stage.method for stage in reranker.fallback)):
        contents = getattr(getattr(method, "scorer", None), "store_contents", None)
        if contents is not None and (held := contents()) is not None:
            found.append(held)
    return found


def _state_of(cache: ResponseCache) -> str:
    """Whether a response cache can be used, which the ranking of this command does not."""
    try:
        cache.check()
    except ConfigurationError as error:
        return str(error)
    return "can be used"


def _print(result: Mapping[str, Any]) -> None:
    """Print the answer to what was asked; what is installed stands last."""
    console = result_console()
    if "model" in result:
        for line in _model_lines(result["model"]):
            console.print(line)
        console.print()
    if "reranker" in result:
        console.print(_reranker_line(result["reranker"]))
        if "cache" in result["reranker"]:
            console.print(Text(one_line(f"response cache: {result['reranker']['cache']}")))
        for store in result["reranker"].get("stores", ()):
            size = f"{store['bytes'] / 1e6:,.1f} of {store['max_bytes'] / 1e6:,.0f} MB"
            access = "" if store["writable"] else ", which is only read"
            text = f"store {store['path']}: {counted(store['rows'], 'passage')}, {size}{access}"
            console.print(Text(one_line(text)))
        console.print()
    if "network" in result:
        table = plain_table("variable", "status")
        for name, is_set in result["network"]["variables"].items():
            table.add_row(one_line(name), "set" if is_set else "not set")
        console.print(table)
        for kind in ("environment", "addresses"):
            for name, status in result["network"][kind].items():
                console.print(Text(one_line(f"{name}: {status}")))
        console.print()
    about = f"secondpass {result['secondpass']}, Python {result['python']}, {result['platform']}"
    console.print(Text(about))
    table = plain_table("extra", "installed", "packages")
    for extra, details in result["extras"].items():
        packages = ", ".join(
            f"{name} {version or 'is missing'}" for name, version in details["packages"].items()
        )
        if details["installed"]:
            table.add_row(extra, Text("yes", "green"), packages)
        else:
            table.add_row(extra, Text("no", "yellow"), f"{details['install']}: {packages}")
    console.print()
    console.print(table)


def _model_lines(result: Mapping[str, Any]) -> Iterator[Text]:
    """What is recognised in a model; the first line says whether it is doubtful."""
    doubt = result.get("doubt")
    first = Text("model: ", "bold") + Text(escaped(result["model"]))
    yield (
        first
        if doubt is None
        else first + Text(" is doubtful: ", "bold red") + Text(escaped(doubt))
    )
    rows = {
        "family": "{family}: {title}",
        "reasons": "because of {reasons}",
        "read_out": "score: {read_out} ({score_kind})",
        "cut": "long texts: {cut}",
        "verified": "verified with {verified}",
        "engine": "runs on {engine[backend]} in {engine[precision]}: {engine[reason]}",
        "tokens": "a pair: {tokens}",
        "score": "its score: {score:.4g}",
    }
    separators = {"reasons": "; ", "tokens": " "}
    values = {
        key: separators[key].join(value) if key in separators else value
        for key, value in result.items()
    }
    for key, row in rows.items():
        if values.get(key) is not None:
            yield Text(escaped(row.format(**values)))
    if "against" in result:
        yield _comparison_line(result["against"])
    if "refused" in result:
        yield Text("cannot run: ", "bold red") + Text(escaped(result["refused"]))


def _comparison_line(result: Mapping[str, Any]) -> Text:
    """How far the scores of a file are."""
    pairs = counted(result["pairs"], "pair")
    start = Text("agrees: " if result["agrees"] else "differs: ", "bold")
    start.stylize("green" if result["agrees"] else "red")
    values = [result[key] for key in ("largest_difference", "score", "known")]
    largest, score, known = ("no number" if it is None else f"{it:.4g}" for it in values)
    reading = " as probabilities (`activation: sigmoid`)" if result["activation"] != "none" else ""
    return start + Text(
        f"the scores of {pairs}{reading}: the largest difference is {largest} (pair "
        f"{result['pair']}: {score}, and {known} in the file), of {result['tolerance']:.4g} that "
        "are accepted"
    )


def _reranker_line(result: Mapping[str, Any]) -> Text:
    if not result["runs"]:
        return Text("cannot run: ", "bold red") + Text(escaped(result["reason"]))
    report = result["report"]
    usage = report["usage"]
    details = (
        f"status {report['status']}, method {report['method']}, {report['seconds']:.2f} s, "
        f"{counted(usage['calls'], 'call')}, {counted(usage['pairs'], 'pair')}; "
        f"first: {result['order'][0]}"
    )
    return Text("runs: ", "bold green") + Text(escaped(details))
