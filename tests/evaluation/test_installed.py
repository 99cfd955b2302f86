"""Without a package of the extra, its name is said before anything is done."""

import sys
from pathlib import Path

import pytest

import secondpass_evaluation
from command_calls import called, python
from secondpass import MissingExtraError

INSTALL = 'pip install "secondpass[evaluation]"'


@pytest.mark.parametrize("package", secondpass_evaluation._PACKAGES)
def test_public_names_say_what_to_install(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as caught:
        _ = secondpass_evaluation.compare
    assert INSTALL in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ("index", "folder", "--into", "index"),
        ("query", "-q", "owl", "--corpus", "folder"),
        ("eval", "suite", "--compare", "lexical"),
        ("judge", "log.jsonl", "--corpus", "folder", "--into", "judged", "-p", "lexical"),
        ("tune", "suite"),
        ("drift", "days"),
        ("calibrate", "suite", "-p", "lexical"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_say_what_to_install(monkeypatch, arguments):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    told = called(*arguments)
    assert (told.code, told.out) == (1, "")
    assert INSTALL in told.flat


def test_a_module_is_imported_without_the_public_names():
    """They need modules that may be the ones that import this, as `tune` did."""
    done = python(
        "import sys; from secondpass_evaluation import environment; "
        "print(environment.__name__, 'secondpass_evaluation.public' in sys.modules)"
    )
    assert done.stdout == "secondpass_evaluation.environment False\n"


def test_no_public_name_is_that_of_a_module():
    folder = Path(secondpass_evaluation.__file__).parent
    modules = {path.stem for path in folder.iterdir()}
    assert modules.isdisjoint(secondpass_evaluation.__all__)


def test_a_name_that_does_not_exist_is_none():
    assert not hasattr(secondpass_evaluation, "compute")
    assert "compare" in dir(secondpass_evaluation)
