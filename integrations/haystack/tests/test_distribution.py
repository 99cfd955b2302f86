"""The distribution, its docs, and where the class is defined."""

from __future__ import annotations

import importlib.metadata
import inspect
from pathlib import Path

import pytest

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from printed_commands import blocks
from stated_output import run_blocks

PROJECT = Path(__file__).resolve().parents[1]


def test_only_the_namespace_leaf_is_packaged() -> None:
    root = PROJECT / "src"
    leaf = root / "haystack_integrations/components/rankers/secondpass"
    assert (leaf / "py.typed").is_file()
    files = {path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path.parent for path in files} == {leaf}


def test_the_distribution_is_the_core_s_twin() -> None:
    metadata = importlib.metadata.metadata("secondpass-haystack")
    core = importlib.metadata.version("secondpass")
    assert metadata["Version"] == core
    assert metadata["Requires-Python"] == ">=3.11"
    needed = {line for line in metadata.get_all("Requires-Dist") or () if "extra ==" not in line}
    assert needed == {"haystack-ai>=2.31", f"secondpass=={core}"}


def test_the_class_is_defined_in_the_namespace_of_integrations() -> None:
    module = "haystack_integrations.components.rankers.secondpass.ranker"
    assert SecondPassRanker.__module__ == module
    assert SecondPassRanker("lexical").to_dict()["type"] == f"{module}.SecondPassRanker"


def test_every_parameter_is_documented_in_haystack_s_form() -> None:
    for method in (SecondPassRanker.__init__, SecondPassRanker.run, SecondPassRanker.from_dict):
        docstring = inspect.getdoc(method) or ""
        for name in inspect.signature(method).parameters:
            assert name == "self" or f":param {name}:" in docstring


def test_the_code_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks(blocks(PROJECT / "README.md", "python"), "README.md")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("The castle garden opens at nine. scored")
    assert lines[2] == "ok"
