"""Builds the distributions of all three projects, checks them, and runs the tests against them.

    python tools/check_wheels.py                    # everything: about half an hour
    python tools/check_wheels.py build              # build and check, in a minute
    python tools/check_wheels.py lines              # resolve the install lines of docs and examples
    python tools/check_wheels.py readme             # run the README in an empty environment
    python tools/check_wheels.py docs               # run the commands of each page in another
    python tools/check_wheels.py test haystack-2    # test the built wheels in some environments
    python tools/check_wheels.py test --python python3.13 core-newest   # with another Python
    python tools/check_wheels.py release v0.1.0     # check that this commit can get the tag
    python tools/check_wheels.py notes 0.1.0        # print the changes of a version

Distributions are written to dist/. Environments are created under build/wheels: first the wheel
alone is installed and used, then its extras and the tests' packages. The tests run in a copy of the
repository without the packages' sources, so that only the wheels can be imported.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from install_lines import LINE, install_lines, requirements_of
from printed_commands import pages_with_commands

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
WORK = ROOT / "build" / "wheels"
WHEEL = "-py3-none-any.whl"
VARIABLE = "SECONDPASS_TESTS_WITHOUT"
"""Environment variable with the names of absent packages, for tools/absent_packages.py."""
LIMIT = 3600
"""Time limit of one command, in seconds."""
URLS = {"Homepage", "Documentation", "Source", "Issues", "Changelog"}


class CheckError(Exception):
    """A check of a distribution failed."""


@dataclass(frozen=True)
class Project:
    """A distribution, the folder of its sources, and a program that uses it without extras."""

    name: str
    folder: str
    package: str
    program: str

    @property
    def root(self) -> Path:
        return ROOT / self.folder

    @property
    def settings(self) -> dict:
        return tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def files(self) -> set[str]:
        """The files of the package that git tracks, as a wheel names them."""
        source = self.root / "src"
        command = ["git", "ls-files", "-z", "--", str(source)]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        return {
            (ROOT / name).relative_to(source).as_posix()
            for name in listed.stdout.split("\0")
            if name
        }

    def built(self, ending: str) -> Path:
        stem = self.name.replace("-", "_")
        path = DIST / f"{stem}-{self.settings['version']}{ending}"
        if not path.is_file():
            raise CheckError(f"{path.name} was not built")
        return path


PROJECTS = {
    project.name: project
    for project in (
        Project(
            "secondpass",
            ".",
            "secondpass",
            "from secondpass import Reranker\n"
            "best = Reranker.from_preset('lexical').rerank('castle', ['market', 'castle'])[0]\n"
            "assert best.text == 'castle'",
        ),
        Project(
            "secondpass-haystack",
            "integrations/haystack",
            "haystack_integrations/components/rankers/secondpass",
            "from haystack import Document, Pipeline\n"
            "from haystack_integrations.components.rankers.secondpass import SecondPassRanker\n"
            "pipeline = Pipeline()\n"
            "pipeline.add_component('ranker', SecondPassRanker('lexical', top_k=1))\n"
            "pipeline = Pipeline.loads(pipeline.dumps())\n"
            "documents = [Document(content='market'), Document(content='castle')]\n"
            "data = {'query': 'castle', 'documents': documents}\n"
            "(best,) = pipeline.run({'ranker': data})['ranker']['documents']\n"
            "assert best.content == 'castle'",
        ),
        Project(
            "llama-index-postprocessor-secondpass",
            "integrations/llama_index",
            "llama_index/postprocessor/secondpass",
            "from llama_index.core.schema import NodeWithScore, TextNode\n"
            "from llama_index.postprocessor.secondpass import SecondPassRerank\n"
            "texts = [TextNode(text=text) for text in ('market', 'castle')]\n"
            "nodes = [NodeWithScore(node=node, score=0.5) for node in texts]\n"
            "rerank = SecondPassRerank('lexical', top_n=1)\n"
            "(best,) = rerank.postprocess_nodes(nodes, query_str='castle')\n"
            "assert best.text == 'castle'",
        ),
    )
}

# ---------------------------------------------------------------------- build and check


def build() -> None:
    """Build sdists, and wheels from these, into an empty dist/; check them."""
    python = tool("python")
    shutil.rmtree(DIST, ignore_errors=True)
    for project in PROJECTS.values():
        run([python, "-m", "build", "--outdir", DIST, project.root], quiet=True)
    run([python, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir())])
    for project in PROJECTS.values():
        check_wheel(project, project.built(WHEEL))
        check_sdist(project, project.built(".tar.gz"))
    print(f"6 distributions are in {DIST}")


def check_wheel(project: Project, path: Path) -> None:
    """Check that a wheel has exactly the package's tracked files, its licence, and its metadata.

    Raises:
        CheckError: a check failed.
    """
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
        information = f"{path.name.split('-')[0]}-{project.settings['version']}.dist-info/"
        files = {name for name in names if not name.startswith(information)}
        if files != project.files():
            raise CheckError(f"{path.name}: {sorted(files ^ project.files())} differ from git")
        for needed in (f"{project.package}/py.typed", f"{project.package}/__init__.py"):
            if needed not in files:
                raise CheckError(f"{path.name}: {needed} is missing")
        if not any(name.startswith(f"{information}licenses/LICENSE") for name in names):
            raise CheckError(f"{path.name}: the licence is missing")
        if project.name == "secondpass" and f"{information}sboms/sbom.cdx.json" not in names:
            raise CheckError(f"{path.name}: the SBOM is missing")
        check_metadata(path.name, message_from_bytes(wheel.read(f"{information}METADATA")))


def check_metadata(name: str, metadata: Message) -> None:
    """Check that the metadata has links, absolute links in the description, and plain requirements.

    Raises:
        CheckError: a check failed.
    """
    urls = {line.split(",")[0] for line in metadata.get_all("Project-URL") or ()}
    if missing := URLS - urls:
        raise CheckError(f"{name}: [project.urls] lacks {sorted(missing)}")
    for line in metadata.get_all("Requires-Dist") or ():
        if "@" in line:  # package indexes accept no direct references
            raise CheckError(f"{name}: {line!r} names an address")


def check_sdist(project: Project, path: Path) -> None:
    """Check that an sdist has the package's tracked files and the files that its build needs.

    Raises:
        CheckError: a file is missing.
    """
    with tarfile.open(path) as archive:
        files = {name.split("/", 1)[-1] for name in archive.getnames()}
    wanted = {f"src/{name}" for name in project.files()}
    wanted |= {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"}
    if missing := wanted - files:
        raise CheckError(f"{path.name}: {sorted(missing)} are missing")


# ---------------------------------------------------------------------- tests


@dataclass(frozen=True)
class Environment:
    """An environment: its packages, and the tests that run in it.

    The wheel of `project` is tested; the wheels of the projects in `beside` are installed, too.
    With `lowest`, the project's own requirements, except for the core, have their lowest allowed
    versions; otherwise the newest ones that `constraints` allow. `packages` are only for tests.
    Tests that need a package of `without`, or an extra of that name, are skipped.
    """

    project: str
    tests: tuple[str, ...]
    extras: tuple[str, ...] = ("embedded", "openai", "anthropic", "google", "remote")
    lowest: bool = False
    constraints: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


CORE, HAYSTACK, LLAMA = PROJECTS
CORE_TESTS = ("tests",)
HAYSTACK_TESTS, LLAMA_TESTS = (
    ("tests/contract", f"integrations/{name}/tests") for name in ("haystack", "llama_index")
)
CORE_EXTRAS = (
    "embedded",
    "multilingual",
    "openvino",
    "evaluation",
    "cli",
    "report",
    "otel",
    "pandas",
    "remote",
    "aws",
    "google-auth",
    "serve",
    "openai",
    "anthropic",
)
ENVIRONMENTS = {
    # Google's SDK requires a newer httpx and pydantic, and the frameworks a newer pydantic, than
    # the lowest of the core.
    "core-lowest": Environment(
        CORE,
        CORE_TESTS,
        CORE_EXTRAS,
        lowest=True,
        packages=("onnx==1.16", "opentelemetry-sdk>=1.30"),
        without=("google", "haystack", "haystack_integrations", "langchain_core", "llama_index"),
    ),
    "core-newest": Environment(
        CORE,
        CORE_TESTS,
        (*CORE_EXTRAS, "google", "mcp", "ray"),
        beside=(HAYSTACK, LLAMA),
        packages=("langchain-core>=1", "onnx>=1.16", "opentelemetry-sdk>=1.30"),
    ),
    "haystack-lowest": Environment(HAYSTACK, HAYSTACK_TESTS, lowest=True),
    "haystack-2": Environment(HAYSTACK, HAYSTACK_TESTS, constraints=("haystack-ai==2.*",)),
    "haystack-newest": Environment(HAYSTACK, HAYSTACK_TESTS),
    "llama-index-lowest": Environment(LLAMA, LLAMA_TESTS, lowest=True),
    "llama-index-newest": Environment(LLAMA, LLAMA_TESTS),
}
# Engines are tested by `make test`. torch, which some of them need, is too large to install in each
# environment: tools/absent_packages.py skips the tests that need it, and no extra that is installed
# here may require it.
PLUGIN = "absent_packages"
NO_TORCH = "torch<0"
INSTALL_TORCH = {"export", "sentence-transformers", "peft"}
"""Extras and packages that install torch."""
TOOLS = (
    "hypothesis>=6.100",
    "jsonschema>=4.18",
    "PyStemmer>=2.2",
    "pytest>=8",
    "pytest-xdist>=3.6",
)
NEEDS_SOURCES = (
    "tests/test_rooms.py",
    "tests/test_packaging.py",
    "tests/test_publishing.py",
    "tests/test_size.py",
    "tests/docs/test_prose.py",
    "tests/docs/test_docs.py::test_the_first_change_of_contributors_can_be_made",
    "tests/docs/test_written_pages.py",
    "tests/settings/test_plain_words.py",
    "tests/benchmarks",
    "tests/test_mutation_configuration.py",
    "tests/server/http/test_dockerfile.py",
    "integrations/haystack/tests/test_distribution.py::test_only_the_namespace_leaf_is_packaged",
    "integrations/llama_index/tests/test_distribution.py::"
    "test_the_distribution_is_laid_out_as_llamahub_wants",
)


def test(name: str, program: str) -> None:
    """Install a wheel with a Python, use it, and run the tests without the sources."""
    chosen = ENVIRONMENTS[name]
    project = PROJECTS[chosen.project]
    python = environment(name, program)
    pins = [*chosen.constraints]
    if chosen.lowest:
        pins += lowest(requirements(project, chosen.extras))
    install = installing(python, pins)
    wheel = project.built(WHEEL)
    print(f"\n{name}, {version_of(python)}: {' '.join(pins) or 'newest versions'}", flush=True)
    check = [tool("uv"), "pip", "check", "--quiet", "--python", python]
    run([*install, wheel], quiet=True)
    run(check, quiet=True)
    run([python, "-I", "-c", project.program])
    beside = [PROJECTS[other].built(WHEEL) for other in chosen.beside]
    extras = f"{wheel}[{','.join(chosen.extras)}]"
    run([*install, extras, *beside, *TOOLS, *chosen.packages], quiet=True)
    run(check, quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_without_sources(copy)
        excluded = [
            f"--{'deselect' if '::' in path else 'ignore'}={path}"
            for path in NEEDS_SOURCES
            if path.startswith(chosen.tests)
        ]
        command = [python, "-m", "pytest", "-m", "not long and not integration", "-n", "2"]
        command += ["--dist", "loadfile", "-p", PLUGIN, *excluded, *chosen.tests]
        run(command, cwd=copy, variables={VARIABLE: " ".join(chosen.without)})


def installing(python: Path, pins: Iterable[str]) -> list[object]:
    """The install command with the built wheels, and each package within the pins."""
    constraints = python.parent.parent / "constraints.txt"
    constraints.write_text("\n".join([NO_TORCH, *pins]) + "\n", encoding="utf-8")
    command = [tool("uv"), "pip", "install", "--python", python]
    # Links from uv's cache would be files with two names, which nltk of LlamaIndex refuses to read.
    command += ["--link-mode", "copy"]
    # Wheels of the same version that were built before may be in uv's cache.
    command += [argument for name in PROJECTS for argument in ("--refresh-package", name)]
    return [*command, "--find-links", DIST, "--constraints", constraints]


def version_of(python: Path) -> str:
    command = [str(python), "-c", "import platform; print('Python', platform.python_version())"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def resolve_lines(program: str) -> None:
    """Resolve each install line of the docs and examples with the built wheels.

    Raises:
        CheckError: one names an extra that its wheel lacks, or cannot be resolved.
    """
    install = [*installing(environment("lines", program), ()), "--dry-run"]
    for requirements, pages in install_lines(ROOT).items():
        line = " ".join(requirements)
        named = {*requirements, *(extra for one in requirements for extra in extras_of(one))}
        if torch := INSTALL_TORCH & named:
            print(f"{line}: skipped, because {min(torch)} installs torch")
            continue
        try:
            output = run([*install, *requirements], quiet=True)
        except CheckError as error:
            raise CheckError(f"{', '.join(pages)}: {error}") from None
        if "does not have an extra" in output:  # only a warning
            raise CheckError(f"{', '.join(pages)}: {output}")
        print(f"{line}: {len(re.findall(r'^ [+] ', output, re.MULTILINE))} packages", flush=True)


def run_pages(program: str) -> None:
    """Run the commands of the docs as they are printed, each page in an empty environment.

    A page without an install line gets the command alone.

    Raises:
        CheckError: a command failed.
    """
    for page, consoles in pages_with_commands(ROOT).items():
        python = environment(f"docs-{page.stem}", program)
        install = installing(python, ())
        requirements = [
            requirements_of(line[2])
            for lines in consoles
            for line in LINE.finditer("\n".join(lines))
        ] or [["secondpass[cli]"]]
        for one in requirements:
            run([*install, *one], quiet=True)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "tests/docs/files", folder, dirs_exist_ok=True)
            variables = {
                "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
                "XDG_CACHE_HOME": f"{folder}/.cache",
            }
            for lines in consoles:
                commands = [line for line in lines if not line.startswith(("pip ", "make "))]
                command = ["bash", "-euc", "\n".join(commands)]
                run(command, cwd=Path(folder), quiet=True, variables=variables)
        print(f"{page.relative_to(ROOT)}: its commands run", flush=True)


def extras_of(requirement: str) -> set[str]:
    listed = re.search(r"\[(.*)\]", requirement)
    return set(listed[1].split(",")) if listed else set()


def requirements(project: Project, extras: Iterable[str]) -> list[str]:
    """The requirements of a project and some of its extras, without the core."""
    settings = project.settings
    optional = settings["optional-dependencies"]
    stated = [*settings["dependencies"], *(line for extra in extras for line in optional[extra])]
    return [line for line in stated if not line.startswith("secondpass")]


def lowest(stated: Iterable[str]) -> list[str]:
    """Requirements, each pinned to the lowest version that it allows.

    Of several requirements for one package, the highest lower bound counts.

    Raises:
        CheckError: one has no lowest version.
    """
    pins: dict[str, str] = {}
    for line in stated:
        stated_version = line.partition(";")[0]  # before the platforms that it is for
        match = re.fullmatch(
            r"([\w.-]+(?:\[[\w.,-]+\])?)\s*(?:==|>=|~=)\s*([\d.]+)(?:,.*)?", stated_version
        )
        if match is None:
            raise CheckError(f"{line!r} has no lowest version")
        name, version = match.groups()
        pins[name] = max(pins.get(name, "0"), version, key=_release)
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


def _release(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def copy_without_sources(target: Path) -> None:
    """Copy what git tracks, except the packages."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if re.match(r"(integrations/\w+/)?src/", name) or not (ROOT / name).is_file():
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)


