"""What a person gets who installs and imports it."""

import copy
import json
import os
import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECTS = [".", "integrations/haystack", "integrations/llama_index"]
HEAVY = (
    "anyio asyncio haystack httpx huggingface_hub llama_index numpy onnxruntime openai pydantic "
    "sentence_transformers sqlite3 tokenizers torch transformers yaml"
).split()


def project(folder):
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )


def test_the_three_versions_are_equal_and_static():
    import secondpass

    versions = {folder: project(folder)["version"] for folder in PROJECTS}
    assert set(versions.values()) == {secondpass.__version__}
    for folder in PROJECTS[1:]:
        assert f"secondpass=={secondpass.__version__}" in project(folder)["dependencies"]


def test_the_core_depends_on_little():
    names = [re.split(r"[<>=\[ ]", line)[0] for line in project(".")["dependencies"]]
    assert names == ["annotated-types", "pydantic", "PyYAML"]


IMPORTING = """
import json, logging, os, sys
read = []
class Watched(dict):
    def __getitem__(self, key): read.append(key); return super().__getitem__(key)
    def get(self, key, default=None): read.append(key); return super().get(key, default)
real, os.environ = os.environ, Watched(os.environ)
before = set(sys.modules)
import secondpass
handlers = len(logging.getLogger("secondpass").handlers + logging.root.handlers)
print(json.dumps([sorted(set(sys.modules) - before), read, handlers]))
"""


@pytest.fixture(scope="module")
def importing():
    """What importing it in a new process loads, reads of the environment, configures and prints."""
    ended = python(IMPORTING)
    modules, read, handlers = json.loads(ended.stdout)
    return modules, read, handlers, ended.stderr


def test_importing_is_light_and_silent(importing):
    modules, _, _, stderr = importing
    assert "secondpass.reranker" in modules
    assert sorted({*HEAVY} & {*modules}) == []
    assert stderr == ""


def test_failed_tests_say_what_installs_missing_packages(tmp_path):
    file = tmp_path / "test_extra.py"
    file.write_text(
        "from secondpass import MissingExtraError\n"
        "def test_it():\n    raise MissingExtraError('onnx', 'the backend')\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", file]
    paths = os.pathsep.join([str(ROOT), *sys.path[1:]])
    environment = {**os.environ, "PYTHONPATH": paths}
    ended = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "`make venv` installs all for the tests" in ended.stdout


def test_public_modules_are_loaded_at_first_use(importing):
    code = """
import sys
import secondpass
names = ["adapters", "config", "extend"]
assert {*secondpass.__all__, *names, "__version__"} == {*dir(secondpass)}
for name in names:
    assert getattr(secondpass, name).__name__ == f"secondpass.{name}"
from secondpass import asking
secondpass.config.presets()
try:
    secondpass.confg
except AttributeError as error:
    print(error, error.name, error.obj is secondpass)
"""
    modules, *_ = importing
    assert not {f"secondpass.{name}" for name in ("adapters", "config", "extend")} & {*modules}
    assert python(code).stdout == "module 'secondpass' has no attribute 'confg' confg True\n"


def test_a_first_lexical_ranking_validates_nothing_with_pydantic():
    code = """
import sys
from secondpass import Reranker
assert Reranker("lexical").rerank("a b", ["b", "a b"]).report.status == "ok"
print(sorted({"annotated_types", "importlib.metadata", "pydantic"} & {*sys.modules}))
"""
    assert python(code).stdout == "[]\n"


def test_importing_configures_no_logging_and_reads_no_environment(importing):
    _, read, handlers, _ = importing
    assert [key for key in read if not key.startswith("PYTHON")] == []
    assert handlers == 0


@pytest.mark.parametrize(
    ("leaf", "namespaces"),
    [
        ("src/secondpass", 0),
        ("integrations/haystack/src/haystack_integrations/components/rankers/secondpass", 3),
        ("integrations/llama_index/src/llama_index/postprocessor/secondpass", 2),
    ],
)
def test_leaf_packages_are_typed_and_namespaces_are_shared(leaf, namespaces):
    folder = ROOT / leaf
    assert (folder / "py.typed").exists()
    for above in folder.parents[:namespaces]:
        assert not (above / "__init__.py").exists()
        assert not (above / "py.typed").exists()


def test_a_reranker_passes_to_another_process_and_loads_its_own_model():
    from secondpass import NotSerializableError, Reranker

    reranker = Reranker.from_preset("embedded", top_k=3)
    reranker.warm_up()
    for again in (pickle.loads(pickle.dumps(reranker)), copy.deepcopy(reranker)):
        assert again.to_config() == reranker.to_config()
    own = Reranker("lexical", order=lambda items: items)
    for same in (copy.copy(own), copy.deepcopy(own)):
        assert (same.method, same.order, same.depth) == (own.method, own.order, own.depth)
    with pytest.raises(NotSerializableError):
        pickle.dumps(own)
