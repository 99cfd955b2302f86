"""Options that several subcommands share, in groups, and the configuration that they name.

A subcommand decorated with :func:`grouped` takes a group as one parameter.
"""

from __future__ import annotations

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from secondpass.adapters.depths import scoring_all
from secondpass.cli.console import USAGE_ERROR, check_usage, decode_argument, fail, info, warn
from secondpass.concurrency.lazy import running_nothing
from secondpass.config import load
from secondpass.errors import ConfigurationError, InputError
from secondpass.ranking.options import validate
from secondpass.reranker import Reranker
from secondpass.settings import examples, model_of, registry, suggestion, yaml_text
from secondpass.settings.loading import (
    MAPPING,
    has_store,
    over_preset,
    overridden,
    read_written,
)
from secondpass.settings.messages import ALIKE, means_off, of_file, off_value
from secondpass.settings.name_hints import CONFIGURATION_SUFFIXES, OPEN, name_hint
from secondpass.settings.registry import preset_names
from secondpass.settings.signature import Nested


def complete_preset(incomplete: str) -> list[str]:
    """The names of presets that begin like this, for the completion of shells."""
    return [name for name in preset_names() if name.startswith(incomplete)]


Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        "-p",
        help="Name of a preset, a ready-made configuration; `secondpass presets` lists them. "
        "Without a preset and a file, commands that rank use `default`.",
        autocompletion=complete_preset,
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML file with a configuration.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Change one setting of the configuration: `--set depth=50 --set "
        "method.device=cpu`. Repeatable, once for each setting.",
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        "--order",
        help="How to rearrange the results after reranking: a name in the configuration's "
        "`orders`, `lost_in_the_middle`, a mapping such as `{type: tiers, …}`, or "
        "`none`.",
    ),
]
Instruction = Annotated[
    str | None,
    typer.Option(
        "--instruction",
        metavar="TEXT",
        callback=decode_argument,
        help="Say what counts as relevant, such as `prefer recent documents`. Only methods "
        "that take an instruction use it.",
    ),
]
Depth = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of candidates to rerank, from the first; the others keep their order "
        "behind them.",
    ),
]
InputFile = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="File of JSON lines. Default, and `-`: standard input."),
]
OneQuery = Annotated[
    str | None,
    typer.Option(
        "--query",
        "-q",
        callback=decode_argument,
        help="The query; each input line is then a candidate for it.",
    ),
]
Lines = Annotated[
    bool,
    typer.Option(
        "--lines",
        help="Read each input line as the text of a candidate, not as JSON. A local method scores "
        "all lines, unless a depth is stated.",
    ),
]
WithText = Annotated[
    bool, typer.Option("--text/--no-text", help="Include texts and metadata in the output.")
]
Timings = Annotated[bool, typer.Option("--timings", help="Include durations in the output.")]
Batch = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of queries to rank at the same time. Default: 8 with a local method, 64 with "
        "one that asks a service.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress bars and no summary.")]
