"""Run the command: errors become one sentence and an exit code, never a traceback."""

from __future__ import annotations

import functools
import io
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from secondpass.cli.console import (
    INTERRUPTED,
    TERMINATED,
    USAGE_ERROR,
    bars_of_packages,
    escaped,
    fail,
    flush_results,
    on_terminal,
    warn,
)
from secondpass.errors import ConfigurationError, Problem, SecondPassError
from secondpass.settings import counted, describe, parameter_hints, parameters_of
from secondpass.settings.loading import MAPPING
from secondpass.settings.messages import (
    ALIKE,
    UNKNOWN_KEY,
    did_you_mean,
    most_similar,
    of_file,
    reworded,
)
from secondpass.settings.name_hints import CONFIGURATION_SUFFIXES, OPEN, complete, in_options
from secondpass.settings.registry import preset_names

P = ParamSpec("P")
T = TypeVar("T")

_MOST_WARNINGS = 10
"""Number of different log messages to print: each query may log another."""

_SIGNALS = {
    signal.SIGINT: (signal.default_int_handler, INTERRUPTED),
    signal.SIGTERM: (signal.SIG_DFL, TERMINATED),
}
"""Signals that stop the command -> handler of a new process, and exit code."""

_OPTIONS_INSTEAD: Mapping[str, Sequence[str]] = {
    "--mode": ("--vector", "--lexical", "--hybrid", "--behind"),
    **dict.fromkeys(("--budget", "--max-tokens", "--token-budget"), ("--tokens",)),
    **dict.fromkeys(("--k", "--top-n", "--topn", "--limit"), ("--top-k",)),
    **dict.fromkeys(("--depth", "--rerank-depth"), ("--rerank-top-n",)),
    **dict.fromkeys(("--metric", "--metrics"), ("--measure",)),
    **dict.fromkeys(("--chunk", "--chunk-size", "--chunk-length"), ("--passage-size",)),
    **dict.fromkeys(("--top-k", "-k"), ("--measure",)),  # `--measure nDCG@5`: of 5 results
    "--target": ("--keep",),
    "--batch": ("--concurrency",),
    **dict.fromkeys(("--reranker", "--model", "--rerank"), ("--rerank-model", "--try")),
    "--rerank-model": ("--try",),
    **dict.fromkeys(("--preset", "--config", "--compare", "--pool"), ("--try", "--preset")),
    "--try": ("--compare", "--preset", "--config"),
    **dict.fromkeys(("--output", "--out"), ("--into",)),
    "--index": ("--corpus",),
}
"""Option that another command or tool has -> those to use instead, where a command has them."""

_COMMANDS_INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("search", "retrieve", "find", "ask"), "query"),
    **dict.fromkeys(("evaluate", "evaluation", "benchmark", "bench", "compare"), "eval"),
    **dict.fromkeys(("optimize", "optimise"), "tune"),
    **dict.fromkeys(("serve-http", "http", "api"), "serve"),
    **dict.fromkeys(("models", "list"), "presets"),
    **dict.fromkeys(("demo", "init"), "example"),
    "serve-mcp": "mcp",
    "threshold": "calibrate",
    "validate": "config",
    "version": "--version",
}
"""Word for what a command or an option does -> its name, where there is such a one."""

_NO_CHOICE = re.compile(r"'(?P<value>[^']*)' is not one of (?P<known>'.+')\.$", re.DOTALL)
"""Typer's message about a value of an option that has few values."""

_NUMBER = re.compile(r"-?[\d.]+")

_interrupts: list[int] = []
"""The number of each of these signals since the command started."""


def run(app: Callable[[], Any]) -> None:
    _use_utf8()
    try:
        with bars_of_packages(shown=on_terminal(sys.stderr)), _log_warnings(), _count_interrupts():
            report_errors(app)()
    except typer.Exit as exit_:  # an error outside a subcommand
        sys.exit(exit_.exit_code)
    finally:
        _flush_or_discard()


