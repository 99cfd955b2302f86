"""The documentation's code runs: Python, YAML, and the commands of the consoles."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from secondpass import Reranker

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = sorted(path for path in (ROOT / "docs").rglob("*.md") if "publishing" not in path.parts)
PAGES = [README, *DOCS]
CONSOLES = [*PAGES, ROOT / "CONTRIBUTING.md"]
LANGUAGES = {"python", "yaml", "console", "bash"}
SHOWN = {
    "text": "output of a command, or code of another package",
    "toml": "a part of the reader's own pyproject.toml",
}
"""Languages of blocks that no test runs, with the reason."""

REQUIREMENT = re.compile(r"[`\" ]((?:[\w-]+-)?secondpass(?:-\w+)?)\[([\w,…-]+)\]")

NOT_RUN = {
    "secondpass export": "converts a model of the hub with torch; tests/cli/test_export.py does it",
    "secondpass doctor --preset cohere --network": "opens connections to other machines",
}
"""Commands that no test runs, with the reason."""


def blocks(page, *languages):
    """Code blocks of a page, with the indentation of the list item that they may stand in."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [code for language, code in found if language in languages]


def pages_with(*languages, among=PAGES):
    chosen = [page for page in among if blocks(page, *languages)]
    return pytest.mark.parametrize("page", chosen, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pages_with("python")
def test_python_runs(page):
    names: dict[str, object] = {"__name__": "__page__"}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


def test_the_first_example_says_what_it_should(capsys):
    exec(blocks(README, "python")[0], {})
    assert capsys.readouterr().out.startswith("Bananas are rich in potassium. 0.")


@pages_with("yaml")
def test_yaml_loads(page):
    for block in blocks(page, "yaml"):
        value = yaml.safe_load(block)
        if "components" in value:
            from haystack import Pipeline

            Pipeline.loads(block)
        elif "preset" in value:
            Reranker.from_config(value)
        else:
            Reranker.from_config({"method": "lexical", **value})


def test_every_block_has_a_language_that_is_tested_or_shown_for_a_reason():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        opening = re.findall(r"^ *```(\w*)", text, re.MULTILINE)[::2]
        assert set(opening) <= LANGUAGES | SHOWN.keys(), page.name


# ---------------------------------------------------------------------- consoles

CHECK = """
import re, sys, tomllib
from pathlib import Path
root, tool, *arguments = Path(sys.argv[1]), *sys.argv[2:]
if tool == "make":
    targets = re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (root / "Makefile").read_text(), re.M)
    known = {name for line in targets for name in line.split()}
    wanted = [name for name in arguments if "=" not in name]
    assert set(wanted) <= known, wanted
elif tool == "pip":
    assert arguments[0] == "install", arguments
    extras = {}
    for file in [root / "pyproject.toml", *root.glob("integrations/*/pyproject.toml")]:
        project = tomllib.loads(file.read_text())["project"]
        extras[project["name"]] = project.get("optional-dependencies", {}).keys()
    for requirement in arguments[1:]:
        name, wanted = re.fullmatch(r"([\\w-]+)(?:\\[([\\w,-]+)\\])?", requirement).groups()
        assert set((wanted or "").split(",")) - {""} <= extras[name], requirement
else:
    script = next(argument for argument in arguments if not argument.startswith("-"))
    module = root / (script.replace(".", "/") + ".py")
    assert (root / script).exists() or module.exists(), script
"""
"""Stands for `pip`, `make` and `python`: checks that what a line installs or runs exists."""


@pytest.fixture
def tools(folder):
    """Programs that the consoles call, and the files that their lines name."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "check.py").write_text(CHECK)
    for tool in ("pip", "make", "python"):
        write_program(
            programs / tool, f'"{sys.executable}" "{programs}/check.py" "{ROOT}" {tool} "$@"'
        )
    write_program(programs / "secondpass", f'"{sys.executable}" -m secondpass "$@"')
    shutil.copytree(Path(__file__).parent / "files", folder, dirs_exist_ok=True)
    return programs


def write_program(path, line):
    path.write_text(f"#!/bin/sh\nexec {line}\n")
    path.chmod(0o755)


@pages_with("console", "bash", among=CONSOLES)
def test_consoles_run(page, tools, monkeypatch):
    path = [str(tools), str(Path(shutil.which("cat") or "/bin/cat").parent)]
    monkeypatch.setenv("PATH", ":".join(path))
    for block in blocks(page, "console", "bash"):
        kept = [line for line in block.splitlines() if not line.startswith(tuple(NOT_RUN))]
        done = subprocess.run(
            [shutil.which("bash") or "/bin/bash", "-euc", "\n".join(kept)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"


def test_every_exception_is_needed():
    lines = [line for page in CONSOLES for block in blocks(page, "console", "bash")
             for line in block.splitlines()]  # fmt: skip
    for command in NOT_RUN:
        assert any(line.startswith(command) for line in lines), command


def test_install_lines_in_text_name_extras_that_exist():
    projects = [ROOT / "pyproject.toml", *ROOT.glob("integrations/*/pyproject.toml")]
    extras = {}
    for file in projects:
        project = tomllib.loads(file.read_text())["project"]
        extras[project["name"]] = {*project.get("optional-dependencies", ()), "…"}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name, wanted in REQUIREMENT.findall(text):
            assert set(wanted.split(",")) <= extras[name], f"{page.name}: {name}[{wanted}]"


# ---------------------------------------------------------------------- completeness


def test_the_table_of_settings_is_complete():
    from secondpass.settings import model_of

    told = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs/configuration.md").read_text(), re.M))
    assert set(model_of(Reranker).model_fields) <= told


def test_every_script_that_the_docs_name_exists():
    for page in PAGES:
        for name in re.findall(r"(?:benchmarks|examples|tools)/\w+\.(?:py|yaml)", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name}: {name}"
