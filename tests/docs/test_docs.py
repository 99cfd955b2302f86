"""The documentation's code runs: Python, YAML, and the commands of the consoles."""

import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from command_calls import called
from printed_commands import NOT_RUN, blocks, run_lines
from secondpass import Reranker
from stated_output import run_blocks, stated_outputs

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


def pages_with(*languages, among=PAGES):
    chosen = [page for page in among if blocks(page, *languages)]
    return pytest.mark.parametrize("page", chosen, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


PLOTTED = "evaluation.md"
"""The page that describes the plots of reports; the reports of others have none."""


@pages_with("python")
def test_python_runs(page, monkeypatch, folder):
    example = ROOT / "src/secondpass_evaluation/data/example"
    shutil.copytree(example, folder / "demo" / "suite")  # of `secondpass example demo`
    if page.name != PLOTTED:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
    run_blocks(blocks(page, "python"), page.name)


COMPARED = {
    "print(6 * 7)  # 42": "42",
    "for number in (1, 2):\n    print(number)\n# 1\n# 2\n\n# not output": "1\n2",
    "print(\n    'a'\n)\n#   a": "  a",
    "print('é')  # é": "é",
    "print(6 * 7)\n\n# not output": None,
    "x = 3  # not output": None,
}


@pytest.mark.parametrize("block", COMPARED)
def test_comments_after_print_state_its_output(block):
    stated = COMPARED[block]
    assert [*stated_outputs(block).values()] == ([] if stated is None else [stated])


@pytest.mark.parametrize(
    ("block", "agrees"),
    [
        ("print(6 * 7)  # 42", True),
        ("print(6 * 7)  # 43", False),
        ("print(0.501)  # 0.51", True),
        ("print(0.50)  # 0.52", False),
        ("print('took 0.3 s')  # took 12 s", True),
        ("def f():\n    print(1)\n# 1\n\nf()", True),
        ("if 0:\n    print(1)\n# 1", False),
    ],
)
def test_another_output_than_stated_fails(block, agrees):
    with nullcontext() if agrees else pytest.raises(AssertionError):
        run_blocks([block], "page")


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


def test_every_block_has_a_known_language():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        opening = re.findall(r"^ *```(\w*)", text, re.MULTILINE)[::2]
        assert set(opening) <= LANGUAGES | SHOWN.keys(), page.name


# ---------------------------------------------------------------------- consoles

PROGRAMS = ("pip", "make", "python", "secondpass")


@pytest.fixture
def bash(folder, monkeypatch):
    """Runs a block by bash; calls of some programs are not run, and returned in order."""
    shutil.copytree(Path(__file__).parent / "files", folder, dirs_exist_ok=True)
    program = folder / "programs" / "secondpass"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m secondpass "$@"\n')
    program.chmod(0o755)
    beside = Path(shutil.which("cat") or "/bin/cat").parent
    monkeypatch.setenv("PATH", f"{program.parent}:{beside}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    recorded = folder / "calls"

    def run(block, *programs):
        functions = [
            f"{name}() {{ printf '%s\\0' {name} \"$@\" $'\\n' >> \"{recorded}\"; }}"
            for name in programs
        ]
        lines = run_lines(block)
        recorded.write_text("")
        done = subprocess.run(
            [shutil.which("bash") or "/bin/bash", "-euc", "\n".join([*functions, *lines])],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        calls = [call.split("\0")[:-1] for call in recorded.read_text().split("\n\0")[:-1]]
        assert len(calls) == sum(line.startswith(programs) for line in lines), block
        return calls

    return run


def check_exists(program, arguments):
    """Check that what a line installs, makes or runs exists."""
    if program == "make":
        text = (ROOT / "Makefile").read_text()
        targets = re.findall(r"^([a-z-]+(?: [a-z-]+)*):", text, re.MULTILINE)
        wanted = {name for name in arguments if "=" not in name}
        assert wanted <= {name for line in targets for name in line.split()}
    elif program == "pip":  # tests/test_publishing.py checks what it installs
        assert arguments[0] == "install"
    else:
        script = next(argument for argument in arguments if not argument.startswith("-"))
        module = ROOT / (script.replace(".", "/") + ".py")
        assert (ROOT / script).exists() or module.exists(), script


def extras_of_projects():
    projects = [ROOT / "pyproject.toml", *ROOT.glob("integrations/*/pyproject.toml")]
    tables = [tomllib.loads(file.read_text())["project"] for file in projects]
    return {table["name"]: set(table.get("optional-dependencies", ())) for table in tables}


@pages_with("console", "bash", among=CONSOLES)
def test_consoles_run(page, bash, monkeypatch):
    """All commands of the blocks; those of secondpass run in this process, after the block."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for block in blocks(page, "console", "bash"):
        outputs = re.findall(r"^(?:secondpass) [^\n#]*[|>&;]", block, re.MULTILINE)
        assert not outputs, f"{outputs}: needs a process"
        for program, *arguments in bash(block, *PROGRAMS):
            if program == "secondpass":
                outcome = called(*arguments)
                assert outcome.code == 0, f"{block}\n{outcome.err}"
            else:
                check_exists(program, arguments)


@pytest.mark.long
@pytest.mark.parametrize(
    "page",
    [
        page
        for page in CONSOLES
        if any("secondpass " in block for block in blocks(page, "console", "bash"))
    ],
    ids=lambda page: page.stem,
)
def test_consoles_run_as_processes(page, bash):
    for block in blocks(page, "console", "bash"):
        bash(block, "pip", "make", "python")


def test_the_explanation_on_the_page_is_what_the_command_prints(bash):
    page = ROOT / "docs/command.md"
    block = next(block for block in blocks(page, "bash") if "rerank fruit.jsonl" in block)
    (shown,) = [block for block in blocks(page, "text") if "retrieved" in block]
    (call,) = bash(block, "secondpass")
    printed = called(*call[1:], "--explain", "banana").out.partition("\n\n")[2]
    # A hundredth of a score is between the runtimes, and between processors.
    number = r"\d+\.\d{3,}"
    assert re.sub(number, "N", printed).strip() == re.sub(number, "N", shown).strip()
    pairs = zip(re.findall(number, printed), re.findall(number, shown), strict=True)
    assert all(abs(float(one) - float(other)) < 0.01 for one, other in pairs)


def test_every_exception_is_needed():
    lines = [line for page in CONSOLES for block in blocks(page, "console", "bash")
             for line in block.splitlines()]  # fmt: skip
    for command in NOT_RUN:
        assert any(line.startswith(command) for line in lines), command


def test_install_lines_in_text_name_extras_that_exist():
    extras = extras_of_projects()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name, wanted in REQUIREMENT.findall(text):
            known = extras[name] | {"…"}
            assert set(wanted.split(",")) <= known, f"{page.name}: {name}[{wanted}]"


# ---------------------------------------------------------------------- completeness


def test_the_table_of_settings_is_complete():
    from secondpass.settings import model_of

    told = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs/configuration.md").read_text(), re.M))
    assert set(model_of(Reranker).model_fields) <= told


SCRIPT = r"(?<![\w/])(?:benchmarks|examples|tests|tools)/[\w/]+\.(?:py|yaml)"


def test_every_script_that_the_docs_name_exists():
    for page in CONSOLES:
        for name in re.findall(SCRIPT, page.read_text()):
            if "NAME" not in name:  # of what a contributor adds
                assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_the_first_change_of_contributors_can_be_made():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source, words = re.findall(r"In `(src/\S+)`, find `(.+?)` and write", text)[0]
    tests = source.replace("src/secondpass/", "tests/").replace("candidates", "test_candidates")
    assert f"pytest {tests} " in text
    for name in (source, tests):
        assert (ROOT / name).read_text(encoding="utf-8").count(words) == 1, name


BENCHMARK = r"python (?:-m )?(benchmarks[./][\w./]+)([^`]*)`"
SHARED_OPTIONS = ["benchmarks/observed.py", "benchmarks/quality.py", "benchmarks/speed/results.py"]


def test_every_benchmark_that_the_docs_run_has_these_options():
    shared = "".join((ROOT / name).read_text() for name in SHARED_OPTIONS)
    seen = 0
    for page in PAGES:
        for name, arguments in re.findall(BENCHMARK, page.read_text()):
            path = ROOT / (name.removesuffix(".py").replace(".", "/") + ".py")
            assert path.exists(), f"{page.name}: {name}"
            for option in re.findall(r"--[\w-]+", arguments):
                assert f'"{option}"' in path.read_text() + shared, f"{page.name}: {name} {option}"
                seen += 1
    assert seen > 20