class Subcommand(TyperCommand):
    """A subcommand that words errors about its arguments as those about settings are worded.

    It refuses an option given twice, as only the last one would count.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; the exit code is 2 if they are wrong."""
        try:
            values, extra, order = self.make_parser(ctx).parse_args(list(args))
        except TyperException as error:
            if (name := getattr(error, "option_name", None)) is None:
                raise
            if not hasattr(error, "possibilities"):
                takes_none = "not take" in getattr(error, "message", "")
                value = "takes no value" if takes_none else "needs a value"
                fail(f"{name}: {value}", USAGE_ERROR)
            hint = self._option_instead(name, args, ctx)
            fail(f"{name}: no such option{hint}", USAGE_ERROR)
        for option in self.params:
            is_single = option.param_type_name == "option" and not (
                getattr(option, "multiple", False) or getattr(option, "is_flag", False)
            )
            if is_single and order.count(option) > 1:
                fail(f"{option.opts[0]}: give it once", USAGE_ERROR)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if error.param is None:
                raise
            fail(self._about_parameter(error, values), USAGE_ERROR)
        except TyperException as error:
            if "unexpected extra argument" not in error.message:
                raise
            fail(self._about_extra([*map(str, extra)], values, ctx), USAGE_ERROR)

    def _option_instead(self, name: str, args: Sequence[str], ctx: Any) -> str:
        """``; …`` the option that is misspelt, or what to write for the name or its value."""
        options = _option_names(self, ctx)
        if name in {"--set", "-s"} and "--try" in options:
            return "; write the settings to a YAML file, and name it with --try"
        instead = [it for it in _OPTIONS_INSTEAD.get(name, ()) if it in options]
        if not instead and most_similar(name, options, ALIKE):
            return _similar(name, options)
        values = [value for word, value in pairwise([*args, ""]) if word == name]
        values += [word.partition("=")[2] for word in args if word.startswith(f"{name}=")]
        if flags := [it for it in dict.fromkeys(f"--{it}" for it in values) if it in options]:
            return f"; did you mean {listed(flags)}?"
        source = next((it for it in ("--preset", "--try") if it in options), None)
        named = next((value for value in values if value in preset_names()), None)
        if source and named:
            return f"; did you mean {source} {named}?"
        if instead:
            return f"; did you mean {listed(instead)}?"
        return ("--set" in options and _as_setting(name, options)) or " (see --help)"

    def _about_parameter(self, error: typer.BadParameter, values: Mapping[str, Any]) -> str:
        """What is wrong with the value of a parameter, or what is missing."""
        parameter: Any = error.param
        is_option = parameter.param_type_name == "option"
        name = parameter.opts[0] if is_option else parameter.metavar or parameter.name.upper()
        if not error.message:
            example = re.search(rf"`(secondpass {self.name} [^`]+)`", self.help or "")
            such_as = f", such as {' '.join(example[1].split())}" if example else " (see --help)"
            return f"missing {name}{such_as}"
        message = reworded(error.message)
        if choice := _NO_CHOICE.search(error.message):
            value, known = choice["value"], re.findall(r"'([^']+)'", choice["known"])
            hint = _repeated(name, value) if getattr(parameter, "multiple", False) else ""
            hint = hint or did_you_mean(value, known)
            return f"{name}: {message}, not {describe(value)}{hint}"
        value, hint = values.get(parameter.name), ""
        if isinstance(value, list):
            value = next((it for it in value if not _NUMBER.fullmatch(it)), value[0])
            hint = _repeated(name, value)
        is_shown = isinstance(value, str) and message.startswith("must ")
        shown = value if _NUMBER.fullmatch(str(value)) else describe(value)
        return f"{name}: {message}, not {shown}{hint}" if is_shown else f"{name}: {message}"

    def _about_extra(self, extra: Sequence[str], values: Mapping[str, Any], ctx: Any) -> str:
        """What is wrong with arguments that are left over, and which option is probably meant."""
        options = _option_names(self, ctx)
        word, words = extra[0], " ".join(extra)

        def option(*names: str) -> str:
            return next((name for name in names if name in options), "")

        is_file = Path(word).suffix.lower() in CONFIGURATION_SUFFIXES
        hint = " (see --help)"
        if any("=" not in setting for setting in values.get("settings") or ()):
            hint = "; write --set KEY=VALUE without spaces, or put it between quotes"
        elif word in preset_names() and (preset := option("--preset", "--try")):
            hint = f"; did you mean {preset} {word}?"
        elif is_file and (config := option("--config", "--try")):
            hint = f"; did you mean {config} {word}?"
        elif "--query" in options and values.get("query") is None:
            hint = f"; did you mean --query {shlex.quote(words)}?"
        elif "--question" in options:
            hint = "; put the question between quotes"
        return f"{escaped(words)}: unexpected{hint}"


