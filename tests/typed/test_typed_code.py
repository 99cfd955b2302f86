"""What type checkers read in place of a user (`make lint`) is all of the docs' code, and runs."""

import runpy

import typed_code
from remembered_model import remember


def test_the_program_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    remember(monkeypatch)
    names = runpy.run_path(str(typed_code.PROGRAM))
    assert len(names["by_mappings"]) > 10 < len(names["by_objects"])


def test_every_page_with_python_is_written(tmp_path):
    folder = tmp_path / "typed"
    typed_code.write(folder)
    written = {path.stem for path in folder.glob("*.py")}
    assert {"README", "docs_extend", "docs_monitoring", "docs_haystack", "program"} <= written
    assert "Reranker.from_preset" in (folder / "README.py").read_text(encoding="utf-8")


def test_every_package_says_that_it_is_typed():
    marked = {path.parent for source in typed_code.SOURCES for path in source.rglob("py.typed")}
    for source in typed_code.SOURCES:
        for module in source.rglob("*.py"):
            assert not marked.isdisjoint(module.parents), module
