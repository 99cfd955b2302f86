"""Writes the parts of the documentation that are generated from the code or from other pages.

    python tools/docs_pages.py

- ``docs/settings.md``: every setting, from the JSON Schema and the docstrings of the classes.
- the tables of ``docs/rerank-apis.md``, ``docs/decision-models.md`` and ``docs/models.md``,
  from the descriptions of the APIs and of the families of rerankers.
- ``docs/api/*.md``: the public names that the API reference documents, from ``__all__``.
- the table of ``docs/which-method.md``: figures of ``docs/evidence.md``.

``tests/docs/test_written_pages.py`` fails while one of them is out of date.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from secondpass import Limits, Reranker
from secondpass.apis import decision_descriptions
from secondpass.apis.auth import Auth
from secondpass.apis.decision_descriptions import DECISION_APIS, DecisionApi, Grades, YesNo
from secondpass.apis.descriptions import APIS, Api, RerankApi, RerankSpans, Verified
from secondpass.apis.template import PLACEHOLDERS
from secondpass.asking.response_cache import ResponseCache
from secondpass.errors import MissingExtraError
from secondpass.limits import Prices
from secondpass.orderings.diversity import Cap
from secondpass.prompts.template import Prompting
from secondpass.ranking.blending import Blend
from secondpass.ranking.floors import Fit, Floor, Probabilities
from secondpass.ranking.rendering import Rendering
from secondpass.ranking.stages import Stage
from secondpass.ranking.when import Agreement, Range, When
from secondpass.ranking.windows import Passages
from secondpass.scorers import inspection
from secondpass.scorers.embedding.passage_store import PassageStore
from secondpass.scorers.families import descriptions as families
from secondpass.scorers.families.descriptions import FAMILIES, Family
from secondpass.settings import model_of, registry
from secondpass.strategies.base import LLMStrategy
from secondpass.strategies.cascade import CascadeStage

DOCS = Path(__file__).resolve().parents[1] / "docs"
COMMAND = "python tools/docs_pages.py"
BEGIN = f"<!-- begin: measured, written by `{COMMAND}` -->\n"
END = "<!-- end -->"


def _strategies() -> str:
    """The names of the methods that use a language model."""
    kinds = {name: registry.kind("methods", name) for name in registry.names("methods")}
    names = [f"`{name}`" for name, cls in kinds.items() if issubclass(cls, LLMStrategy)]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def pages() -> dict[str, str]:
    """The generated pages: path in ``docs/`` -> text."""
    which = (DOCS / "which-method.md").read_text(encoding="utf-8")
    before, _, rest = which.partition(BEGIN)
    after = rest.partition(END)[2]
    table = f"{before}{BEGIN}\n{measured_table()}\n{END}{after}"
    written = {
        "which-method.md": table,
        "rerank-apis.md": _with_tables(
            "rerank-apis.md", {"apis": _rerank_apis(), "placeholders": _placeholders(PLACEHOLDERS)}
        ),
        "decision-models.md": _with_tables(
            "decision-models.md",
            {
                "apis": _decision_apis(),
                "placeholders": _placeholders(decision_descriptions.PLACEHOLDERS),
            },
        ),
        "models.md": _with_tables(
            "models.md",
            {"families": _families(), "placeholders": _placeholders(families.PLACEHOLDERS)},
        ),
    }
    return {"settings.md": settings_page(), **written, **api_pages()}


# ---------------------------------------------------------------------- rerank APIs


def _with_tables(page: str, tables: Mapping[str, str]) -> str:
    """A page of ``docs``, with its tables written from descriptions."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, table in tables.items():
        begin = f"<!-- begin: {name}, written by `{COMMAND}` -->\n"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{table}\n{END}{rest.partition(END)[2]}"
    return text


def _refused(family: Family) -> str:
    return f"refused: {family.reason or 'its author has code of its own'}"