def _repeated(name: str, value: str) -> str:
    """``; …`` how to give an option several values; empty if there is no comma in this one."""
    parts = [part.strip() for part in value.split(",")]
    several = " ".join(f"{name} {part}" for part in parts)
    return f"; repeat the option: {several}" if len(parts) > 1 and all(parts) else ""


def _option_names(command: Any, ctx: Any) -> list[str]:
    """The names of all options, ``--help`` included."""
    return [
        name
        for option in command.get_params(ctx)
        if option.param_type_name == "option"
        for name in (*option.opts, *option.secondary_opts)
    ]


def _similar(word: str, known: Sequence[str]) -> str:
    """``; did you mean …?`` of the most similar known word; without one, where to look."""
    similar = most_similar(word, known, ALIKE)
    return f"; did you mean {similar}?" if similar else " (see --help)"


def listed(words: Sequence[str]) -> str:
    """``a, b or c``."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _as_setting(option: str, options: Sequence[str]) -> str:
    """``; …`` for an option that is a setting, or another tool's; empty without one."""
    from secondpass.reranker import Reranker

    name = option.lstrip("-").replace("-", "_")
    what = parameter_hints.configured(name, parameters_of(Reranker))
    if not isinstance(what, Mapping):
        return "" if what is None else f"; {what}"
    key = next(iter(what))
    if what[key] == OPEN and (own := f"--{key.replace('_', '-')}") in options:
        return f"; did you mean {own}?"
    if isinstance(method := what.get("method"), Mapping):
        what = {"method": complete(method)}
    return f"; write {in_options(what)}"


class CommandGroup(TyperGroup):
    """Commands whose help has the whole first paragraph of each; typer cuts it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the group itself; the exit code is 2 if they are wrong."""
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            if (name := getattr(error, "option_name", None)) is None:
                raise
            fail(f"{name}: no such option{_similar(name, _option_names(self, ctx))}", USAGE_ERROR)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the subcommand; the exit code is 2 if there is none of this name."""
        name = args[0]
        known = self.list_commands(ctx)
        if name == "help" and name not in known:
            return self._help(ctx, args[1:])
        instead, names = _COMMANDS_INSTEAD.get(name), [*known, *_option_names(self, ctx)]
        hint = f"; did you mean {instead}?" if instead in names else _similar(name, known)
        takers = [it for it in ("show", "validate") if it in known]
        if takers and Path(name).suffix.lower() in CONFIGURATION_SUFFIXES:
            hint = "; write " + listed([f"{ctx.info_name} {it} {name}" for it in takers])
        if name not in known:
            fail(f"{name}: no such command{hint}", USAGE_ERROR)
        return super().resolve_command(ctx, args)

    def _help(self, ctx: Any, args: list[str]) -> NoReturn:
        """Show the help of the group, or of the command that is named, as ``--help`` does."""
        group: Any = self
        for name in args:
            _, group, _ = group.resolve_command(ctx, [name])
            ctx = group.make_context(name, [], parent=ctx, resilient_parsing=True)
        typer.echo(ctx.get_help())
        raise typer.Exit

    def sections(self, ctx: Any) -> Mapping[str, Iterable[str]]:
        """The names of the commands by the headings of the help."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands; their columns are aligned over all sections."""
        sections = self.sections(ctx)
        width = max(len(name) for names in sections.values() for name in names)
        for title, names in sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), _summary(self.get_command(ctx, name))) for name in names]
                )


def _summary(command: Any) -> str:
    return " ".join(command.help.split("\n\n")[0].split()).removesuffix(".")


