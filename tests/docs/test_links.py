"""Links of the documentation lead to files and headings that exist, and every page is reachable."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "integrations/*/*.md")
    for page in ROOT.glob(pattern)
)
OURS = re.compile(r"https://(?:github\.com|raw\.githubusercontent\.com)/secondpass/secondpass/(.*)")
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def text_of(page):
    """A page without its code, which may look like links."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page):
    text = text_of(page)
    inline = re.findall(r"\]\(<?([^)>\s]+)>?(?: \"[^\"]*\")?\)", text)
    return [*inline, *re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)]


def anchors(page):
    """The anchors of a page's headings, which GitHub and the site make alike."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+?)\s*$", text_of(page), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", words).strip())
        found.add(slug)
    return found


def problem(page, link):
    """What is wrong with a link; None if nothing is."""
    if ours := OURS.fullmatch(link):
        path = re.sub(r"^(?:(?:blob|tree)/)?main/", "", ours.group(1))
        base, link = ROOT, path if path != ours.group(1) else "."
    elif re.match(r"(?:https?|mailto):", link):
        return None
    else:
        base = page.parent
    path, _, anchor = link.partition("#")
    target = (base / path).resolve() if path else page
    if not target.exists():
        return "no such file"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return "no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    wrong = {link: problem(page, link) for link in links(page)}
    assert {link: reason for link, reason in wrong.items() if reason} == {}


def test_links_of_references_are_defined():
    for page in PAGES:
        text = text_of(page)
        defined = set(re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE))
        used = set(re.findall(r"\]\[([^\]]+)\]", text))
        assert used <= defined if defined else True, page.name


def test_the_readme_has_absolute_links_only():
    """The package index shows it, and has no files beside it."""
    assert [link for link in links(ROOT / "README.md") if "://" not in link] == []


class Loader(yaml.SafeLoader):
    """YAML of MkDocs, whose ``!ENV`` names a variable."""


Loader.add_constructor("!ENV", lambda loader, node: None)


def configuration():
    return yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)


def navigation(entries: Any) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    values = entries.values() if isinstance(entries, dict) else entries
    return [path for value in values for path in navigation(value)]


def test_every_page_of_users_is_in_the_navigation():
    others = f"{configuration()['exclude_docs']} {configuration()['not_in_nav']}"
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    shown = {page for page in pages if not page.startswith(tuple(others.split()))}
    assert sorted(navigation(configuration()["nav"])) == sorted(shown)


HOW_TO = [*sorted((DOCS / "how-to").glob("*.md")), DOCS / "start.md", DOCS / "tutorial.md"]


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_pages_begin_with_their_purpose_and_end_with_the_next_pages(page):
    text = page.read_text(encoding="utf-8")
    first = text.split("\n\n")[1]
    assert re.match(r"[A-Z]", first), "a paragraph, not a table, a list or code"
    *_, last = re.split(r"^## ", text, flags=re.MULTILINE)
    assert last.startswith("Where next\n")
    assert len(re.findall(r"\]\(", last)) > 2


def test_the_first_page_leads_to_each_page_of_users():
    """But to those that another page introduces: the reference, and what Production leads to."""
    linked = {link.partition("#")[0] for link in links(DOCS / "index.md")}
    behind = {link.partition("#")[0] for link in links(DOCS / "how-to/production.md")}
    led = {
        *linked,
        *(path.removeprefix("../") for path in behind),
        *(f"how-to/{path}" for path in behind),
    }
    pages = {path for path in navigation(configuration()["nav"]) if not path.startswith("api/")}
    assert pages - led == {"index.md"}


def test_every_other_page_is_linked():
    """The pages of contributors, which the navigation leaves out."""
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in DOCS.rglob("*.md")
        for link in links(page)
        if "://" not in link
    }
    for name in configuration()["not_in_nav"].split():
        pages = [DOCS / name] if name.endswith(".md") else [*(DOCS / name).glob("*.md")]
        for page in pages:
            assert page in linked or page.parent in linked, page


# ---------------------------------------------------------------------- hooks of the site


@pytest.fixture
def hooks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    sys.modules.pop("docs_hooks", None)
    import docs_hooks

    return docs_hooks


REPOSITORY = "https://github.com/secondpass/secondpass"


@pytest.mark.parametrize(
    ("path", "link", "expected"),
    [
        ("haystack.md", "configuration.md#blend", "configuration.md#blend"),
        ("haystack.md", "#install", "#install"),
        ("how-to/ray.md", "../evidence.md", "../evidence.md"),
        ("haystack.md", "https://a.example/b.md", "https://a.example/b.md"),
        ("haystack.md", "../NOTICE", f"{REPOSITORY}/blob/main/NOTICE"),
        ("how-to/ray.md", "../../Makefile#x", f"{REPOSITORY}/blob/main/Makefile#x"),
        ("haystack.md", "../examples/haystack", f"{REPOSITORY}/tree/main/examples/haystack"),
    ],
)
def test_links_that_leave_the_docs_lead_to_the_repository(hooks, path, link, expected):
    assert hooks.to_repository(f"a [link]({link}).", path) == f"a [link]({expected})."


def test_code_is_left_as_it_is(hooks):
    page = "[a](../NOTICE)\n\n```text\n[a](../NOTICE)\n```\n"
    changed = hooks.outside_code(page, lambda text: hooks.to_repository(text, "x.md"))
    assert changed.count("](../NOTICE)") == 1


def test_a_visit_asks_no_other_server(hooks):
    html = '<div class="md-header__source"><a href="x" data-md-component="source">x</a></div>'
    plain = '<div class="md-header__source"><a href="x">x</a></div>'
    assert hooks.without_requests(html) == plain


def test_bars_in_code_of_tables_lose_their_backslash(hooks):
    page = "| `a\\|b` | c |\nin text: `a\\|b`"
    assert hooks.bars_in_tables(page) == "| `a|b` | c |\nin text: `a\\|b`"


def test_names_in_first_columns_are_marked(hooks):
    row = "<tr>\n<td><code>{}</code>, <code>b c</code></td>\n<td><code>d</code></td>\n</tr>"
    html = row.format("--top-n")
    assert hooks.with_marked_names(html) == html.replace("<code>-", '<code class="name">-')
    for longer in ("f" * 23, "a b"):
        assert hooks.with_marked_names(row.format(longer)) == row.format(longer)


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("# Title\n\nOne [link](x.md). Two.\n", "One link."),
        ("<!-- note -->\n\n# Title\n\n![picture](x.svg)\n\nOnly this", "Only this"),
        ("# Title\n\n```python\ncode\n\nmore\n```\n\n`It` does this: b\n", "`It` does this: b"),
        ("# Title\n\nAs follows:\n\n- one\n", "As follows."),
        ("# Title\n", ""),
    ],
)
def test_the_first_sentence_describes_a_page(hooks, page, sentence):
    assert hooks.first_sentence(page) == sentence


def test_llms_txt_lists_the_pages_in_order(hooks, monkeypatch):
    pages = {"index.md": ("Home", "# Home\n\nHello. More."), "a/b.md": ("B", "# B\n\nOn b.")}
    monkeypatch.setattr(hooks, "_pages", pages)
    nav = [{"Start": "index.md"}, {"Part": [{"Deep": ["a/b.md"]}]}]
    assert hooks.llms_txt(nav, "site", "What it is.", "https://x.example/") == (
        "# site\n\n> What it is.\n\n## Overview\n\n- [Start](https://x.example/index.md): Hello.\n"
        "\n## Deep\n\n- [B](https://x.example/a/b.md): On b.\n"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_table_has_a_header(page):
    """A row that is left over elsewhere is shown as text."""
    blocks = re.findall(r"(?:^\|.*\n)+", text_of(page), re.MULTILINE)
    assert [block for block in blocks if not re.match(r".*\n\|[\s:|-]+\|\n", block)] == []
