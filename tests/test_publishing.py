"""What a release needs: metadata, policies, workflows, and the script that checks distributions."""

import hashlib
import io
import json
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import absent_packages
import check_wheels
import secondpass
from install_lines import RELEASED, install_lines, written
from install_lines import files as install_files
from secondpass import MissingExtraError
from secondpass.scorers.embedding.e5 import MultilingualE5
from secondpass.scorers.embedding.minilm import MiniLM

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/secondpass/secondpass"
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def read(path):
    return path.read_text(encoding="utf-8")


CI, PUBLISH = (
    yaml.safe_load(read(ROOT / f".github/workflows/{name}.yml")) for name in ("ci", "publish")
)


# ---------------------------------------------------------------------- metadata


@pytest.mark.parametrize("project", check_wheels.PROJECTS.values(), ids=lambda one: one.name)
def test_projects_state_their_addresses_and_versions(project):
    settings = project.settings
    urls = settings["urls"]
    assert set(urls) == check_wheels.URLS
    for address in urls.values():
        assert address == REPOSITORY or address.startswith(f"{REPOSITORY}/")
        if local := re.search(r"/(?:tree|blob)/main/(.*)", address):
            assert (ROOT / local[1]).exists()
    pythons = [
        line.removeprefix("Programming Language :: Python :: ")
        for line in settings["classifiers"]
        if "Python :: 3." in line
    ]
    table = re.search(r"^\| Python \| 3\.11 \| (.*) \|$", read(ROOT / "docs/versions.md"), re.M)
    assert pythons == table[1].split(", ") == CI["jobs"]["test"]["strategy"]["matrix"]["python"]


@pytest.mark.parametrize("folder", ["haystack", "llama_index"])
def test_readmes_of_the_adapters_have_no_relative_links(folder):
    # The package index shows them, where a relative link leads nowhere.
    text = read(ROOT / "integrations" / folder / "README.md")
    assert not re.search(r"\]\((?!https://)", text)
    for name in re.findall(rf"{REPOSITORY}/blob/main/([^)#]+)", text):
        assert (ROOT / name).exists()


