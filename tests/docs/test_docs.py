"""The documentation's code runs, and its links lead somewhere."""

import re
from pathlib import Path

import pytest
import yaml

from secondpass import Reranker

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_runs(page):
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


def test_the_first_example_says_what_it_should(capsys):
    exec(blocks(ROOT / "README.md", "python")[0], {})
    assert capsys.readouterr().out.startswith("Bananas are rich in potassium. 0.")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_yaml_loads(page):
    for block in blocks(page, "yaml"):
        value = yaml.safe_load(block)
        if "components" in value:
            from haystack import Pipeline

            Pipeline.loads(block)
        else:
            Reranker.from_config({"method": "lexical", **value})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_local_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_table_of_settings_is_complete():
    from secondpass.settings import model_of

    told = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs/configuration.md").read_text(), re.M))
    assert set(model_of(Reranker).model_fields) <= told


def test_every_script_that_the_docs_name_exists():
    for page in PAGES:
        for name in re.findall(r"(?:benchmarks|examples)/\w+\.(?:py|yaml)", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name}: {name}"
