"""What is recorded of the time, the packages and the machine."""

import platform
import sys
from importlib import metadata
from pathlib import Path

import pytest

import secondpass
import secondpass_evaluation
from command_calls import called, python
from secondpass import MissingExtraError
from secondpass_evaluation import environment


def test_versions_of_what_is_installed(monkeypatch):
    asked = []

    def version(package):
        asked.append(package)
        if package != "numpy":
            raise metadata.PackageNotFoundError(package)
        return "1.2.3"

    environment._version.cache_clear()
    monkeypatch.setattr(metadata, "version", version)
    found = environment.versions()
    assert found == {"python": platform.python_version(), "numpy": "1.2.3"}
    assert environment.versions() == found
    # What is not installed is looked for again: it may be installed in between.
    assert (asked.count("numpy"), asked.count("torch")) == (1, 2)
    environment._version.cache_clear()
    monkeypatch.undo()
    assert environment.versions()["secondpass"] == secondpass.__version__


def test_the_machine_has_no_name():
    found = environment.machine()
    assert found.keys() <= {"system", "processor", "cores", "memory_gb"}
    assert found["cores"] >= 1
    assert platform.node() not in {str(value) for value in found.values()} - {""}


@pytest.mark.parametrize(
    ("text", "processor"),
    [
        ("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name: other\n", "Some CPU @ 2 GHz"),
        ("processor : 0\n", platform.processor()),
        (None, platform.processor()),
    ],
    ids=["named", "not named", "no file"],
)
def test_the_processor_is_named_as_the_system_names_it(tmp_path, text, processor):
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_text(text)
    assert environment._processor(path) == processor


INSTALL = MissingExtraError("evaluation", "it").command


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
        ("calibrate", "suite", "-p", "lexical"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_say_what_to_install(monkeypatch, arguments):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    told = called(*arguments)
    assert (told.code, told.out) == (1, "")
    assert INSTALL in told.flat


def test_a_module_is_imported_without_the_public_names_and_these_import_nothing_heavy():
    """They need modules that may be the ones that import this, as `tune` did."""
    done = python(
        "import sys, secondpass_evaluation; from secondpass_evaluation import environment; "
        "print(environment.__name__, 'secondpass_evaluation.public' in sys.modules); "
        "assert all(hasattr(secondpass_evaluation, n) for n in secondpass_evaluation.__all__); "
        "print({'numpy', 'bm25s', 'ir_measures', 'scipy'} & {*sys.modules})"
    )
    assert done.stdout == "secondpass_evaluation.environment False\nset()\n"


def test_no_public_name_is_that_of_a_module():
    folder = Path(secondpass_evaluation.__file__).parent
    modules = {path.stem for path in folder.iterdir()}
    assert modules.isdisjoint(secondpass_evaluation.__all__)


def test_a_name_that_does_not_exist_is_none():
    assert not hasattr(secondpass_evaluation, "compute")
    assert "compare" in dir(secondpass_evaluation)
