"""What is recorded of the time, the packages and the machine."""

import platform
import re
from importlib import metadata

import pytest

import secondpass
from secondpass_evaluation import environment


def test_the_time_is_in_utc_to_the_second():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", environment.now())


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
