"""The scripts that the docs name: each runs on small data, and none measures a failed ranking."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from small_collections import write_collections, write_pages
from tiny_models import write_classifier

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile", *(ROOT / "docs").rglob("*.md"),
]  # fmt: skip
LIMIT = 900
"""Seconds for a script."""


class Run(NamedTuple):
    """How a script is run, from the root of the repository.

    Attributes:
        arguments: ``{data}`` is a folder of small collections, ``{pages}`` one of help pages,
            ``{model}`` a cross-encoder of the speed benchmarks, ``{scratch}`` an empty folder.
        not_ok: what the script does if rankings are not ok: it ``ends`` with an error, or ``says``
            so in its table. Empty if it makes none.
        package: without it, the script is not run.
    """

    arguments: str = ""
    not_ok: str = ""
    package: str = ""


SETS = "--data {data} --sets trec-dl19 xquad-de"
ENGLISH = "--data {data} --sets trec-dl19 xquad-en"
RUNS = {
    "benchmarks/calibration.py": Run(
        f"{ENGLISH} --splits 2 --relevant 2 --methods embedded lexical", "ends"
    ),
    "benchmarks/command_memory.py": Run("--queries 2 4", "ends"),
    "benchmarks/diversity.py": Run("--data {data}", "ends"),
    "benchmarks/embedded_rules.py": Run("--data {data} --sets trec-dl19 xquad-de"),
    "benchmarks/embedded_speed.py": Run("--data {data} --passages 20 --rounds 1"),
    "benchmarks/event_loop.py": Run("--rounds 1", "ends"),
    "benchmarks/framework_rankers.py": Run("--rounds 1", "ends"),
    "benchmarks/haystack_pipeline.py": Run("--rounds 2", "ends"),
    "benchmarks.job_scaling": Run(
        "--preset lexical --queries 48 --candidates 5 --rounds 1", "ends", "ray"
    ),
    "benchmarks/interrupts.py": Run("--interrupts 48", "ends"),
    "benchmarks/judging.py": Run("--data {data} --simulations 2 --queries 60", "ends"),
    "benchmarks.known_answers": Run("--heads 2 --models 2"),
    "benchmarks/languages.py": Run("--pages {pages} --languages de", "ends"),
    "benchmarks/llama_index_peers.py": Run("--cases 3", "says"),
    "benchmarks/llm_overhead.py": Run("--rounds 1", "ends"),
    "benchmarks.load": Run(
        "--seconds 1 --loads 2 --candidates 20 --out {scratch} --before {root}", "ends"
    ),
    "benchmarks/long_passages.py": Run(f"{ENGLISH} --questions 2 --places 1", "ends"),
    "benchmarks.many_at_once": Run("--counts 3 --call 0.001", "ends"),
    "benchmarks/overhead.py": Run("--rounds 1", "ends"),
    "benchmarks/packing.py": Run("--passages 10 20", "ends"),
    "benchmarks/packed_prompts.py": Run("--data {data} --queries 8", "ends"),
    "benchmarks/packed_quality.py": Run("--data {data} --sets trec-dl19", "ends"),
    "benchmarks/partial_results.py": Run(f"{SETS} --rankings 1 --patterns"),
    "benchmarks.preset_models": Run("--sizes 17m --repetitions 1 --passages 2 3"),
    "benchmarks/python_docs_collection.py": Run("{scratch}/docs"),
    "benchmarks/quality.py": Run(
        f"{SETS} --stem --preset lexical --config {{root}}/benchmarks/lexical_blended.yaml", "says"
    ),
    "benchmarks/quality_plot.py": Run(f"{SETS} --queries 2 --results {{scratch}}/q.json", "says"),
    "benchmarks/response_cache.py": Run("--rounds 1", "ends"),
    "benchmarks/store.py": Run("--stored 2000 --rounds 2"),
    "benchmarks.serving": Run("--preset lexical --rounds 1", "ends"),
    "benchmarks/simulated.py": Run("--simulations 1 --resamples 19 --parts duplicates power"),
    "benchmarks/startup.py": Run("--runs 1", "ends"),
    "benchmarks/strategies.py": Run("--data {data} --seeds 1", "ends"),
    "benchmarks/token_estimates.py": Run(),
    "benchmarks/wall_time.py": Run("--rounds 1", "ends"),
    "benchmarks/terms.py": Run("--data {data} --set trec-dl19 --seeds 1 --queries 2", "ends"),
    "benchmarks.speed.caches": Run("--model {model} --out {scratch} --queries 1"),
    "benchmarks.speed.concurrency": Run(
        "--model {model} --out {scratch} --rounds 1 --candidates 2", "ends"
    ),
    "benchmarks.speed.deadlines": Run("--model {model} --out {scratch} --queries 2", "ends"),
    "benchmarks.speed.make_model": Run("--folder {model}"),
    "benchmarks.speed.planning": Run("--draws 1 --queries 2"),
    "benchmarks.speed.render": Run("--folder {measured}"),
    "benchmarks.speed.run": Run(
        "--quick --collections {data}/trec-dl19 --model {model} --out {scratch}", "ends"
    ),
    "examples/demo.py": Run("'how do I join two lists?'", "ends"),
    "tools/size.py": Run(),
    "tools/rooms.py": Run(),
    "tools/verify_rerank_apis.py": Run(package="cohere"),
}
"""Small data for each script."""

LLAMA_INDEX = "integrations/llama_index/tests/test_examples.py"
ELSEWHERE = {
    "benchmarks/first_steps.py": "tools/check_wheels.py",
    "benchmarks/speed/environments.py": "Makefile",
    "benchmarks/speed/worker.py": "benchmarks/speed/driver.py",
    "examples/coprocess.py": "tests/examples/systems/test_coprocess.py",
    "examples/langchain_compressor.py": "tests/support/contract_langchain.py",
    "examples/llama_index/cascade_with_llm.py": LLAMA_INDEX,
    "examples/llama_index/for_learners.py": LLAMA_INDEX,
    "examples/llama_index/hybrid_query_engine.py": LLAMA_INDEX,
    "examples/llama_index/memory_search.py": LLAMA_INDEX,
    "examples/python_docs.py": "tests/examples/test_python_docs.py",
    "examples/recipes/elasticsearch_hits.py": "tests/examples/test_recipes.py",
    "examples/recipes/lancedb_store.py": "tests/examples/test_recipe_stores.py",
    "tools/check_wheels.py": "Makefile",
    "tools/docs_pages.py": "tests/docs/test_written_pages.py",
    "tools/install_lines.py": "tests/test_publishing.py",
    "tools/mutation.py": "Makefile",
    "tools/typed_code.py": "Makefile",
}
"""Scripts that something else runs, because they install packages, write files or have tests."""

NAMED = re.compile(
    r"(?:(?<![\w/.-])|(?<=\.\./)|(?<=secondpass/blob/main/))"
    r"((?:benchmarks|examples|tools)/[\w/]+\.py|benchmarks(?:\.\w+)+)\b"
)


def file_of(name):
    """The file of a script, which is named by its path or as a module."""
    return name if name.endswith(".py") else f"{name.replace('.', '/')}.py"


def is_script(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    return file.startswith("examples/") or '__name__ == "__main__"' in text


def test_every_script_is_run():
    """Those that a page names, and all benchmarks."""
    named = {name for page in PAGES for name in NAMED.findall(page.read_text(encoding="utf-8"))}
    files = {file_of(name) for name in named}
    files |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "benchmarks").rglob("*.py")}
    here, elsewhere = {file_of(name) for name in RUNS}, {*ELSEWHERE}
    assert {file for file in files if is_script(file)} == here | elsewhere
    assert not here & elsewhere


@pytest.mark.parametrize("script", ELSEWHERE)
def test_what_runs_it_names_it(script):
    text = (ROOT / ELSEWHERE[script]).read_text(encoding="utf-8")
    path = Path(script)
    module = ".".join(path.with_suffix("").parts)
    assert any(name in text for name in (script, module, path.stem, f'"{path.parent.name}"'))


# ---------------------------------------------------------------------- runs


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return write_collections(tmp_path_factory.mktemp("collections"))


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    from benchmarks.speed import make_model

    return make_model.ensure(tmp_path_factory.mktemp("model") / "bench-model")


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """What `benchmarks.speed.run` writes, of engines that need no model."""
    from benchmarks.speed.driver import Row
    from benchmarks.speed.run import QUICK, measure

    folder = tmp_path_factory.mktemp("measured")
    model = write_classifier(tmp_path_factory.mktemp("tiny"))
    baseline, ours = (
        Row(name, "Fake", group)
        for name, group in (("sentence-transformers", "baseline"), ("secondpass, auto", "ours"))
    )
    rows = {"baseline": baseline, "ours": [ours], "loops": [], "peers": [], "peaks": False}
    measure(QUICK, model=model, out=folder, count=5, **rows)
    return folder


@pytest.fixture
def run(request, tmp_path):
    """Runs a script of the table in a process: the exit code, and what it printed."""

    def run(script, *paths):
        row = RUNS[script]
        if row.package:
            pytest.importorskip(row.package)
        places = {"root": ROOT, "scratch": tmp_path / "scratch", "pages": tmp_path / "pages"}
        places["scratch"].mkdir()
        write_pages(places["pages"], "de")
        for name in ("data", "model", "measured"):
            if f"{{{name}}}" in row.arguments:
                places[name] = request.getfixturevalue(name)
        command = [ROOT / script] if script.endswith(".py") else ["-m", script]
        inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        done = subprocess.run(
            [sys.executable, *command, *shlex.split(row.arguments.format(**places))],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *inherited, str(ROOT)])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        return done.returncode, done.stdout

    return run


@pytest.mark.long
@pytest.mark.parametrize("script", RUNS)
def test_scripts_run(script, run):
    code, output = run(script)
    assert code == 0, output
    assert output.strip()


UNCHANGED = """
from secondpass.ranking import ranking_pass
ranking_pass.RankingPass._status = lambda *_: "unchanged"
"""
"""A module that Python imports when it starts: no ranking is ok."""


@pytest.mark.long
@pytest.mark.parametrize("script", [name for name in RUNS if RUNS[name].not_ok])
def test_rankings_that_are_not_ok_are_not_measured(script, run, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(UNCHANGED)
    code, output = run(script, str(tmp_path))
    if RUNS[script].not_ok == "ends":
        assert code != 0, output
    assert "unchanged" in output