Explain = Annotated[
    list[str] | None,
    typer.Option(
        "--explain",
        metavar="ID",
        help="Explain why the candidate with this id has its rank, or why it is absent. "
        "Repeatable.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Only estimate calls, tokens and cost; no model is called. In a pipe, the "
        "estimate is JSON.",
    ),
]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Take the fields of a parameter that is a dataclass as options, which stand in its place.

    The command is called with the object.
    """
    hints = get_type_hints(command, include_extras=True)
    given = inspect.signature(command).parameters

    @functools.wraps(command)
    def called(**values: Any) -> None:
        arguments = {name: _collected(name, hints[name], values) for name in given}
        with ExitStack() as stack:
            for argument in arguments.values():
                if isinstance(argument, RerankerOptions):
                    stack.enter_context(argument.naming_file())
            command(**arguments)

    options = [
        option
        for name, parameter in given.items()
        for option in _options(name, hints[name], parameter.default)
    ]
    called.__annotations__ = {option.name: option.annotation for option in options}
    called.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return called


def _options(name: str, hint: Any, default: Any) -> Iterator[inspect.Parameter]:
    """A parameter, or one for each field of a group."""
    if not is_dataclass(hint):
        kind = inspect.Parameter.KEYWORD_ONLY
        yield inspect.Parameter(name, kind, default=default, annotation=hint)
        return
    hints = get_type_hints(hint, include_extras=True)
    for field in fields(hint):
        yield from _options(field.name, hints[field.name], field.default)


def _collected(name: str, hint: Any, values: dict[str, Any]) -> Any:
    """The value of a parameter, or the group of the values of its fields."""
    if not (isinstance(hint, type) and is_dataclass(hint)):
        return values[name]
    hints = get_type_hints(hint, include_extras=True)
    return hint(**{part: _collected(part, hints[part], values) for part in hints})


@dataclass(frozen=True)
class RerankerOptions:
    """Which reranker."""

    preset: Preset = None
    config: Config = None
    settings: Set = None

    def read(self, default: str = "default", *, unordered: bool = False) -> dict[str, Any]:
        """The configuration; by default the one of a preset; see :func:`configuration`."""
        name = default if self.preset is None and self.config is None else self.preset
        return configuration(name, self.config, self.settings, unordered=unordered)

    def sets(self, key: str) -> bool:
        """Whether ``--set`` has this key."""
        return any(setting.partition("=")[0] == key for setting in self.settings or ())

    @contextmanager
    def naming_file(self) -> Iterator[None]:
        """Errors about the configuration name its file."""
        try:
            yield
        except ConfigurationError as error:
            if error.about != MAPPING or self.config is None:
                raise
            problems = of_file(error.problems)
            raise ConfigurationError(problems, str(self.config)) from error.__cause__


@dataclass(frozen=True)
class RunOptions:
    """A TREC run whose documents are the candidates."""

    run: Annotated[
        Path | None,
        typer.Option(
            help="Candidates as a TREC run (`query Q0 document rank score tag` lines); all "
            "lines of a query must stand together."
        ),
    ] = None
    queries: Annotated[
        Path | None, typer.Option(help="Queries of the run: JSON lines, or lines of `id<TAB>text`.")
    ] = None
    corpus: Annotated[Path | None, typer.Option(help="Documents of the run: JSON lines.")] = None

    def check(self) -> None:
        parts = self.queries is not None, self.corpus is not None
        check_usage(
            {
                "--run: needs --queries and --corpus": self.run is not None and not all(parts),
                "--queries, --corpus: need --run": self.run is None and any(parts),
            }
        )


@dataclass(frozen=True)
class RankingOptions:
    """How each query is ranked, unless a request says otherwise."""

    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", min=1, help="Number of results per query.")
    ] = None
    depth: Depth = None
    order: Order = None
    instruction: Instruction = None
    now: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Time for `terms`, such as 2026-11-27. Default: now."),
    ] = None
    context: Annotated[
        Path | None,
        typer.Option(
            help="JSON or YAML file with context that a language model reads with every query, "
            "such as facts about the reader."
        ),
    ] = None

    def read(self, reranker: Callable[[], Reranker]) -> dict[str, Any]:
        """The keywords of a call; ``reranker`` is called if there is an ordering to check."""
        return {
            "top_k": self.top_k,
            "depth": self.depth,
            "order": None if self.order is None else parse_order(reranker(), self.order),
            "instruction": self.instruction,
            **self._time(),
        }

    def _time(self) -> dict[str, str]:
        if self.now is None:
            return {}
        try:
            validate({"now": self.now})
        except InputError as error:
            fail(f"--{error}", USAGE_ERROR)
        return {"now": self.now}


def parse_order(reranker: Reranker, value: str | None) -> str | dict[str, Any] | None:
    order: Any = value
    if value is not None and value.lstrip().startswith("{"):
        try:
            order = yaml_text.parse(value)
        except yaml_text.NotYAMLError:
            fail("--order: write a name, or a mapping such as {type: tiers, …}", USAGE_ERROR)
    try:
        validate({"order": order}, reranker.orders)
    except InputError as error:
        fail(f"--{error}", USAGE_ERROR)
    return order  # type: ignore[no-any-return]


@contextmanager
def new_folder(path: Path | None) -> Iterator[None]:
    """Create a folder for output, and remove it again if an error leaves it empty."""
    if path is None or path.is_dir():
        yield
        return
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it is not empty
            path.rmdir()
        raise


_DEFAULT_DEPTH = 50
"""Candidates to rerank if neither an option nor the configuration has a depth."""

_MAX_KEY_PARTS = 20


def configuration(
    preset_name: str | None,
    file: Path | None,
    settings: Sequence[str] | None,
    *,
    base: Mapping[str, Any] | None = None,
    unordered: bool = False,
) -> dict[str, Any]:
    """The configuration of ``--preset``, ``--config`` and ``--set``.

    Without a preset and a file it is the ``base``; without that, the preset ``default``. It is for
    candidates in the order of a search, or ``unordered`` ones, of which all are scored if neither
    the file nor a setting states a depth; see :func:`scoring_all`.
    """
    if preset_name is not None and file is not None:
        fail("--preset, --config: give one of them", USAGE_ERROR)
    _check_source(preset_name, file)
    if file is not None:
        config = read_written(file)
    elif base is not None and preset_name is None:
        config = dict(base)
    else:
        config = {"preset": "default" if preset_name is None else preset_name}
    keys: set[str] = set()
    values: dict[str, Any] = {}
    for setting in settings or ():
        key = setting.partition("=")[0]
        if key in keys:
            fail(f"--set {key}: give it once", USAGE_ERROR)
        keys.add(key)
        values = overridden(values, _parse_setting(setting))
    config = overridden(config, values)
    states_depth = "depth" in config
    config = over_preset(config)
    return scoring_all(config) if unordered and not states_depth else config


def load_for(config: Mapping[str, Any], *, dry_run: bool) -> Reranker:
    """The reranker of a configuration; a dry run does not need the packages of its models."""
    with running_nothing() if dry_run else nullcontext():
        reranker = load(config)
    if not dry_run:
        note_new_stores(config)
    return reranker


def note_new_stores(*configs: Mapping[str, Any]) -> None:
    """Print which stores of passages do not exist yet, or cannot: their paths may be misspelt.

    The configurations need not be valid.
    """
    paths: dict[str, None] = {}
    for config in configs:
        waiting = [config.get("method"), config.get("fallback")]
        while waiting:
            method = waiting.pop()
            if isinstance(method, list):
                waiting += method
            elif isinstance(method, Mapping):
                waiting += [method.get("method"), method.get("stages")]
                store = method.get("store")
                path = store.get("path") if isinstance(store, Mapping) else store
                if isinstance(path, str) and not Path(path).exists():
                    paths[path] = None
    for path in paths:
        if not Path(path).absolute().parent.is_dir():
            warn(f"{path}: its folder does not exist, so no passage is stored")
            continue
        command = f"`secondpass store DOCS --into {shlex.quote(path)}`"
        info(f"{path} is a new, empty store; {command} fills it")


def _check_source(preset_name: str | None, file: Path | None) -> None:
    """Check that there is such a preset or file; an error names the options that are meant."""
    if file is not None and not file.exists():
        hint = name_hint(str(file), as_options=True)
        raise ConfigurationError(f"there is no such file{hint}", str(file))
    if preset_name is None or preset_name in registry.preset_names():
        return
    hint = name_hint(preset_name, as_options=True)
    if Path(preset_name).suffix.lower() in CONFIGURATION_SUFFIXES:
        hint = f"; if it is a file, use --config {preset_name}"
    hint = hint or suggestion(preset_name, registry.preset_names(), least=ALIKE)
    raise ConfigurationError(f"no preset is named {preset_name!r}{hint}")


def with_depth(config: Mapping[str, Any], top_n: int | None) -> dict[str, Any]:
    """A configuration with the depth of ``--rerank-top-n``, its own depth, or 50, in this order.

    With a store of passages, the default is the default of rerankers, 100.
    """
    if top_n is None and ("depth" in config or has_store(config)):
        return dict(config)
    return {**config, "depth": top_n or _DEFAULT_DEPTH}


def _parse_setting(setting: str) -> dict[str, Any]:
    """Parse ``a.b=VALUE`` as the mapping ``{a: {b: VALUE}}``."""
    key, equals, text = setting.partition("=")
    parts = key.split(".")
    if not equals or not all(parts) or len(parts) > _MAX_KEY_PARTS:
        # Only its name: the value may be a key.
        name = re.split(r"[=:\s]", setting, maxsplit=1)[0][:80]
        raise ConfigurationError(f"--set {name}: write KEY=VALUE, such as depth=50")
    if parts == ["preset"]:
        raise ConfigurationError("--set preset: use --preset")
    try:
        value: Any = yaml_text.parse(text) if text.strip() else ""
    except yaml_text.TooLargeError as error:
        raise ConfigurationError(f"--set {key}: {error}") from None
    except yaml_text.NotYAMLError:
        value = text
    if len(parts) == 1:
        _check_is_mapping(key, value, text)
    for part in reversed(parts[1:]):
        value = {part: value}
    return {parts[0]: value}


def _check_is_mapping(key: str, value: Any, text: str) -> None:
    """Check that a setting with settings of its own is not set to a single value."""
    field = model_of(Reranker).model_fields.get(key)
    nested = [part.cls for part in field.metadata if isinstance(part, Nested)] if field else []
    if value is None or isinstance(value, Mapping) or not nested or nested[0] is None:
        return
    own = model_of(nested[0]).model_fields
    required = [name for name, each in own.items() if each.is_required()]
    if len(required) == 1:
        others = {required[0]: OPEN, **examples(nested[0])}
        if not isinstance(value, bool | str):
            others[required[0]] = text
        hint = "write " + " ".join(f"--set {key}.{name}={each}" for name, each in others.items())
    else:
        shown = OPEN if isinstance(value, bool | str) else text
        hint = f"write --set {key}.NAME={shown}, where NAME is one of: {', '.join(sorted(own))}"
    if means_off(value) and off_value(model_of(Reranker), key) == "None":
        hint = f"to switch it off, write --set {key}=null; otherwise {hint}"
    raise ConfigurationError(f"--set {key}: has settings of its own; {hint}")