def _families() -> str:
    rows = [
        "| `family` | models | such as | instruction | read-out | scores | checked against |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, family in FAMILIES.items():
        kind = family.scale.kind
        cells = (
            f"`{name}`",
            family.title,
            "<br>".join(family.models),
            "yes" if family.input.takes_instruction else "no",
            _refused(family) if family.run is None else inspection.read_out(family),
            "" if family.run is None else kind,
            _verified(family.verified),
        )
        trusted = "; needs `trust_remote_code`" if family.code == "trusted" else ""
        cells = (*cells[:4], cells[4] + trusted, *cells[5:])
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _rerank_apis() -> str:
    rows = [
        "| `api` | provider or server | address and key | documents per request | instruction "
        "| scores | checked against |",
        "| --- | --- | --- | ---: | --- | --- | --- |",
    ]
    for name, api in APIS.items():
        kind = f"{api.score_kind}; logit with `raw_scores`" if api.raw_scores else api.score_kind
        cells = (
            f"`{name}`",
            api.title,
            _address_and_key(api),
            f"{api.max_documents:,}",
            "yes" if api.takes_instruction else "no",
            kind,
            _verified(api.verified),
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _address_and_key(api: Api) -> str:
    host = api.url.partition("//")[2].partition("/")[0] if api.url else "`base_url`"
    auth = api.auth
    if auth is not None and auth.sigv4:
        key = "AWS credentials"
    elif auth is not None and auth.google:
        key = "Google credentials"
    else:
        key = " or ".join(f"`{variable}`" for variable in api.key_variables)
    return f"{host}, {key}"


def _decision_apis() -> str:
    rows = [
        "| `api` | shape | address and key | default `layout` | questions per request | "
        "checked against |",
        "| --- | --- | --- | --- | ---: | --- |",
    ]
    for name, api in DECISION_APIS.items():
        cells = (
            f"`{name}`",
            api.title,
            _address_and_key(api),
            f"`{api.layout}`",
            f"{api.max_questions:,}",
            _verified(api.verified),
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def _verified(known: Verified | families.Verified | None) -> str:
    if known is None:
        return "unverified"
    if known.address is not None:
        return f"[{known.by}]({known.address})"
    return f"{known.by} {known.version}"


def _placeholders(placeholders: Mapping[str, str]) -> str:
    rows = "".join(f"| `${name}` | {meaning} |\n" for name, meaning in placeholders.items())
    return f"| placeholder | stands for |\n| --- | --- |\n{rows}"


# ---------------------------------------------------------------------- settings


class Part(NamedTuple):
    """A class with settings, as a section of the page."""

    heading: str
    cls: type
    introduction: str
    without: tuple[str, ...] = ()


BESIDE = "These are set next to the settings of the method: "


def sections() -> dict[str, list[Part]]:
    """The sections of the page, with the classes of each."""
    return {
        "The reranker": [
            Part("Top level", Reranker, "The keys. `preset` names a configuration to extend."),
            Part("blend", Blend, "`blend:` of the reranker or of a fallback."),
            Part("floor", Floor, "`floor:` of the reranker or a fallback, where it is a mapping."),
            Part("probabilities", Probabilities, "`probabilities:`, likewise."),
            Part("fitted", Fit, "`fitted:` of `floor` and `probabilities`."),
            Part("render", Rendering, "`render:`."),
            Part("passages", Passages, "`passages:`."),
            Part("when", When, "`when:`. [When to skip the pass]"
                 "(how-to/caching-and-concurrency.md#skip-the-pass)."),
            Part("when: range", Range, "The conditions of `when`, such as `margin:`."),
            Part("when: agreement", Agreement, "The condition `agreement:` of `when`."),
            Part("limits", Limits, "`limits:`."),
            Part("cache", ResponseCache, "`cache:`, where it is a mapping."),
            Part("store", PassageStore,
                 "`store:` of `embedded` and `embedded_multilingual`, where it is a mapping."),
            Part("An entry of fallback", Stage, f"{BESIDE}`{{type: embedded, floor: 0.2}}`.",
                 ("method",)),
        ],
        "Methods": [
            *_registered("methods", "`method:`, a stage of a cascade, or an entry of `fallback`."),
            Part("A stage of cascade", CascadeStage, f"{BESIDE}`{{type: embedded, depth: 50}}`.",
                 ("method",)),
        ],
        "Families of rerankers": [
            Part("family", Family, "`family:` of `cross_encoder`: [a description]"
                 "(models.md#your-own-family)."),
            Part("match", families.Match, "`match:` of such a description."),
            Part("input", families.Input, "`input:` of such a description."),
            Part("parts", families.Part, "An entry of `parts:` of `input`."),
            Part("query and passage", families.Cap, "`query:` and `passage:` of `input`."),
            Part("run", families.Run, "`run:` of such a description."),
            Part("read", families.Read, "`read:` of such a description."),
            Part("vectors", families.Vectors, "`vectors:` of `read`."),
            Part("head", families.Head, "`head:` of `read`."),
            Part("scale", families.Scale, "`scale:` of such a description."),
        ],
        "Language models": [
            *_registered("llms", f"`llm:` of {_strategies()}."),
            Part("prices", Prices, "`prices:` of a language model."),
            Part("api", RerankApi, "`api:` of `endpoint`: a [description]"
                 "(rerank-apis.md#describe-your-own)."),
            Part("auth", Auth, "`auth:` of such a description."),
            Part("spans", RerankSpans, "`spans:` of such a description."),
            Part("verified", Verified, "`verified:` of such a description."),
            Part("api of decisions", DecisionApi, "`api:` of `decisions`: a "
                 "[description](decision-models.md)."),
            Part("yes_no", YesNo, "`yes_no:` of such a description."),
            Part("graded", Grades, "`graded:` of such a description."),
            Part("prompt", Prompting, f"`prompt:` of {_strategies()}."),
            *_registered("contexts", "`context:` of `prompt`."),
        ],
        "Terms": [*_registered("terms", "an entry of `terms`.")],
        "Orderings": [
            *_registered("orderings", "`order:`, or an entry of `orders`."),
            Part("cap", Cap, "`cap:` of `diverse`."),
        ],
    }  # fmt: skip


def _registered(family: registry.Family, place: str) -> list[Part]:
    """The registered classes of this package, without those of other installed packages."""
    kinds = {name: registry.kind(family, name) for name in registry.names(family)}
    return [
        Part(name, cls, f"`type: {name}` in {place}")
        for name, cls in kinds.items()
        if cls.__module__.startswith("secondpass.")
    ]


def settings_page() -> str:
    """Every setting with its type, default and meaning."""
    lines = [
        f"<!-- Written by `{COMMAND}`. -->",
        "",
        "# Every setting",
        "",
        "Look up a key of a configuration here; the tables are generated from the code that "
        "validates it. [Configuration](configuration.md) explains them with examples, and "
        "`secondpass config schema` writes the same as JSON Schema, for editors. Any plain value "
        "can be read from an [environment variable](configuration.md#environment) instead.",
    ]
    for section, parts in sections().items():
        lines += ["", f"## {section}"]
        for part in parts:
            lines += ["", f"### {part.heading}", "", part.introduction, *_table(part)]
    return "\n".join(lines) + "\n"


def _table(part: Part) -> Iterator[str]:
    schema = model_of(part.cls).model_json_schema()
    meanings = _documented(part.cls)
    required = schema.get("required", ())
    if not schema["properties"]:
        yield from ("", "It has no settings.")
        return
    yield from ("", "| setting | type | default | meaning |", "| --- | --- | --- | --- |")
    for name, option in schema["properties"].items():
        if name in part.without:
            continue
        default = "required" if name in required else _value(option.get("default"))
        kind = _type(option)
        # A file must not hold a secret, so its schema allows only null.
        kind = "text, in Python only" if kind == "null" else kind
        cells = (f"`{name}`", kind, default, meanings.get(name) or _no_meaning(part.cls, name))
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _no_meaning(cls: type, name: str) -> NoReturn:
    has_attributes = is_dataclass(cls) and "Args:" not in (cls.__doc__ or "")
    section = "Attributes" if has_attributes else "Args"
    raise SystemExit(
        f"{cls.__name__}.{name} has no line in the docstring: add it under '{section}:'"
    )


_PARAMETERS = re.compile(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def _documented(cls: type) -> dict[str, str]:
    """The meaning of each parameter, from the docstrings of a class and its bases."""
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = inspect.cleandoc(base.__doc__ or "")
        for section in _PARAMETERS.findall(text):
            for name, meaning in _ENTRY.findall(section):
                meanings[name] = re.sub(r"\bNone\b", "null", _markdown(meaning))
    return meanings


def _markdown(text: str) -> str:
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", " ".join(text.split()))
    return text.replace("``", "`")


def _type(schema: Mapping[str, Any]) -> str:
    """A JSON Schema in words."""
    if "x-definition" in schema:
        return f"a {_definition(schema)}"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(option) for option in schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        return ", ".join(_value(value) for value in schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "object" if "properties" in schema:
            return "mapping" if "type" not in schema["properties"] else "mapping with a `type`"
        case "object":
            return "mapping"
        case "array":
            items = schema.get("items") or {}
            if "x-definition" in items:
                return f"list of {_definition(items)}s"
            return f"list of {_type(items)}".replace("number", "numbers") if items else "list"
        case "integer" | "number" as kind:
            return {"integer": "whole number", "number": "number"}[kind] + _range(schema)
        case "boolean":
            return "true or false"
        case "null":
            return "null"
        case "string":
            return "text"
    return "any"


def _definition(schema: Mapping[str, Any]) -> str:
    return str(schema["x-definition"]).replace("llm", "language model").replace("_", " ")


def _range(schema: Mapping[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema]
    return f" {', '.join(bounds)}" if bounds else ""


def _value(value: Any) -> str:
    if value is None:
        return "`null`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = str([] if value == () else value).replace("\n", r"\n")
    return f"`{text}`" if text else "empty"


# ---------------------------------------------------------------------- API reference

API: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "api/index.md": (
        "Rerankers and records",
        "The package `secondpass`: the reranker, what goes in and comes out, and the exceptions.",
        ("secondpass",),
    ),
    "api/extend.md": (
        "For your own code",
        "`secondpass.extend`: protocols and base classes for your own scorer, method, language "
        "model, provider, ordering or observer, and what they are made of.",
        ("secondpass.extend",),
    ),
    "api/config.md": (
        "Configurations",
        "`secondpass.config`: files, presets and the JSON Schema.",
        ("secondpass.config",),
    ),
    "api/evaluation.md": (
        "Evaluation",
        "`secondpass_evaluation`: suites, measures, comparisons and reports.",
        ("secondpass_evaluation",),
    ),
    "api/server.md": (
        "Serving",
        "`secondpass_server`: the application of `secondpass serve` and the tools of `secondpass "
        "mcp`.",
        ("secondpass_server",),
    ),
    "api/adapters.md": (
        "Adapters",
        "The Haystack component and the LlamaIndex node postprocessor.",
        ("haystack_integrations.components.rankers.secondpass",
         "llama_index.postprocessor.secondpass"),
    ),
    "api/for-adapters.md": (
        "For adapters",
        "`secondpass.adapters`: what connects a reranker to the components, models and documents "
        "of a framework.",
        ("secondpass.adapters",),
    ),
    "api/ray.md": (
        "Ray",
        "`secondpass_ray`: rerankers on Ray Data. Needs the extra `ray`.",
        ("secondpass_ray",),
    ),
}  # fmt: skip


def api_pages() -> dict[str, str]:
    """The pages of the API reference: a directive of mkdocstrings for each public name."""
    written = {}
    for path, (title, introduction, modules) in API.items():
        lines = [f"<!-- Written by `{COMMAND}`. -->", "", f"# {title}", "", introduction]
        listed: set[int] = set()  # two modules of a page may export the same object
        for module in modules:
            for name in public_names(module):
                value = _member(module, name)
                if id(value) in listed:
                    continue
                listed.add(id(value))
                lines += ["", f"::: {module}.{name}"]
                if module.startswith("haystack_integrations"):  # docstrings in Haystack's form
                    lines += ["    options:", "      docstring_style: sphinx"]
        written[path] = "\n".join(lines) + "\n"
    return written


def _member(module: str, name: str) -> Any:
    """A member of a module; its name, if the packages of the module are not installed."""
    try:
        return getattr(importlib.import_module(module), name)
    except MissingExtraError:
        return name


FIRST = ("Reranker", "Candidate", "Ranking", "Limits", "Report", "Ranked")
"""The names that a reader looks for, before all others."""


def public_names(module: str) -> list[str]:
    """``__all__``: ``FIRST``, other classes, functions, exceptions."""

    def place(name: str) -> tuple[int, bool, bool, str]:
        value = _member(module, name)
        exception = inspect.isclass(value) and issubclass(value, BaseException)
        first = FIRST.index(name) if name in FIRST else len(FIRST)
        return first, exception, not inspect.isclass(value), name

    return sorted(importlib.import_module(module).__all__, key=place)


# ---------------------------------------------------------------------- which method


def measured_table() -> str:
    """Methods by quality, time and cost, with the figures of the pages that measure them."""
    evidence = (DOCS / "evidence.md").read_text(encoding="utf-8")
    speed = (DOCS / "data" / "speed.md").read_text(encoding="utf-8")
    dl19 = _row(evidence, "TREC DL 2019", "BM25")  # collection, first stage, queries, figures
    by_words, by_vectors, _ = _tables(evidence, "95 % interval", "share of the gain at 100")
    fast = 100 / float(_row(speed, "secondpass, auto")[1])  # pairs per CPU second, workload A
    slow = 100 / float(_row(evidence, "secondpass, auto (OpenVINO, float32)")[1])
    published = _row(evidence, "ms-marco-MiniLM-L6-v2")[1]

    def embedded(depth: int) -> tuple[str, str]:
        column = by_words["columns"].index(str(depth))
        gains = (table["mean gain"][column] for table in (by_words, by_vectors))
        longest = max(table["CPU ms per query"][column] for table in (by_words, by_vectors))
        return " / ".join(gains), f"{float(longest.replace(',', '')) / 1000:.1f} s of CPU"

    first, whole = dl19[3], dl19[4]
    at_50 = float(first) + float(by_words["TREC DL 2019, BM25"][by_words["columns"].index("50")])
    (gain_50, time_50), (gain_100, time_100) = embedded(50), embedded(100)
    local = f"{fast:.1f} to {slow:.1f} s of CPU"
    rows = (
        ("method", "DL 2019", "gain after BM25 / vectors", "time of a query", "cost", "needs"),
        ("---", "---:", "---:", "---", "---", "---"),
        ("no second pass", first, "", "0", "none", "nothing"),
        ("`embedded`: first 50", f"{at_50:.3f}"[1:], gain_50, time_50, "none",
         "`secondpass[embedded]`"),
        ("`embedded` with `depth: 100`", whole, gain_100, time_100, "none",
         "`secondpass[embedded]`"),
        ("`cross_encoder`: MiniLM-L6", f"{published}, published", "not measured", local, "none",
         "`secondpass[openvino]`, a model from Hugging Face"),
        ("`endpoint`: a rerank API", "depends on the model", "not measured", "1 request",
         "by request or token", "`secondpass[remote]`, a key or a server"),
        ("`graded`: a language model", "depends on the model", "not measured",
         "5 questions at once", "each passage read once",
         "`secondpass[openai]`, a key or a server"),
        ("`listwise`: a language model", "depends on the model", "not measured",
         "9 questions, one after the other", "each passage read about twice",
         "`secondpass[openai]`, a key or a server"),
        ("`accurate`: a cascade", "depends on the model", "not measured",
         "as long as `default`, and 1 question", "20 passages read once",
         "`secondpass[openvino,openai]`, both models"),
    )  # fmt: skip
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("**", "") for cell in line.strip().strip("|").split(" | ")]


def _row(text: str, *first: str, table: str = "") -> list[str]:
    """The first row with these first cells, below ``table`` in the text.

    Raises:
        LookupError: there is none.
    """
    _, found, below = text.partition(table) if table else ("", "all", text)
    for line in below.splitlines():
        if found and line.startswith("|") and _cells(line)[: len(first)] == list(first):
            return _cells(line)
    raise LookupError(f"no row {first} in the table {table!r}")


def _tables(text: str, *rows: str) -> list[dict[str, list[str]]]:
    """The tables that have all of these rows: the cells of each row, by its first cell."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        table = {(cells := _cells(line))[0]: cells[1:] for line in block.splitlines()}
        if table.keys() >= set(rows):
            table["columns"] = _cells(block.splitlines()[0])[1:]
            found.append(table)
    if len(found) != 3:
        raise LookupError(f"{len(found)} tables with the rows {rows} instead of 3")
    return found


def main() -> None:
    for path, text in pages().items():
        (DOCS / path).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