# ---------------------------------------------------------------------- releases


def check_release(tag: str) -> None:
    """Check that the tag is the version of all three, and that the changelog has its section.

    Raises:
        CheckError: a check failed.
    """
    versions = {project.settings["version"] for project in PROJECTS.values()}
    if {tag.removeprefix("v")} != versions:
        raise CheckError(f"the tag is {tag}, the versions are {sorted(versions)}")
    notes(tag.removeprefix("v"))


def notes(version: str, changelog: str | None = None) -> str:
    """The section of a version in the changelog.

    Raises:
        CheckError: there is none, or it has no date.
    """
    text = changelog or (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    for section in sections:
        title, _, body = section.partition("\n")
        if title.split()[0] == version:
            if not re.fullmatch(r"\S+ \(\d{4}-\d\d-\d\d\)", title):
                raise CheckError(f"CHANGELOG.md: the section {title!r} has no date")
            return body.strip()
    raise CheckError(f"CHANGELOG.md has no section {version}")


# ---------------------------------------------------------------------- the command


def environment(name: str, program: str) -> Path:
    """Create an empty virtual environment with a Python, and return its interpreter."""
    folder = WORK / name
    run([tool("uv"), "venv", "--quiet", "--clear", "--python", program, folder])
    return folder / "bin" / "python"


def tool(name: str) -> Path:
    """A program of the tools' environment, which is created if it does not exist."""
    folder = WORK / "tools" / "bin"
    if not (folder / "uv").is_file():
        venv.create(folder.parent, clear=True, with_pip=True)
        packages = ["build", "twine", "uv"]
        run([folder / "python", "-m", "pip", "install", "--quiet", *packages])
    return folder / name


def run(
    command: Sequence[object],
    *,
    cwd: Path | None = None,
    quiet: bool = False,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run a program outside the repository, with further environment variables.

    Returns:
        Its output, with `quiet`; otherwise it is printed.

    Raises:
        CheckError: it failed, or did not end within an hour.
    """
    arguments = [str(argument) for argument in command]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            arguments,
            cwd=cwd or WORK,
            env={**inherited, **(variables or {})},
            check=False,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            timeout=LIMIT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CheckError(f"{error}") from None
    if done.returncode:
        raise CheckError(f"{done.stdout or ''}\nfailed: {' '.join(arguments)}")
    return done.stdout or ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build, check and test the distributions.")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("build", help="build and check")
    lines = commands.add_parser("lines", help="resolve the install lines of docs and examples")
    readme = commands.add_parser("readme", help="run the README as it is printed")
    docs = commands.add_parser("docs", help="run the commands of the docs as they are printed")
    testing = commands.add_parser("test", help="test the built wheels")
    testing.add_argument("names", nargs="*", metavar="ENVIRONMENT", help=", ".join(ENVIRONMENTS))
    for command in (lines, readme, docs, testing):
        command.add_argument("--python", default=sys.executable, help="Python of the environments")
    release = commands.add_parser("release", help="check that this commit can get a tag")
    release.add_argument("tag")
    publishing = commands.add_parser("notes", help="print the changes of a version")
    publishing.add_argument("version")
    parsed = parser.parse_args(arguments)
    names = getattr(parsed, "names", None) or list(ENVIRONMENTS)
    program = shutil.which(getattr(parsed, "python", sys.executable))
    if program is None:
        parser.error(f"no such Python: {parsed.python!r}")
    if unknown := set(names) - set(ENVIRONMENTS):
        parser.error(f"unknown environment {min(unknown)!r}; choose from {', '.join(ENVIRONMENTS)}")
    WORK.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    try:
        if parsed.command == "release":
            check_release(parsed.tag)
        if parsed.command == "notes":
            print(notes(parsed.version))
        if parsed.command in (None, "build"):
            build()
        if parsed.command in (None, "lines"):
            resolve_lines(program)
        if parsed.command in (None, "readme"):
            run([program, ROOT / "benchmarks/first_steps.py", "--readme", "--wheels", DIST])
        if parsed.command in (None, "docs"):
            run_pages(program)
    except CheckError as error:
        sys.exit(f"check_wheels: {error}")
    if parsed.command in (None, "test"):
        for name in names:
            started = time.perf_counter()
            try:
                test(name, program)
                print(f"{name}: passed in {time.perf_counter() - started:.0f} s", flush=True)
            except CheckError as error:
                print(f"check_wheels: {name}: {error}", file=sys.stderr, flush=True)
                failed.append(name)
    if failed:
        sys.exit(f"check_wheels: failed in {', '.join(failed)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
