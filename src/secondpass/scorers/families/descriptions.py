"""Families of rerankers as data: a YAML file for each in ``data/rerankers``.

A description says how a model of the family is recognised, what it reads, what of it is computed,
where its score is read, and what the score means. Users describe others in the same form, in a
configuration or in a separate file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

from secondpass.errors import ConfigurationError, Problem
from secondpass.scorers.hub.facts import ModelFacts
from secondpass.settings import (
    Nested,
    OneOrMore,
    configurable,
    describe,
    from_mapping,
    model_of,
    nested,
    suggestion,
)
from secondpass.settings.descriptions import Descriptions

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le, MinLen

Names: TypeAlias = Annotated[Sequence[str], OneOrMore()]

PLACEHOLDERS: Mapping[str, str] = {
    "query": "the query",
    "passage": "the text of one passage",
    "instruction": "the instruction of the call or, without one, the family's own",
    "count": "the number of passages of a list",
    "index": "the index of a passage in its list, counted from 0, in a part with `each`",
}
"""What each placeholder in a part of the input stands for."""

PLACEHOLDER = re.compile(r"\$(\$|[a-z_]+)")


@configurable
@dataclass(frozen=True)
class Match:
    """How a model of the family is recognised; all that is given must fit.

    Names may have ``*``, and begin with ``!`` for what must not be there.

    Attributes:
        architectures: classes; config.json must name one of them. An empty name stands for no
            class.
        model_type: kinds in config.json.
        auto_map: the author's code in config.json. A family that names it goes before others.
        modules: classes that must all be in modules.json. Without them, it may have only the
            transformer.
        saved_as: kinds in config_sentence_transformers.json; an empty name stands for none.
        config: values in config.json, by their places; ``*`` is any. One that begins with ``!``
            must not be there, ``!*`` stands for no such place. Of a list, one member must fit.
        own: the same in config_sentence_transformers.json.
        files: files that the model has.
        name: a regular expression that the name of the model or its folder has, in any case. Only
            for families whose files do not differ from the files of other models. The setting
            ``family`` replaces it.
        other: a regular expression for the names of other versions, whose files may look the same
            and mean something else, in any case. A model of such a name is refused, unless
            ``family`` is set.
    """

    architectures: Names = ()
    model_type: Names = ()
    auto_map: Names = ()
    modules: Names = ()
    saved_as: Names = ()
    config: Mapping[str, Any] | None = None
    own: Mapping[str, Any] | None = None
    files: Names = ()
    name: Annotated[str, MinLen(1)] | None = None
    other: Annotated[str, MinLen(1)] | None = None

    def __post_init__(self) -> None:
        for name in ("name", "other"):
            try:
                re.compile(getattr(self, name) or "")
            except re.error as error:
                message = f"is no regular expression ({error})"
                raise ConfigurationError([Problem((name,), message)]) from None

    def reasons(self, facts: ModelFacts, *, named: bool = False) -> list[str] | None:
        """Why a model is of the family; None if it is not.

        Args:
            facts: what the model's files say.
            named: whether the configuration names the family, so that the model's name is no
                matter.
        """
        config = facts.config
        found: list[str] = []
        modules = {kind.rpartition(".")[2] for kind in facts.types} - {"Transformer"}
        named_architectures = [str(name) for name in config.get("architectures") or [""]]
        saved = str(facts.own.get("model_type") or "")
        tests: list[tuple[str, Sequence[str], Sequence[str], bool]] = [
            ("architectures", self.architectures, named_architectures, False),
            ("model_type", self.model_type, [str(config.get("model_type") or "")], False),
            ("auto_map", self.auto_map, [*facts.auto_map.values()], False),
            ("saved by sentence-transformers as", self.saved_as, [saved], False),
            ("modules", self.modules, sorted(modules), True),
        ]
        for label, wanted, actual, every in tests:
            if wanted:
                if not _has(wanted, actual, every=every):
                    return None
                found.append(f"{label} {', '.join(filter(None, actual)) or 'none'}")
        if not self.modules and modules:
            return None
        for file, wanted_values in (("config.json", self.config), ("own", self.own)):
            values = config if file == "config.json" else facts.own
            for place, value in (wanted_values or {}).items():
                actual_value = _lookup(values, place)
                if not _is_value(value, actual_value):
                    return None
                found.append(f"{place} {'absent' if actual_value is None else repr(actual_value)}")
        for name in self.files:
            if facts.find(name) is None:
                return None
            found.append(f"the file {name}")
        if self.name is not None and not named:
            if re.search(self.name, facts.name, re.IGNORECASE) is None:
                return None
            found.append(f"the name {facts.name}")
        return found


def _has(wanted: Sequence[str], actual: Sequence[str], *, every: bool) -> bool:
    """Whether names fit patterns: one of them, or ``every`` pattern."""
    excluded = [pattern[1:] for pattern in wanted if pattern.startswith("!")]
    if any(fnmatchcase(name, pattern) for name in actual for pattern in excluded):
        return False
    included = [pattern for pattern in wanted if not pattern.startswith("!")]
    fits = [any(fnmatchcase(name, pattern) for name in actual) for pattern in included]
    return all(fits) if every or not fits else any(fits)


def _is_value(wanted: Any, actual: Any) -> bool:
    """Whether a value of a JSON file, None if it is absent, is what a description names."""
    if isinstance(wanted, str) and wanted.startswith("!"):
        return not _is_value(wanted[1:], actual)
    if actual is None or wanted == "*":
        return actual is not None
    return wanted == actual or (isinstance(actual, list) and wanted in actual)


def _lookup(values: Any, place: str) -> Any:
    for name in place.split("."):
        if not isinstance(values, Mapping):
            return None
        values = values.get(name)
    return values


@configurable
@dataclass(frozen=True)
class Part:
    """A part of what the model reads. Each part is split into tokens by itself.

    Attributes:
        text: the text, with placeholders; see :data:`PLACEHOLDERS`. ``$$`` stands for ``$``.
        plain: the text in calls without an instruction; None if the family has one of its own, or
            the text names none.
        each: whether it is repeated for each passage of a list.
        at_most: the largest share of the tokens that the model reads; more are cut off.
        room: how often its tokens are added to the limit: 0 if they count as others do, 1 if they
            come on top, 2 if the authors' code adds them to the limit and then on top of it, so
            that texts have as much more.
        type: the token type of its tokens. Needed of each part if the model tells texts by them, as
            BERT and ELECTRA do; special tokens have that of the part beside them.
    """

    text: str
    plain: str | None = None
    each: bool = False
    at_most: Annotated[float, Gt(0), Le(1)] | None = None
    room: Annotated[int, Ge(0), Le(2)] = 0
    type: Annotated[int, Ge(0)] | None = None

    @property
    def names(self) -> set[str]:
        """The placeholders of both forms."""
        return {*PLACEHOLDER.findall(self.text), *PLACEHOLDER.findall(self.plain or "")} - {"$"}


def _parts(value: Any) -> list[Part]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Sequence):
        raise ConfigurationError(f"give a list of parts, not {describe(value)}")
    parts, problems = [], []
    for index, item in enumerate(value):
        try:
            own = Part(item) if isinstance(item, str) else item
            parts.append(own if isinstance(own, Part) else from_mapping(Part, own))
        except ConfigurationError as error:
            problems += [problem.under((index,)) for problem in error.problems]
        except TypeError:
            problems.append(Problem((index,), f"give a text or a mapping, not {describe(item)}"))
    if problems:
        raise ConfigurationError(problems)
    return parts


def _parts_schema() -> dict[str, Any]:
    part = {"anyOf": [{"type": "string"}, model_of(Part).model_json_schema()]}
    return {"anyOf": [{"type": "string"}, {"type": "array", "items": part}]}


@configurable
@dataclass(frozen=True)
class Cap:
    """The most that is read of a text; the rest is cut off before it joins the others.

    Attributes:
        tokens: number of tokens.
        characters: number of characters.
    """

    tokens: Annotated[int, Ge(1)] | None = None
    characters: Annotated[int, Ge(1)] | None = None


@configurable
@dataclass(frozen=True)
class Input:
    """What a model reads.

    Attributes:
        of: ``own`` for what the model's files say to sentence-transformers or transformers; a
            ``pair`` or a ``list`` of passages in the form of ``parts``.
        passage_first: whether the passage is the first text of ``own``, the query the second.
        parts: in order.
        control: the control tokens in the parts; each is one token of the model.
        delete: control tokens that are deleted from texts; all others are read as characters.
        strip: whether white space around texts is left out.
        special_tokens: whether the tokenizer adds its own tokens around the whole.
        instruction: of calls without one.
        limit: number of tokens that are read unless ``max_length`` is set; the model's and its
            tokenizer's limits hold as well. None for these alone.
        reserve: number of these that are left free.
        query: the most of the query that is read.
        passage: the most of a passage that is read.
        block: number of passages that a list has at most; longer lists are split.
    """

    of: Literal["own", "pair", "list"] = "own"
    passage_first: bool = False
    parts: Annotated[Sequence[Part], Nested(_parts, _parts_schema)] = ()
    control: Names = ()
    delete: Names = ()
    strip: bool = False
    special_tokens: bool = False
    instruction: str | None = None
    limit: Annotated[int, Ge(8)] | None = None
    reserve: Annotated[int, Ge(0)] = 0
    query: Annotated[Cap | None, nested(Cap, optional=True)] = None
    passage: Annotated[Cap | None, nested(Cap, optional=True)] = None
    block: Annotated[int, Ge(1)] | None = None

    def __post_init__(self) -> None:
        problems = [*self._problems()]
        if problems:
            raise ConfigurationError(problems)

    def _problems(self) -> Iterator[Problem]:
        if self.of == "own":
            if self.parts:
                yield Problem(("of",), "'pair' or 'list' is needed for parts")
            return
        if self.of == "list" and self.block is None:
            yield Problem(("block",), "is needed for a list")
        for index, part in enumerate(self.parts):
            allowed = [name for name in PLACEHOLDERS if self.of == "list" or name not in _OF_LISTS]
            for name in sorted(part.names - set(allowed)):
                hint = suggestion(f"${name}", [f"${known}" for known in allowed])
                yield Problem(("parts", index), f"'${name}' is no placeholder here{hint}")
            instructed = "instruction" in PLACEHOLDER.findall(part.text)
            if instructed and part.plain is None and self.instruction is None:
                message = "is needed: the text without an instruction, or input.instruction"
                yield Problem(("parts", index, "plain"), message)
            if part.room and part.names:
                yield Problem(("parts", index, "room"), "is for a part without placeholders")
            yield from self._list_problems(index, part)
        names = [name for part in self.parts for name in part.names]
        for name in ("query", "passage"):
            if name not in names:
                yield Problem(("parts",), f"must contain the {name}: the placeholder '${name}'")
        if self.of == "pair" and names.count("passage") > 1:
            yield Problem(("parts",), "must contain '$passage' once")

    def _list_problems(self, index: int, part: Part) -> Iterator[Problem]:
        if part.type is not None and self.of == "list":
            yield Problem(("parts", index, "type"), "is for a pair only")
        if part.each and self.of != "list":
            yield Problem(("parts", index, "each"), "is for a list only")
        if self.of == "list" and bool(part.names & {"passage", "index"}) != part.each:
            message = "a part with '$passage' or '$index' needs each: true, others must not"
            yield Problem(("parts", index, "each"), message)

    @property
    def takes_instruction(self) -> bool:
        """Whether the instruction of a call is read."""
        return any("instruction" in part.names for part in self.parts)


_OF_LISTS = frozenset({"count", "index"})


@configurable
@dataclass(frozen=True)
class Run:
    """What of the model is computed.

    Attributes:
        model: a class of sentence-transformers with the model's own modules: ``CrossEncoder``,
            ``SentenceTransformer``, ``SparseEncoder`` or ``MultiVectorEncoder``; or of
            transformers: a ``classifier``, a ``causal`` or ``seq2seq`` language model, or an
            ``encoder`` without a head.
        native: classes of transformers that compute the same as the author's code; the first that
            config.json names is used or, if it names none, the first of all.
        attention: ``own`` is what the class has, ``both`` lets a causal one read both ways.
    """

    model: Literal[
        "CrossEncoder",
        "SentenceTransformer",
        "SparseEncoder",
        "MultiVectorEncoder",
        "classifier",
        "causal",
        "seq2seq",
        "encoder",
    ]
    native: Names = ()
    attention: Literal["own", "both"] = "own"


@configurable
@dataclass(frozen=True)
class Vectors:
    """Scores by the cosine of two hidden states of the last layer, at control tokens.

    Attributes:
        query: the token of the query.
        passage: the token of a passage.
        projector: the names of the matrices that are applied to them, with ReLU between.
    """

    query: Annotated[str, MinLen(1)]
    passage: Annotated[str, MinLen(1)]
    projector: Names = ()


@configurable
@dataclass(frozen=True)
class Head:
    """Scores by a head whose matrices the checkpoint has beside the encoder.

    Attributes:
        weights: the names of its matrices, in order; a bias of the same name is added if there is
            one. The last has one row.
        position: the hidden state that it reads: of the first token, the last, or the mean of all.
        layer: the layer that it reads, counted from 0 for the embeddings, as that layer returns it;
            None is what the model returns.
        activation: a function of torch between two matrices, such as ``relu``; None is none.
    """

    weights: Annotated[Sequence[str], MinLen(1), OneOrMore()]
    position: Literal["first", "last", "mean"] = "first"
    layer: Annotated[int, Ge(0)] | None = None
    activation: Literal["relu", "gelu", "tanh", "silu"] | None = None


class Combination(NamedTuple):
    """What a read-out can be combined with: values of ``run.model`` and of ``input.of``."""

    models: Sequence[str]
    inputs: Sequence[str]


COMBINATIONS: Mapping[str, Combination] = {
    "own": Combination(
        ("CrossEncoder", "SentenceTransformer", "SparseEncoder", "MultiVectorEncoder"), ("own",)
    ),
    "label": Combination(("classifier",), ("own", "pair")),
    "logit": Combination(("causal", "seq2seq"), ("pair",)),
    "vectors": Combination(("encoder",), ("list",)),
    "head": Combination(("encoder",), ("own", "pair")),
}
"""The read-outs by the field of :class:`Read` that describes each."""


@configurable
@dataclass(frozen=True)
class Read:
    """Where the score is read. Exactly one of these; ``minus`` is beside ``logit`` or ``label``.

    Attributes:
        own: whether it is what sentence-transformers returns for the model: the score of its
            modules, or the similarity of the vectors of query and passage.
        label: a label of a classifier's head, by its index, or its name in config.json in any case.
        logit: a token, by its string, which must be one token, or its id. A causal model is read at
            the last token, a sequence to sequence model at the first that it writes.
        minus: a second label or token, whose number is subtracted.
        vectors: at control tokens.
        head: of an encoder.
    """

    own: bool = False
    label: Annotated[int, Ge(0)] | Annotated[str, MinLen(1)] | None = None
    logit: Annotated[int, Ge(0)] | Annotated[str, MinLen(1)] | None = None
    minus: Annotated[int, Ge(0)] | Annotated[str, MinLen(1)] | None = None
    vectors: Annotated[Vectors | None, nested(Vectors, optional=True)] = None
    head: Annotated[Head | None, nested(Head, optional=True)] = None

    def __post_init__(self) -> None:
        if len(self._given) != 1:
            *others, last = COMBINATIONS
            raise ConfigurationError(f"give one of {', '.join(others)} and {last}")
        if self.minus is not None:
            if self.label is None and self.logit is None:
                raise ConfigurationError([Problem(("minus",), "is for label and logit only")])
            if self.minus in (self.label, self.logit):
                raise ConfigurationError([Problem(("minus",), "is what it is subtracted from")])

    @property
    def _given(self) -> list[str]:
        values = {name: getattr(self, name) for name in COMBINATIONS}
        return [name for name, value in values.items() if value is not None and value is not False]

    @property
    def place(self) -> str:
        """The name of the one that is set."""
        return self._given[0]


@configurable
@dataclass(frozen=True)
class Scale:
    """What the score means.

    Attributes:
        kind: of the scores. Only logits have probabilities, their sigmoid.
        divide: what the number that is read is divided by. A name stands for the value of this name
            in config.json, or for 1 if it has none.
        threshold: the score that the authors say separates what is relevant; None if they say none.
    """

    kind: Literal["logit", "similarity", "unbounded"] = "logit"
    divide: Annotated[float, Gt(0)] | Annotated[str, MinLen(1)] = 1.0
    threshold: float | None = None


@configurable
@dataclass(frozen=True)
class Verified:
    """What the description was verified with.

    Attributes:
        by: the authors' package, ``formula`` for a transcription of the authors' code, or
            ``documentation``.
        version: of the package.
        address: of the code or the documentation.
    """

    by: Annotated[str, MinLen(1)]
    version: Annotated[str, MinLen(1)] | None = None
    address: Annotated[str, MinLen(1)] | None = None


def _matches(value: Any) -> list[Match]:
    """One way or several to recognise a model."""
    build = nested(Match).build
    if not isinstance(value, list | tuple):
        return [build(value)]
    matches = []
    for index, item in enumerate(value):
        try:
            matches.append(build(item))
        except ConfigurationError as error:
            problems = [problem.under((index,)) for problem in error.problems]
            raise ConfigurationError(problems) from None
    return matches


def _matches_schema() -> dict[str, Any]:
    one = model_of(Match).model_json_schema()
    return {"anyOf": [one, {"type": "array", "items": one}]}


@configurable
@dataclass(frozen=True)
class Family:
    """One family of rerankers.

    Attributes:
        title: what it is, for messages.
        models: names at Hugging Face, as examples.
        match: how a model of it is recognised: one way, or several.
        input: what it reads.
        run: what is computed; None if ``code`` is required.
        read: where the score is read; None if ``code`` is required.
        scale: what the score means.
        code: ``required`` if only the author's own code computes the scores; such models are
            refused. ``trusted`` if that code runs with ``trust_remote_code``, as ``run`` says.
        reason: why ``code`` is required, as a relative clause; None if its arithmetic is its own.
        verified: what the description was verified with; None if it was not.
    """

    title: Annotated[str, MinLen(1)]
    match: Annotated[Sequence[Match], Nested(_matches, _matches_schema)]
    models: Names = ()
    input: Annotated[Input, nested(Input)] = Input()
    run: Annotated[Run | None, nested(Run, optional=True)] = None
    read: Annotated[Read | None, nested(Read, optional=True)] = None
    scale: Annotated[Scale, nested(Scale)] = Scale()
    code: Literal["required", "trusted"] | None = None
    reason: Annotated[str, MinLen(1)] | None = None
    verified: Annotated[Verified | None, nested(Verified, optional=True)] = None

    def __post_init__(self) -> None:
        if self.code == "required":
            if self.run is not None or self.read is not None:
                raise ConfigurationError([Problem(("code",), "cannot be set beside run and read")])
            return
        for name in ("run", "read"):
            if getattr(self, name) is None:
                raise ConfigurationError([Problem((name,), "is needed, or code: required")])
        assert self.run is not None
        assert self.read is not None
        model, of = self.run.model, self.input.of
        places = [name for name, rule in COMBINATIONS.items() if model in rule.models]
        if self.read.place not in places:
            message = f"must be {' or '.join(places)} with run.model {model!r}"
            raise ConfigurationError([Problem(("read",), message)])
        if of not in COMBINATIONS[self.read.place].inputs:
            message = f"cannot be {of!r} with run.model {model!r} and read.{self.read.place}"
            raise ConfigurationError([Problem(("input", "of"), message)])

    def reasons(self, facts: ModelFacts, *, named: bool = False) -> list[str] | None:
        """Why a model is of the family; None if it is not."""
        ways = (match.reasons(facts, named=named) for match in self.match)
        return next((way for way in ways if way is not None), None)

    def is_other_version(self, facts: ModelFacts) -> bool:
        """Whether the model's name is that of a version that this does not describe."""
        others = [match.other for match in self.match if match.other is not None]
        return any(re.search(other, facts.name, re.IGNORECASE) for other in others)

    @property
    def names_code(self) -> bool:
        """Whether the author's own code is named, or needed."""
        named = any(not name.startswith("!") for match in self.match for name in match.auto_map)
        return self.code is not None or named

    @property
    def needs_torch(self) -> bool:
        """Whether an exported file is not enough, so that torch must run the model."""
        return self.run is None or self.run.model != "CrossEncoder"

    def native(self, facts: ModelFacts) -> str | None:
        """The class of transformers that computes the model, if the description names one."""
        names = [*self.run.native] if self.run else []
        known = [name for name in facts.config.get("architectures") or () if name in names]
        return next(iter([*known, *names]), None)


FAMILIES: Descriptions[Family] = Descriptions("rerankers", Family, "a family")
"""The built-in families by name."""

FAMILY_SETTING = FAMILIES.setting(optional=True)
"""Marks a parameter that holds a family of rerankers, or None."""
