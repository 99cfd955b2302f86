"""The page for Haystack's directory of integrations: its front matter, and its code."""

from __future__ import annotations

import gc
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import haystack_two
from fake_provider import FakeProvider, good

PAGE = Path(__file__).parents[3] / "docs" / "publishing" / "secondpass.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def run(block: str) -> None:
    """Run a block by itself, and close its connections."""
    names: dict[str, Any] = {}
    exec(compile(block, PAGE.name, "exec"), names)
    if "ranker" in names:
        names["ranker"].close()
    names.clear()
    if haystack_two.IS_INSTALLED:
        gc.collect()  # its generators cannot be closed


def test_the_front_matter_is_what_the_directory_wants() -> None:
    _, front, body = TEXT.split("---\n", 2)
    matter = yaml.safe_load(front)
    fields = "layout name description authors pypi repo type report_issue version toc"
    assert " ".join(matter) == fields
    assert (matter["layout"], matter["type"], matter["toc"]) == ("integration", "Ranker", True)
    assert matter["version"] == "Haystack 2.0"  # the directory's name for all since 2.0
    for author in matter["authors"]:
        assert author["name"]
        assert set(author["socials"]) <= {"github", "twitter", "linkedin"}
    assert matter["pypi"] == "https://pypi.org/project/secondpass-haystack/"
    project = Path(__file__).parents[1] / "pyproject.toml"
    urls = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["urls"]
    assert urls["Source"].startswith(matter["repo"])
    assert urls["Issues"] == matter["report_issue"]
    anchors = re.findall(r"\]\(#([\w-]+)\)", body)
    assert anchors == [title.lower() for title in re.findall(r"^## (\w+)$", body, re.MULTILINE)]
    # The page is shown on another site, where a relative link leads nowhere.
    assert not re.search(r"\]\((?!https://|#)", body)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_block_runs_by_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-page")
    with FakeProvider(good(lambda text: 5.0 if "garden" in text else 1.0)) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url("openai"))
        for block in blocks("python"):
            run(block)
    first, second, status, asked = capsys.readouterr().out.splitlines()
    assert first.endswith("Bananas are rich in potassium, which muscles need.")
    assert float(first.split()[0]) >= float(second.split()[0])
    assert status == "ok"
    assert asked == "The castle garden opens at nine. graded by gpt-4.1-mini"