def report_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Decorate a command so that an error is reported in one sentence."""

    @functools.wraps(command)
    def reported(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            result = command(*args, **kwargs)
            flush_results()  # report a full disk here, not while Python exits
            return result
        except (typer.Exit, typer.Abort):
            raise
        except (KeyboardInterrupt, Exception) as error:
            # A library may convert KeyboardInterrupt to another exception.
            if isinstance(error, Exception) and not _interrupts:
                settings: Any = kwargs.get("settings")  # of --set
                _report(naming_settings(error, settings or ()), kwargs.get("into"))
            output = kwargs.get("output") if "resume" in kwargs else None
            fail(f"stopped{_progress_of(output)}", _stopped_code())

    return reported


def _progress_of(output: Any) -> str:
    """What the output of an interrupted command has, and how to go on; empty without a state."""
    from secondpass.cli.resuming import answers_of, requests_done

    done = None if output is None else requests_done(output)
    if done is None:
        return ""
    if done:
        return f" after {counted(done, 'query', 'queries')}; continue with --resume"
    if answers_of(output).exists():
        return "; continue with --resume, which uses the answers so far"
    return "; nothing was finished yet, so --resume begins again"


def _stopped_code() -> int:
    """The exit code of the signal that came first; the code of Ctrl-C if none was counted."""
    return _SIGNALS[signal.Signals(_interrupts[0])][1] if _interrupts else INTERRUPTED


def _place(error: OSError, into: object) -> str:
    """The file or folder of an error, as the user has named it; empty without one."""
    if not error.filename:
        return ""
    path = Path(os.fsdecode(error.filename))
    if isinstance(error, FileExistsError | NotADirectoryError):  # a file in the place of a folder
        path = next((it for it in (path, *path.parents) if it.is_file()), path)
        if path == into:
            return f"--into {path}: "
    return f"{path}: "


def _reason(error: OSError) -> str | None:
    """What is wrong with a file, and what to do."""
    if isinstance(error, IsADirectoryError):
        return "is a folder; name a file"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "is a file; name a folder"
    if not isinstance(error, FileNotFoundError):
        return error.strerror
    folder = os.path.dirname(os.fsdecode(error.filename or ""))
    if folder and not os.path.exists(folder):
        return "its folder does not exist"
    return "there is no such file or folder"


def naming_settings(error: Exception, settings: Sequence[str]) -> Exception:
    """An error about a configuration, whose problems name ``--set`` if it has caused them.

    The value of ``--set`` is not named: it may be a key.
    """
    if not settings or not isinstance(error, ConfigurationError):
        return error
    keys = [tuple(setting.partition("=")[0].split(".")) for setting in settings]
    set_ones = [any(it.path[: len(key)] == key for key in keys) for it in error.problems]
    problems = [
        Problem((), f"--set {_in_options(problem)}") if is_set else problem
        for problem, is_set in zip(of_file(error.problems), set_ones, strict=True)
    ]
    about = "" if error.about == MAPPING and all(set_ones) else error.about
    return ConfigurationError(problems, about)


def _in_options(problem: Problem) -> Problem:
    """The problem of an unknown key, whose hint names options in place of Python."""
    if "; it is a setting" not in problem.message:
        return problem
    hint = _as_setting(str(problem.path[-1]), ())
    return Problem(problem.path, UNKNOWN_KEY + hint) if hint else problem


def _report(error: Exception, into: object) -> NoReturn:
    """Print an error and exit; ``into`` is the value of ``--into``, if the command has it."""
    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe, as `head` does
        _flush_or_discard()
        raise typer.Exit(0) from None
    if isinstance(error, SecondPassError):
        fail(str(error).replace("force=True", "--force"))
    if isinstance(error, OSError):
        _flush_or_discard()
        fail(_place(error, into) + (_reason(error) or type(error).__name__))
    if os.environ.get("SECONDPASS_DEBUG"):
        raise error
    hint = "set SECONDPASS_DEBUG=1 to see the traceback, and please report it"
    fail(f"internal error: {type(error).__name__}: {error} ({hint})")


@contextmanager
def _count_interrupts() -> Iterator[None]:
    def interrupt(number: int, frame: object) -> NoReturn:  # noqa: ARG001
        _interrupts.append(number)
        raise KeyboardInterrupt

    _interrupts.clear()
    # A signal with another handler is ignored, as in a background job of a shell, or not ours.
    replaced = {
        number: default
        for number, (default, _) in _SIGNALS.items()
        if current_thread() is main_thread() and signal.getsignal(number) == default
    }
    for number in replaced:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, default in replaced.items():
            signal.signal(number, default)


def _flush_or_discard() -> None:
    """Flush standard output, or discard it if that fails, so that Python's exit does not fail."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _use_utf8() -> None:
    """Write UTF-8 in any locale."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


class _WarningHandler(logging.Handler):
    """Prints a message of the library for each cause, up to a limit."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        cause = getattr(record, "cause", message)
        if cause in self.seen or len(self.seen) > _MOST_WARNINGS:
            return
        self.seen.add(cause)
        warn(message if len(self.seen) <= _MOST_WARNINGS else "further warnings are not shown")


@contextmanager
def _log_warnings() -> Iterator[None]:
    logger, handler = logging.getLogger("secondpass"), _WarningHandler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
