"""Renders what a described model reads: parts in order, control tokens by their ids, cuts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from secondpass.concurrency.locks import fork_lock
from secondpass.errors import ModelLoadError
from secondpass.questions import affixes, cut, sliced
from secondpass.scorers.families.descriptions import PLACEHOLDER, Cap, Input, Part
from secondpass.scorers.tokens.control_tokens import ControlTokens
from secondpass.scorers.tokens.pair_tokenizer import longest_first
from secondpass.scorers.torch.texts import CUTS, as_characters, count_tokens, cut_pair, shortened

_UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True)
class TokenizedInput:
    """The tokens of a pair or a block.

    Attributes:
        ids: of the tokens.
        passages: the indices of the passages in it.
        cut: those of them that are not read whole.
        query_cut: whether the query is not read whole.
        types: of the tokens; None if all are 0.
    """

    ids: Sequence[int]
    passages: Sequence[int]
    cut: Sequence[int] = ()
    query_cut: bool = False
    types: Sequence[int] | None = None

    @property
    def length(self) -> int:
        return len(self.ids)


class FamilyInputs:
    """Renders pairs or lists as a family's description says. Safe for use from many threads.

    ``positions`` is the number of tokens that the model can read; ``instruction`` is that of calls
    without one, None the family's own.

    Raises:
        ModelLoadError: a control token of the description is no token of the model.
    """

    def __init__(
        self,
        model: str,
        spec: Input,
        tokenizer: Any,
        *,
        positions: int | None,
        max_length: int | None,
        instruction: str | None = None,
    ) -> None:
        self._spec, self._tokenizer = spec, tokenizer
        self._instruction = spec.instruction if instruction is None else instruction
        self._control = ControlTokens(getattr(tokenizer, "added_tokens_decoder", {}))
        self._lock = fork_lock()
        self._ids = {token: token_id(model, tokenizer, token) for token in spec.control}
        longest_first_ = sorted(spec.control, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first_)) or "(?!)")
        self._has_control = False
        """Whether the operator wrote control tokens around the texts that are rendered now."""
        limits = [positions, getattr(tokenizer, "model_max_length", None)]
        hard = min((limit for limit in limits if limit), default=_UNLIMITED)
        with self._lock:
            self._before, self._after = self._around()
            self._expect()
            self._fixed = {
                part.text: self._encoded(self._pieces(part, {}))
                for part in spec.parts
                if not part.names
            }
        on_top = [(part.room, len(self._fixed[part.text])) for part in spec.parts if part.room]
        self._limit = min(max_length or spec.limit or hard, hard - sum(size for _, size in on_top))
        # limit + room of each part x its tokens - reserve, within what the model can read
        added = sum(room * size for room, size in on_top)
        self.longest = min(self._limit + added - spec.reserve, hard)
        self._check_room(model)

    def pairs(
        self, query: str, passages: Sequence[str], instruction: str | None = None
    ) -> list[TokenizedInput]:
        """The tokens of each pair."""
        with self._lock:
            query, query_cut = self._read(query, self._spec.query)
            rendered = [
                self._pair(query, passage, index, instruction)
                for index, passage in enumerate(passages)
            ]
        return [replace(pair, query_cut=True) for pair in rendered] if query_cut else rendered

    def lists(
        self, query: str, passages: Sequence[str], instruction: str | None = None
    ) -> list[TokenizedInput]:
        """The tokens of each block of a list. The description bounds the passages of a block."""
        spec = self._spec
        with self._lock:
            query, query_cut = self._read(query, spec.query)
            query_size = count_tokens(self._tokenizer, query)
            cap = (spec.passage.tokens if spec.passage else None) or 0
            around = len(self._list(query, [], instruction))
            cap = min(cap or self.longest, max(1, self.longest - around - 32))
            blocks: list[list[tuple[int, str]]] = [[]]
            cut_indices = set()
            room = self.longest - 2 * query_size
            for index, passage in enumerate(passages):
                text, is_cut = self._read(passage, Cap(cap))
                if is_cut:
                    cut_indices.add(index)
                blocks[-1].append((index, text))
                room -= count_tokens(self._tokenizer, text)
                if len(blocks[-1]) == spec.block or room <= cap:
                    blocks.append([])
                    room = self.longest - 2 * query_size
            return [
                TokenizedInput(
                    self._list(query, [text for _, text in block], instruction),
                    [index for index, _ in block],
                    [index for index, _ in block if index in cut_indices],
                    query_cut,
                )
                for block in blocks
                if block
            ]

    def _check_room(self, model: str) -> None:
        """Check that there is room for texts beside what the description writes."""
        if not self._spec.parts:
            return
        with self._lock:
            if self._spec.of == "list":
                size = len(self._list("", [""], None))
            else:
                size = self._size(self._rows("", "", None))
        if size >= self.longest:
            raise ModelLoadError(
                f"the model {model!r} reads {max(0, self.longest)} tokens, and its family writes "
                f"{size}, which leaves no room for texts"
            )

    def _pair(
        self, query: str, passage: str, index: int, instruction: str | None
    ) -> TokenizedInput:
        """The tokens of a pair, cut by the rules of the description."""
        passage, is_cut = self._read(passage, self._spec.passage)
        if not self._spec.parts:
            return self._own_pair(query, passage, index)
        query_size, passage_size = len(query), len(passage)
        cut_names: set[str] = set()
        for attempt in range(CUTS):
            rows, names = self._rows_within_shares(query, passage, instruction)
            cut_names |= names
            excess = self._size(rows) - self.longest
            if excess <= 0:
                break
            if self._cut_at_the_end(rows, passage, excess):
                is_cut = True
                break
            query, passage = self._cut_texts(query, passage, instruction, excess, attempt)
        return TokenizedInput(
            ids=[id for row in (self._before, *rows, self._after) for id in row],
            passages=[index],
            cut=[index] if is_cut or "passage" in cut_names or len(passage) < passage_size else [],
            query_cut="query" in cut_names or len(query) < query_size,
            types=self._types(rows),
        )

    def _rows_within_shares(
        self, query: str, passage: str, instruction: str | None
    ) -> tuple[list[list[int]], set[str]]:
        """The tokens of each part, cut to ``at_most``, and the placeholders in what was cut."""
        rows, cut_names = self._rows(query, passage, instruction), set[str]()
        if any(affixes(query)):  # whose end is the operator's and is not cut
            return rows, cut_names
        for place, part in enumerate(self._spec.parts):
            if part.at_most is not None:
                most = int(self._limit * part.at_most)
                if len(rows[place]) > most:
                    rows[place] = rows[place][:most]
                    cut_names |= part.names
        return rows, cut_names

    def _cut_at_the_end(self, rows: list[list[int]], passage: str, excess: int) -> bool:
        """Cut the tokens of the part that ends with the passage, exactly, if there is one."""
        parts = self._spec.parts
        place = next(index for index, part in enumerate(parts) if "passage" in part.names)
        ends = parts[place].text.endswith("$passage") and not any(affixes(passage))
        if not ends or excess > len(rows[place]):
            return False
        rows[place] = rows[place][: len(rows[place]) - excess]
        return True

    def _cut_texts(
        self, query: str, passage: str, instruction: str | None, excess: int, attempt: int
    ) -> tuple[str, str]:
        """Cut tokens off the texts; those at a cut may become more, so it may take attempts."""
        if not attempt and not any(affixes(passage)):  # what the rest leaves, as authors do
            rest = self._size(self._rows(query, "", instruction))
            size = count_tokens(self._tokenizer, passage)
            excess = max(1, rest + size - self.longest)
        return cut_pair(self._tokenizer, query, passage, excess + attempt, spares_query=True)

    def _size(self, rows: Iterable[Sequence[int]]) -> int:
        """The number of tokens of a pair with these parts."""
        return len(self._before) + sum(map(len, rows)) + len(self._after)

    def _types(self, rows: Sequence[Sequence[int]]) -> list[int] | None:
        """The types of the tokens of a pair; special tokens have that of the part beside them."""
        types = [part.type or 0 for part in self._spec.parts]
        if not any(types):
            return None
        types = [types[0], *types, types[-1]]
        all_rows = (self._before, *rows, self._after)
        return [type_ for row, type_ in zip(all_rows, types, strict=True) for _ in row]

    def _rows(self, query: str, passage: str, instruction: str | None) -> list[list[int]]:
        """The tokens of each part."""
        values = self._values(instruction, query=query, passage=passage)
        self._expect(query, passage)
        return [
            self._encoded(self._pieces(part, values)) if part.names else [*self._fixed[part.text]]
            for part in self._spec.parts
        ]

    def _own_pair(self, query: str, passage: str, index: int) -> TokenizedInput:
        """A pair as the tokenizer composes it."""
        tokenizer = self._tokenizer
        limit = None if self.longest >= _UNLIMITED else self.longest
        self._expect()
        texts = [self._as_characters(text) for text in (query, passage)]
        if self._spec.passage_first:
            texts.reverse()
        first, second = (count_tokens(tokenizer, text) for text in texts)
        encoded = tokenizer(*texts, truncation=limit is not None, max_length=limit)
        ids = encoded["input_ids"]
        room = len(ids) - tokenizer.num_special_tokens_to_add(pair=True)
        kept = longest_first(first, second, room) if first + second > room else (first, second)
        cuts = [kept[0] < first, kept[1] < second]
        query_cut, is_cut = reversed(cuts) if self._spec.passage_first else cuts
        types = encoded.get("token_type_ids")
        return TokenizedInput(ids, [index], [index] if is_cut else [], query_cut, types)

    def _list(self, query: str, passages: Sequence[str], instruction: str | None) -> list[int]:
        """The tokens of a query and a block of passages, as one text between control tokens."""
        common = self._values(instruction, query=query, count=str(len(passages)))
        self._expect(query, *passages)
        pieces: list[tuple[str, bool]] = []
        for part in self._spec.parts:
            if part.each:
                for index, passage in enumerate(passages):
                    values = {**common, "passage": passage, "index": str(index)}
                    pieces += self._pieces(part, values)
            else:
                pieces += self._pieces(part, common)
        return [*self._before, *self._encoded(pieces), *self._after]

    def _values(self, instruction: str | None, **texts: str) -> dict[str, str]:
        """The values of placeholders; without an instruction, there is none of that name."""
        given = self._instruction if instruction is None else instruction
        return texts if given is None else {**texts, "instruction": given}

    def _expect(self, *texts: str) -> None:
        """Let the tokenizer find control tokens only if the operator wrote some in these texts.

        Otherwise it reads all of a text as characters.
        """
        self._has_control = any(map(self._control.written_in, texts))
        self._tokenizer.split_special_tokens = not self._has_control

    def _pieces(self, part: Part, values: Mapping[str, str]) -> Iterable[tuple[str, bool]]:
        """The texts and the control tokens of a part, in order; of each, whether it is a token."""
        plain = part.plain is not None and "instruction" not in values
        template = part.plain if plain and part.plain is not None else part.text
        pieces: list[tuple[str, bool]] = []
        place = 0
        for match in [*self._pattern.finditer(template), None]:
            text = template[place : match.start() if match else len(template)]
            filled = PLACEHOLDER.sub(
                lambda found: "$" if found[1] == "$" else self._as_characters(values[found[1]]),
                text,
            )
            pieces.append((filled, False))
            if match:
                pieces.append((match[0], True))
                place = match.end()
        return pieces

    def _encoded(self, pieces: Iterable[tuple[str, bool]]) -> list[int]:
        """The tokens of pieces; texts between two control tokens are one text."""
        ids: list[int] = []
        text = ""
        for piece, is_token in [*pieces, ("", True)]:
            if not is_token:
                text += piece
                continue
            if text:
                encoded = self._tokenizer(
                    text, add_special_tokens=False, truncation=False, verbose=False
                )
                ids += encoded["input_ids"]
                text = ""
            if piece:
                ids.append(self._ids[piece])
        return ids

    def _as_characters(self, text: str) -> str:
        """The text, with spaces in what its tokenizer would read as control tokens."""
        fast = getattr(self._tokenizer, "is_fast", False)
        text = self._control.escaped(text, markup_only=fast and not self._has_control)
        return str(as_characters(self._tokenizer, self._control, text))

    def _read(self, text: str, cap: Cap | None) -> tuple[str, bool]:
        """What is read of a text, and whether that is less than the whole."""
        self._expect()
        spec = self._spec
        for token in spec.delete:
            while (place := text.find(token)) >= 0:
                text = sliced(text, (0, place), (place + len(token), len(text)))
        is_cut = False
        if cap is not None and cap.characters is not None:
            is_cut = len(text) > cap.characters
            text = cut(text, cap.characters)
        if cap is not None and cap.tokens is not None:
            excess = count_tokens(self._tokenizer, text) - cap.tokens
            text = shortened(self._tokenizer, text, excess)
            is_cut |= excess > 0
        if spec.strip:
            start = len(text) - len(text.lstrip())
            text = sliced(text, (start, max(start, len(text.rstrip()))))
        return text, is_cut

    def _around(self) -> tuple[list[int], list[int]]:
        """The tokens that the tokenizer adds before and after a text."""
        if not self._spec.special_tokens:
            return [], []
        bare = self._tokenizer("a", add_special_tokens=False)["input_ids"]
        full = self._tokenizer("a")["input_ids"]
        starts = [i for i in range(len(full)) if full[i : i + len(bare)] == bare]
        start = starts[0] if starts else 0
        return full[:start], full[start + len(bare) :]


def token_id(model: str, tokenizer: Any, token: int | str) -> int:
    """The id of a token that the description names, which must be one token of the model."""
    if isinstance(token, int):
        if token >= len(tokenizer):
            raise ModelLoadError(
                f"the model {model!r} has no token {token}: its vocabulary has {len(tokenizer)}"
            )
        return token
    tokenizer.split_special_tokens = False  # else rendering may have left it set
    ids = tokenizer(token, add_special_tokens=False)["input_ids"]
    unknown = tokenizer.unk_token_id
    if len(ids) != 1 or (ids[0] == unknown and token != tokenizer.unk_token):
        known = "no token" if len(ids) < 2 else f"{len(ids)} tokens in place of"
        raise ModelLoadError(f"the model {model!r} has {known} {token!r}, which its family needs")
    return int(ids[0])