def test_the_changelog_begins_with_this_version():
    titles = re.findall(r"^## (.*)$", read(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert titles[0].split()[0] == secondpass.__version__
    for title in titles:
        assert re.fullmatch(r"\d+\.\d+\.\d+ \((unreleased|\d{4}-\d\d-\d\d)\)", title)
    assert not [title for title in titles[1:] if "unreleased" in title]


def test_the_lowest_versions_of_frameworks_are_those_declared():
    text = read(ROOT / "docs/versions.md")
    for name, package in (("haystack", "haystack-ai"), ("llama_index", "llama-index-core")):
        project = tomllib.loads(read(ROOT / "integrations" / name / "pyproject.toml"))["project"]
        (line,) = (line for line in project["dependencies"] if line.startswith(package))
        floor = re.search(r">=([\d.]+)", line)[1]
        assert f"| `{package}` {floor} |" in text


# ---------------------------------------------------------------------- workflows and forms


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_exists_pin_actions_and_hold_no_secret(path):
    workflow = yaml.safe_load(read(path))
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in read(path)
    actions = re.findall(r"uses: (\S+)(.*)", read(path))
    assert actions
    for action, version in actions:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r"  # v\d[\d.]*", version), action
    targets = re.findall(r"^([\w-]+):", read(ROOT / "Makefile"), re.MULTILINE)
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        for step in job["steps"]:
            program, *arguments = step.get("run", "make test").split()
            if program == "make":
                assert arguments[0] in targets
            else:
                assert (ROOT / (arguments[0] if program == "python" else program)).is_file()


def test_ci_does_what_the_script_does():
    steps = CI["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]


def test_what_was_tested_is_signed_and_published_without_a_token():
    jobs = PUBLISH["jobs"]
    assert "make check-wheels" in [step.get("run") for step in jobs["build"]["steps"]]
    assert {name: (job.get("needs"), job.get("permissions")) for name, job in jobs.items()} == {
        "build": (None, None),
        "sign": ("build", dict.fromkeys(("attestations", "contents", "id-token"), "write")),
        "publish": ("build", {"id-token": "write"}),
    }
    download, upload = jobs["publish"]["steps"]
    assert download["with"] == {"name": jobs["build"]["steps"][-1]["with"]["name"], "path": "dist/"}
    assert "with" not in upload  # no user and no password
    assert "provenance.sigstore.json" in read(ROOT / ".ci/attach")


def test_updates_are_proposed_for_what_the_repository_uses():
    updates = yaml.safe_load(read(ROOT / ".github/dependabot.yml"))["updates"]
    assert {one["package-ecosystem"] for one in updates} == {"github-actions", "pip", "docker"}
    for one in updates:
        for folder in one.get("directories", [one.get("directory")]):
            assert (ROOT / folder.lstrip("/")).is_dir()


def test_the_citation_names_the_version():
    citation = yaml.safe_load(read(ROOT / "CITATION.cff"))
    assert citation["version"] == secondpass.__version__
    assert citation["license"] == CORE.settings["license"]
    assert citation["repository-code"] == CORE.settings["urls"]["Source"]


def test_the_sbom_lists_what_the_wheel_has_and_requires():
    sbom = json.loads(read(ROOT / "sbom.cdx.json"))
    assert sbom["metadata"]["component"]["version"] == secondpass.__version__
    parts = {one["bom-ref"]: one for one in sbom["components"]}
    vocabulary = (ROOT / "src/secondpass/data/bert-base-uncased-vocab.txt").read_bytes()
    (digest,) = parts["vocabulary"]["hashes"]
    assert digest["content"] == hashlib.sha256(vocabulary).hexdigest()
    for ref, model in (("weights", MiniLM), ("multilingual-weights", MultilingualE5)):
        (digest,) = parts[ref]["hashes"]
        assert digest["content"] == model.sha256
        assert f"{parts[ref]['name']}=={parts[ref]['version']}" == model.distribution
        assert model.distribution in str(CORE.settings["optional-dependencies"][model.extra])
        assert parts[ref]["name"] in read(ROOT / "NOTICE")
    (own,) = sbom["dependencies"]
    required = {re.split(r"[<>=]", line)[0] for line in CORE.settings["dependencies"]}
    assert set(own["dependsOn"]) == {"vocabulary", *required}


# ---------------------------------------------------------------------- the script


def test_lowest_versions():
    stated = [
        "a-b==1.0.0; sys_platform == 'linux'",
        "llama-index-core >=0.14,<0.15",
        "numpy>=1.26",
        "openai>=2.6,<4",
    ]
    pins = ["a-b==1.0.0", "llama-index-core==0.14", "numpy==1.26", "openai==2.6"]
    assert check_wheels.lowest(stated) == pins
    for requirement in ("numpy", "numpy<3", "numpy @ https://example.org/a.whl"):
        with pytest.raises(check_wheels.CheckError, match="no lowest version"):
            check_wheels.lowest([requirement])


@pytest.mark.parametrize("project", check_wheels.PROJECTS.values(), ids=lambda one: one.name)
def test_every_framework_and_the_core_are_tested_at_their_lowest_and_newest(project):
    of_project = [one for one in check_wheels.ENVIRONMENTS.values() if one.project == project.name]
    assert {True, False} == {one.lowest for one in of_project}
    extras = {extra for one in of_project for extra in one.extras}
    optional = set(project.settings["optional-dependencies"]) - check_wheels.INSTALL_TORCH
    if project.name == "secondpass":
        assert optional - extras == {"dev", "onnx"}  # the same engine as that of `embedded`


@pytest.mark.parametrize("name", check_wheels.ENVIRONMENTS)
def test_environments_name_what_exists(name):
    environment = check_wheels.ENVIRONMENTS[name]
    project = check_wheels.PROJECTS[environment.project]
    assert set(environment.extras) <= set(project.settings["optional-dependencies"])
    stated = check_wheels.requirements(project, environment.extras)
    assert check_wheels.lowest(stated)
    assert not set(environment.extras) & check_wheels.INSTALL_TORCH
    assert set(environment.beside) <= set(check_wheels.PROJECTS)
    for path in (*environment.tests, *check_wheels.NEEDS_SOURCES):
        file, _, function = path.partition("::")
        assert (ROOT / file).exists()
        assert not function or f"def {function}(" in read(ROOT / file)


def test_the_plugin_reads_the_variable_that_the_script_sets():
    assert absent_packages.VARIABLE == check_wheels.VARIABLE


# ---------------------------------------------------------------------- install lines


def test_install_lines_are_read_in_each_form(tmp_path):
    forms = {
        "README.md": '```console\npip install "secondpass[cli]"  # the command\n```\n',
        "docs/a.md": 'Run `pip install secondpass`, or `pip install a "b[c,d]"`; pip installs it.',
        "examples/a.ipynb": '"`pip install \\"secondpass[cli]\\" jupyter`"',
        "src/a.j2": "<code>pip install &quot;secondpass[report]&quot;</code>",
        "src/a.py": 'a = \'pip install "secondpass[{extra}]"\', "Run: pip install x-y==1.0"',
    }
    for name, text in forms.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert install_lines(tmp_path) == {
        ("secondpass[cli]",): ["README.md"],
        ("secondpass",): ["docs/a.md"],
        ("a", "b[c,d]"): ["docs/a.md"],
        ("secondpass[cli]", "jupyter"): ["examples/a.ipynb"],
        ("secondpass[report]",): ["src/a.j2"],
        ("x-y==1.0",): ["src/a.py"],
    }


def test_make_says_what_it_installs_before_pip_is_silent():
    recipes = re.findall(r"^\S.*:.*(?:\n\t.*)+", read(ROOT / "Makefile"), re.MULTILINE)
    installing = [recipe for recipe in recipes if "\t$(PIP) " in recipe.replace("@", "")]
    assert len(installing) >= 5
    for recipe in installing:
        assert "\t$(INSTALLING)" in recipe.partition("$(PIP)")[0], recipe
        assert "\t$(PIP)" not in recipe, "the command itself is not printed"


FORMS = {
    'pip install "secondpass[cli]"  # it': 'pip install -e ".[cli]"  # it',
    "pip install 'secondpass[a-b,c]' x-y": "pip install -e '.[a-b,c]' x-y",
    "pip install secondpass-haystack": "pip install -e . -e ./integrations/haystack",
    'pip install "secondpass[a]" "llama-index-postprocessor-secondpass[b]"': (
        'pip install -e ".[a]" -e "./integrations/llama_index[b]"'
    ),
    'Run: pip install "secondpass[{extra}]"': (
        'From a checkout of secondpass: pip install -e ".[{extra}]"'
    ),
    '"`pip install \\"secondpass[a]\\" b`"': '"`pip install -e \\".[a]\\" b`"',
    "pip install &quot;secondpass[a]&quot;": "pip install -e &quot;.[a]&quot;",
    "run: pip install ir-datasets": "run: pip install ir-datasets",
    "the model that pip installs": "the model that pip installs",
}
"""Lines after the release, and from a checkout."""


@pytest.mark.parametrize(("released", "line"), FORMS.items())
def test_lines_have_two_forms(released, line):
    for text in (released, line):
        assert written(text, released=True) == released
        assert written(text, released=False) == line


def test_a_workflow_and_the_page_of_another_site_have_no_checkout():
    line = 'pip install "secondpass[a]"'
    page = written(line, released=False, name="docs/publishing/secondpass.md")
    workflow = "examples/recipes/quality_gate_workflow.yaml"
    in_workflow = written(line, released=False, name=workflow)
    assert page == line
    assert in_workflow == f'pip install "secondpass[a] @ git+{REPOSITORY}"'
    assert written(in_workflow, released=True, name=workflow) == line


def test_every_line_has_the_form_that_the_release_decides():
    for path in install_files(ROOT):
        text = read(path)
        name = path.relative_to(ROOT).as_posix()
        assert written(text, released=RELEASED, name=name) == text, "tools/install_lines.py"
    assert MissingExtraError("cli", "it").command == written(
        'pip install "secondpass[cli]"', released=RELEASED
    )


def test_install_lines_name_extras_that_exist():
    offered = {
        project.name: {*project.settings["optional-dependencies"]}
        for project in check_wheels.PROJECTS.values()
    }
    lines = install_lines(ROOT)
    assert ("secondpass[embedded]",) in lines
    for requirements, files in lines.items():
        for requirement in requirements:
            name = re.split(r"[\[=]", requirement)[0]
            if name in offered:
                assert check_wheels.extras_of(requirement) <= offered[name], files
            else:
                assert "secondpass" not in name, files


# ---------------------------------------------------------------------- releases


CHANGELOG = "# Changelog\n\n## 0.2.0 (2026-01-02)\n\n- New.\n\n## 0.1.0 (unreleased)\n\n- Old.\n"


def test_notes_are_the_section_of_a_version():
    assert check_wheels.notes("0.2.0", CHANGELOG) == "- New."
    for version, message in (("0.1.0", "no date"), ("0.3.0", "no section")):
        with pytest.raises(check_wheels.CheckError, match=message):
            check_wheels.notes(version, CHANGELOG)


CORE = check_wheels.PROJECTS["secondpass"]
STEM = f"secondpass-{secondpass.__version__}"
METADATA = "Metadata-Version: 2.4\n" + "".join(
    f"Project-URL: {name}, {REPOSITORY}\n" for name in check_wheels.URLS
)


def wheel(folder, *, without=(), extra=(), metadata=METADATA, licence=True):
    path = folder / f"{STEM}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in sorted({*CORE.files(), *extra} - {*without}):
            archive.writestr(name, "")
        archive.writestr(f"{STEM}.dist-info/METADATA", metadata)
        archive.writestr(f"{STEM}.dist-info/sboms/sbom.cdx.json", "{}")
        if licence:
            archive.writestr(f"{STEM}.dist-info/licenses/LICENSE", "")
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"without": ["secondpass/data/presets/embedded.yaml"]}, "embedded.yaml"),
        ({"without": ["secondpass/py.typed"]}, "py.typed"),
        ({"extra": ["secondpass/left_over.py"]}, "left_over.py"),
        ({"extra": ["tests/test_it.py"]}, "test_it.py"),
        ({"licence": False}, "licence"),
        ({"metadata": "Metadata-Version: 2.4\n"}, "lacks"),
        ({"metadata": f"{METADATA}Requires-Dist: a @ https://example.org/a.whl\n"}, "address"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wheel_that_lacks_something_is_an_error(tmp_path, changes, message):
    check_wheels.check_wheel(CORE, wheel(tmp_path))
    with pytest.raises(check_wheels.CheckError, match=message):
        check_wheels.check_wheel(CORE, wheel(tmp_path, **changes))


def test_an_sdist_that_lacks_a_file_is_an_error(tmp_path):
    path = tmp_path / f"{STEM}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("pyproject.toml", "README.md", "LICENSE", "PKG-INFO"):
            archive.addfile(tarfile.TarInfo(f"{STEM}/{name}"), io.BytesIO())
    with pytest.raises(check_wheels.CheckError, match=r"src/secondpass/__init__\.py"):
        check_wheels.check_sdist(CORE, path)
