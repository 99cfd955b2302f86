"""The rerank APIs that ``endpoint`` calls, as data: a YAML file for each in ``data/rerank_apis``.

Users describe other APIs in the same form, in a configuration or in a separate file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from secondpass.apis import template as api_template
from secondpass.apis.auth import Auth, check_headers
from secondpass.errors import ConfigurationError, Problem
from secondpass.services.client import check_url
from secondpass.settings import OneOrMore, configurable, describe, is_variable, nested
from secondpass.settings.descriptions import Descriptions

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen

USAGE_TOKENS = tuple(
    f"{place}.{name}"
    for place in ("usage", "meta.tokens")
    for name in ("total_tokens", "prompt_tokens", "input_tokens")
)
"""Where most APIs report the number of input tokens."""
_KEY_HEADER = re.compile(r"auth|key|token|secret|cookie", re.I)


@configurable
@dataclass(frozen=True)
class Verified:
    """What the description of an API was verified with.

    Attributes:
        by: a client package that sends such requests and reads such responses, or
            ``documentation``.
        version: of the package.
        address: of the documentation.
    """

    by: Annotated[str, MinLen(1)]
    version: Annotated[str, MinLen(1)] | None = None
    address: Annotated[str, MinLen(1)] | None = None


@configurable
@dataclass(frozen=True)
class RerankSpans:
    """Where a rerank API has the parts of a document that are relevant.

    Places are names, joined by dots where one is inside another.

    Attributes:
        rows: place of the list of spans in the row of a document; without it, there are none.
        start: place of the offset of a span's first character, from 0.
        end: place of the offset after its last character.
        score: place of a span's score, on the scale of the documents' scores; None if the best
            span is the first.
        text: place of the span's own text, which is compared if it is there.
        unit: what offsets count: ``code_points``, ``utf16`` code units, or ``bytes`` of UTF-8.
        request: members of the request that ask for spans.
    """

    rows: Annotated[str, MinLen(1)] = "spans"
    start: Annotated[str, MinLen(1)] = "start"
    end: Annotated[str, MinLen(1)] = "end"
    score: Annotated[str, MinLen(1)] | None = "score"
    text: Annotated[str, MinLen(1)] | None = "text"
    unit: Literal["code_points", "utf16", "bytes"] = "code_points"
    request: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Api:
    """What the descriptions of all APIs have: addresses, keys, and what a request costs.

    Attributes:
        request: template of the JSON request.
        path: appended to the base URL; ``$model`` stands for the setting ``model``.
        url: base URL of the provider; None if every user has another one.
        example_url: what a base URL looks like, for error messages.
        title: name of the provider or server.
        key_variables: environment variables that usually hold the key.
        auth: how the key is sent; None for a bearer token.
        headers: further headers, without keys.
        optional: members of the request that are left out once a server rejects them by name.
        max_tokens: tokens per request: of the documents, and of the query for each of them. Longer
            requests are split.
        usage_tokens: places of the number of input tokens; the first that has one counts.
        usage_units: places of the number of billed units.
        verified: what the description was verified with; None if it was not.
    """

    request: Mapping[str, Any]
    path: str = ""
    url: Annotated[str, MinLen(1)] | None = None
    example_url: str | None = None
    title: str = ""
    key_variables: Annotated[Sequence[str], OneOrMore()] = ("RERANK_API_KEY",)
    auth: Annotated[Auth | None, nested(Auth, optional=True)] = None
    headers: Mapping[str, str] | None = None
    optional: Annotated[Sequence[str], OneOrMore()] = ()
    max_tokens: Annotated[int, Ge(1)] | None = None
    usage_tokens: Annotated[Sequence[str], OneOrMore()] = USAGE_TOKENS
    usage_units: Annotated[Sequence[str], OneOrMore()] = ()
    verified: Annotated[Verified | None, nested(Verified, optional=True)] = None
    _texts: ClassVar[frozenset[str]]
    """Placeholders of the request that hold texts of a call."""

    def _check(self) -> None:
        """Check what all descriptions have."""
        for member in self.optional:
            if member not in self.request or member in self.text_members:
                message = f"cannot be set for {describe(member)}: it is no member without texts"
                raise ConfigurationError([Problem(("optional",), message)])
        if not all(map(is_variable, self.key_variables)):  # it may be the key itself
            message = "give the name of a variable, not the key"
            raise ConfigurationError([Problem(("key_variables",), message)])
        if self.url is not None:
            check_url(self.url, "url")
        check_path(self.path, "path")
        headers = self.headers or {}
        check_headers(headers, "headers")
        if named := next(filter(_KEY_HEADER.search, headers), None):
            message = "cannot be set here; name the header in auth and the variable of the key"
            raise ConfigurationError([Problem(("headers", named), message)])

    @cached_property
    def placeholders(self) -> frozenset[str]:
        """The names of the placeholders in the request and the path."""
        names = api_template.placeholders(self.request)
        return frozenset(names | ({"model"} if "$model" in self.path else set()))

    @property
    def text_members(self) -> list[str]:
        """The members of the request that hold texts of a call."""
        names = api_template.placeholders
        return [member for member, part in self.request.items() if names(part) & self._texts]

    @property
    def needs_model(self) -> bool:
        """Whether a request needs the name of a model."""
        return "$model" in self.path or (self.url is not None and "model" in self.placeholders)


@configurable
@dataclass(frozen=True)
class RerankApi(Api):
    """One rerank API.

    Places in responses are names, joined by dots where one is inside another.

    Attributes:
        request: template of the JSON request; see
            :data:`secondpass.apis.template.PLACEHOLDERS`.
        max_documents: documents per request.
        document_tokens: tokens that the API reads of a document, for ``$document_tokens``.
        rows: place of the list of results; empty if the response is that list.
        index: place of the document's index in a row; None if there is a row for each document, in
            their order.
        score: place of the score in a row; None if the row is the score.
        score_kind: of the scores, unless ``raw_scores`` is set.
        spans: where a row has the relevant parts of the document, and how they are requested; None
            if the API has none.

    Raises:
        ConfigurationError: a template without query or documents, an unknown placeholder, a value
            that JSON does not have, or an invalid URL, path or header.
    """

    _texts = api_template.QUERIES | api_template.DOCUMENTS

    max_documents: Annotated[int, Ge(1)] = 1000
    document_tokens: Annotated[int, Ge(1)] | None = None
    rows: str = "results"
    index: Annotated[str, MinLen(1)] | None = "index"
    score: Annotated[str, MinLen(1)] | None = "relevance_score"
    score_kind: Literal["logit", "probability", "similarity", "unbounded"] = "unbounded"
    spans: Annotated[RerankSpans | None, nested(RerankSpans, optional=True)] = None

    def __post_init__(self) -> None:
        problems = [p.under(("request",)) for p in api_template.problems(self.request)]
        if problems:
            raise ConfigurationError(problems)
        if self.spans is not None:
            template = self.template(with_spans=True)
            problems = [p.under(("spans", "request")) for p in api_template.problems(template)]
            if problems:
                raise ConfigurationError(problems)
        self._check()

    def template(self, *, with_spans: bool) -> Mapping[str, Any]:
        """The template of the request, which may ask for spans."""
        further = self.spans.request if self.spans is not None and with_spans else None
        return api_template.merged(self.request, further or {})

    @property
    def span_members(self) -> list[str]:
        """The members that only requests for spans have."""
        return [name for name in self.template(with_spans=True) if name not in self.request]

    @property
    def raw_scores(self) -> bool:
        """Whether a member of the request selects logits."""
        return "raw_scores" in self.placeholders

    @property
    def takes_instruction(self) -> bool:
        """Whether the request has a place for the instruction of a call."""
        return bool(self.placeholders & {"instruction", "instructed_query"})


def check_path(path: str, setting: str) -> None:
    """Check the path of a URL, in which ``$model`` is the only placeholder."""
    if re.search(r"[\s\x00-\x1f\x7f#]", path):
        message = "must not contain spaces or '#', as http allows none"
        raise ConfigurationError([Problem((setting,), message)])
    if wrong := [name for name in re.findall(r"\$\w+", path) if name != "$model"]:
        message = f"{wrong[0]!r} is no placeholder; '$model' is one"
        raise ConfigurationError([Problem((setting,), message)])


APIS: Descriptions[RerankApi] = Descriptions("rerank_apis", RerankApi, "a rerank API")
"""The built-in rerank APIs by name."""

API_SETTING = APIS.setting()
"""Marks a parameter that holds a rerank API."""
