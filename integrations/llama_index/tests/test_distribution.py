"""The distribution and its README."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

from llama_index.postprocessor.secondpass import SecondPassRerank
from printed_commands import blocks
from stated_output import run_blocks


def test_the_distribution_is_laid_out_as_llamahub_wants() -> None:
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert project["project"]["name"] == "llama-index-postprocessor-secondpass"
    hub = project["tool"]["llamahub"]
    assert hub["import_path"] == SecondPassRerank.__module__.removesuffix(".base")
    assert list(hub["class_authors"]) == ["SecondPassRerank"]
    leaf = root / "src" / "llama_index" / "postprocessor" / "secondpass"
    assert (leaf / "py.typed").exists()
    for parent in (leaf.parent, leaf.parent.parent):
        assert [one.name for one in parent.iterdir() if one.is_file()] == []


def test_the_readme_runs() -> None:
    run_blocks(blocks(Path(__file__).parents[1] / "README.md", "python"), "README.md")


def test_installed_distribution_lists_requirements() -> None:
    name = "llama-index-postprocessor-secondpass"
    needed = importlib.metadata.requires(name) or []
    core_needed = next(one for one in needed if one.startswith("llama-index-core"))
    assert ">=0.14.20" in core_needed
    assert "<0.15" in core_needed
    assert any(one.startswith("secondpass") for one in needed)
