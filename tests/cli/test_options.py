"""Groups of options, and names of presets, which shells complete as they are typed."""

import inspect
from dataclasses import dataclass

import pytest

from command_calls import process
from secondpass.cli.options import grouped
from secondpass.config import preset_names


@dataclass(frozen=True)
class Inner:
    b: int = 2
    c: str = "c"


@dataclass(frozen=True)
class Outer:
    a: int = 1
    inner: Inner = Inner()
    d: bool = False


def test_a_group_is_one_parameter_and_its_options_stand_in_its_place():
    calls = []

    @grouped
    def command(*, first: int = 0, group: Outer, last: str = "z") -> None:
        calls.append((first, group, last))

    options = inspect.signature(command).parameters
    defaults = {name: option.default for name, option in options.items()}
    expected = {"first": 0, "a": 1, "b": 2, "c": "c", "d": False, "last": "z"}
    assert [*defaults.items()] == [*expected.items()]
    command(first=5, a=6, b=7, c="x", d=True, last="y")
    assert calls == [(5, Outer(6, Inner(7, "x"), True), "y")]


# ---------------------------------------------------------------------- completion


def asked(*words):
    """The variables by which bash asks for the last of these words."""
    return {
        "_SECONDPASS_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["secondpass", *words]),
        "COMP_CWORD": str(len(words)),
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["conf"], ["config"]),
        (["config", "v"], ["validate"]),
        *(
            (words, [name for name in preset_names() if name.startswith(words[-1])])
            for words in (
                ["query", "-p", "l"],
                ["eval", "suite", "--preset", "embedded", "--preset", "c"],
                ["presets", "t"],
                ["rerank", "-p", "xical"],
                ["rerank", "-p", "LEX"],
                ["config", "show", "--preset", "nosuch"],
            )
        ),
    ],
    ids=" ".join,
)
def test_commands_and_presets_are_completed(secondpass, monkeypatch, words, expected):
    for name, value in asked(*words).items():
        monkeypatch.setenv(name, value)
    told = secondpass()
    assert (told.code, told.out.split()) == (0, expected), told.err


def test_a_shell_gets_the_names_alone():
    done = process(**asked("rerank", "--preset", "emb"))
    assert (done.returncode, done.stderr) == (0, b"")
    names = [name for name in preset_names() if name.startswith("emb")]
    assert done.stdout.decode().split() == names
