"""Hooks of MkDocs: the API reference, links to sources, and llms.txt.

- Links to files outside ``docs/`` lead to the repository, because the site has no such pages.
- ``\\|`` in code in a table becomes ``|``: GitHub needs the backslash, MkDocs shows it.
- The theme's requests to GitHub's API for statistics of the repository are removed.
- Names in the first column of a table are marked, for `docs/assets/site.css`.
- Roles of reStructuredText in docstrings (``:class:`Reranker```) become code.
- Each page is written as Markdown beside its HTML, with signatures and docstrings in place of the
  directives of mkdocstrings, and ``llms.txt`` lists these files.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from pathlib import Path
from typing import Any

from secondpass.settings.signature import without_constraints

REPOSITORY = "https://github.com/secondpass/secondpass"
ROOT = Path(__file__).resolve().parents[1]

_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):<code>~?(?:[\w.]+\.)?([\w()]+)</code>")
_DIRECTIVE = re.compile(r"^::: (\S+)\n(?: +.*\n)*", re.MULTILINE)
_FIRST_CELL = re.compile(r"<tr>\s*<td[^>]*>.*?</td>", re.DOTALL)
_NAME = re.compile(r"<code>([^\s<]{1,22})</code>")
"""What a column of 45 % of a phone has room for."""
_CODE = re.compile(r"`[^`\n]+`")

_pages: dict[str, tuple[str, str]] = {}
"""Title and Markdown of each page, by its path in ``docs/``."""


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001
    path = page.file.src_uri
    markdown = outside_code(markdown, lambda text: to_repository(text, path))
    _pages[path] = page.title or "", markdown
    return outside_code(markdown, bars_in_tables)


def on_page_content(html: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001
    html = with_marked_names(_ROLE.sub(r"<code>\1</code>", html))
    return html.replace("<p>::</p>", "").replace("::</p>", ":</p>")


def with_marked_names(html: str) -> str:
    """Mark the names in first columns that a phone shows whole, such as ``--top-n``: not broken."""

    def marked(cell: re.Match[str]) -> str:
        return _NAME.sub(r'<code class="name">\1</code>', cell[0])

    return _FIRST_CELL.sub(marked, html)


def on_post_page(output: str, *, page: Any, config: Any) -> str:  # noqa: ARG001
    name = posixpath.basename(page.file.src_uri)
    link = f'<link rel="alternate" type="text/markdown" href="{name}">'
    output = output.replace("</head>", f"{link}</head>", 1)
    return without_requests(output)


def without_requests(html: str) -> str:
    """The page without the attribute that makes the theme request statistics from GitHub."""
    return html.replace(' data-md-component="source"', "")


def on_post_build(*, config: Any) -> None:
    site = Path(config.site_dir)
    for path, (_, markdown) in _pages.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(with_docstrings(markdown, config), encoding="utf-8")
    text = llms_txt(config.nav, config.site_name, config.site_description, config.site_url or "")
    (site / "llms.txt").write_text(text, encoding="utf-8")


def with_docstrings(markdown: str, config: Any) -> str:
    """Markdown with a heading, a signature and a docstring in place of each ``::: name``."""
    names = _DIRECTIVE.findall(markdown)
    if not names:
        return markdown
    folders = config.plugins["mkdocstrings"].config.handlers["python"]["paths"]
    modules = _modules(tuple(folders), tuple({name.rpartition(".")[0] for name in names}))

    def documented(match: re.Match[str]) -> str:
        entry = modules[match.group(1)]
        text = inspect.cleandoc(entry.docstring.value) if entry.docstring else ""
        call = entry.name
        if entry.is_class or entry.is_function:
            parameters = [_parameter(one) for one in entry.parameters if one.name != "self"]
            call = f"{call}({', '.join(parameters)})"
        return f"## {entry.name}\n\n```python\n{call}\n```\n\n{text}\n"

    return _DIRECTIVE.sub(documented, markdown)


def _parameter(parameter: Any) -> str:
    annotation = "" if parameter.annotation is None else str(parameter.annotation)
    annotation = f": {without_constraints(annotation)}" if annotation else ""
    default = f" = {parameter.default}" if parameter.default is not None else ""
    return f"{parameter.name}{annotation}{default}"


def _modules(folders: tuple[str, ...], packages: tuple[str, ...]) -> Any:
    """The objects that these packages define, by full name; modules are parsed, not imported."""
    import griffe

    loader = griffe.GriffeLoader(search_paths=[ROOT / folder for folder in folders])
    for package in dict.fromkeys(
        ("secondpass", *packages)
    ):  # the others re-export names of the core
        loader.load(package)
    loader.resolve_aliases(external=False)
    return loader.modules_collection


def outside_code(markdown: str, change: Any) -> str:
    """Markdown with ``change`` applied to all but fenced code."""
    parts, start = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[start : fence.start()]), fence.group()]
        start = fence.end()
    return "".join([*parts, change(markdown[start:])])


def to_repository(markdown: str, path: str) -> str:
    """Markdown whose links to files outside ``docs/`` lead to the repository.

    Args:
        markdown: of one page.
        path: of the page, relative to ``docs/``.
    """

    def replaced(match: re.Match[str]) -> str:
        target, _, anchor = match.group(2).partition("#")
        if "://" in target or not target:
            return match.group()
        resolved = posixpath.normpath(posixpath.join("docs", posixpath.dirname(path), target))
        if resolved.startswith("docs/"):
            return match.group()
        kind = "tree" if (ROOT / resolved).is_dir() else "blob"
        anchor = f"#{anchor}" if anchor else ""
        return f"{match.group(1)}{REPOSITORY}/{kind}/main/{resolved}{anchor}{match.group(3)}"

    return _LINK.sub(replaced, markdown)


def bars_in_tables(markdown: str) -> str:
    """Markdown in which code of table rows has bars without a backslash."""
    return "\n".join(
        _CODE.sub(lambda code: code.group().replace(r"\|", "|"), line)
        if line.startswith("|")
        else line
        for line in markdown.split("\n")
    )


def first_sentence(markdown: str) -> str:
    """The first sentence of a page's text; empty if it has none."""
    for paragraph in _FENCE.sub("", markdown).split("\n\n"):
        text = " ".join(paragraph.split())
        if text and text[0] not in "#<|!:*" and not text.startswith("- "):
            text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
            sentence = re.split(r"(?<=[.?!]) ", text, maxsplit=1)[0]
            return re.sub(":$", ".", sentence)
    return ""


def llms_txt(nav: Any, name: str, description: str, site_url: str) -> str:
    """The list of all pages in the order of the navigation, in the form of llmstxt.org."""
    lines = [f"# {name}", "", f"> {description.strip()}"]

    def add(entries: Any, section: str) -> None:
        links = [entry for entry in entries if paths_of(entry)]
        if links:
            lines.extend(["", f"## {section}", ""])
        for entry in links:
            path = paths_of(entry)[0]
            title, markdown = _pages[path]
            sentence = first_sentence(markdown)
            label = next(iter(entry)) if isinstance(entry, dict) else title
            lines.append(f"- [{label}]({site_url}{path})" + (f": {sentence}" if sentence else ""))
        for entry in entries:
            if isinstance(entry, dict) and not paths_of(entry):
                ((title, below),) = entry.items()
                add(below, title)

    add(nav, "Overview")
    return "\n".join(lines) + "\n"


def paths_of(entry: Any) -> list[str]:
    """The page of an entry of the navigation, as a list; empty for a section."""
    if isinstance(entry, str):
        return [entry]
    value = next(iter(entry.values()))
    return [value] if isinstance(value, str) else []
