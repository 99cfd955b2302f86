# ruff: noqa: RUF001
import threading
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from secondpass.ranking import words as words_module
from secondpass.ranking.words import split_words
from word_forms import DIFFERENT_WORDS, WORD_FORMS

# Characters that the rules are about, with some that no rule is about.
CHARACTERS = (
    "a_1 é.-+#C™ßſIiİı\u0307\u0301\u0323\u0327\u0345ﬁ２Ｃ＋＃ⅣºÅ\u212b½⑴²㎏㈱ΆαΐϊςΣἀᾳῷйЁ\u0300"
    "שׁבּ\u05bc\ufb4fأاىیکةۀہئـ\u064b\u0654ﻛﷲﷺﹰﹱ१٣๑क\u093f\u094dत\u093c\u0958\u00ad\u200b\u200c\u200d"
    "\u200e\u2060\ufeff\u034f\ufe0f\U000e0100漢字㆒かカｶﾞｰ\u3099한ᄒ\u1161ㄱกีำຳខ\u17d2ម👍🏽𝐀𝟏\u20d7"
)
TEXTS = st.text(st.sampled_from(CHARACTERS), max_size=12)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("Snake_case, x2!", ["snake_case", "x2"]),
        ("die Straße", ["die", "strasse"]),
        ("北京大学", ["北京", "京大", "大学"]),
        ("水", ["水"]),
        ("很好，谢谢。", ["很好", "谢谢"]),
        ("iPhone15を買う", ["iphone15", "を買", "買う"]),
        ("Tシャツ", ["t", "シャ", "ャツ"]),
        ("サーバー", ["サー", "ーバ", "バー"]),
        ("人々", ["人々"]),
        ("二〇二四年", ["二〇", "〇二", "二四", "四年"]),
        ("２０２４年", ["2024", "年"]),
        ("👍好吃👍🏽", ["好吃"]),
        ("𠮷野家", ["𠮷野", "野家"]),
        ("\U00031350\U00031351", ["\U00031350\U00031351"]),  # newer than some Pythons
        ("한국어를 배워요", ["한국", "국어", "어를", "배워", "워요"]),
        ("จำได้", ["จํา", "าไ", "ได้"]),
        ("ปี๒๕๖๗", ["ปี", "2567"]),
        ("ພາສາລາວ", ["ພາ", "າສ", "ສາ", "າລ", "ລາ", "າວ"]),
        ("ភាសាខ្មែរ។", ["ភាសា", "សាខ្មែ", "ខ្មែរ"]),
        ("မြန်မာစာ", ["မြန်", "န်မာ", "မာစာ"]),
        ("e\u3099か", ["e", "か"]),
        ("ﾞか", ["か"]),
        ("हिन्दी भाषा, २०२४।", ["हिन्दी", "भाषा", "2024"]),
        ("தமிழ்_x மொழி 漢字", ["தமிழ்_x", "மொழி", "漢字"]),
        ("বাংলা nai\u0308ve", ["বাংলা", "naïve"]),
        ("བོད་སྐད།", ["བོད", "སྐད"]),
        (" \u093f\u200d क", ["क"]),
        ("ɔ\u0301 v\u20d7", ["ɔ\u0301", "v"]),
        ("ЁЖ Ёлка", ["ёж", "ёлка"]),
        ("𞤢𞥄𞤣", ["𞤢𞥄𞤣"]),  # Adlam
        ("col·legi coŀlegi", ["col", "legi", "col", "legi"]),
        ("1½ ⑴ ⒈", ["1", "1", "2", "1", "1"]),
        ("ــ \u064b ﹰ", []),
        ("ﷺ", ["صلي", "الله", "عليه", "وسلم"]),
        ("in\u200bput", ["in", "put"]),
        ("C++, C# and g++: a+b, #tag", ["c++", "c#", "and", "g++", "a", "b", "tag"]),
        ("libstdc++ notepad++ C+", ["libstdc", "notepad", "c"]),
        ("C++17 – C#9", ["c++", "17", "c#", "9"]),
        ("言語C#と、Ｃ＋＋", ["言語", "c#", "と", "c++"]),
        ("\ud800a \udfff", ["a"]),
    ],
)
def test_words(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize("name", WORD_FORMS)
def test_spellings_of_a_word_are_equal(name):
    written, queried = WORD_FORMS[name]
    assert split_words(queried) == split_words(written) != []


@pytest.mark.parametrize("name", DIFFERENT_WORDS)
def test_other_words_are_not_equal(name):
    written, queried = DIFFERENT_WORDS[name]
    assert {*split_words(written)}.isdisjoint(split_words(queried))


@given(TEXTS)
def test_a_word_stays_what_it_is(text):
    words = split_words(text)
    assert all(words)
    assert [split_words(word) for word in words] == [[word] for word in words]


@given(TEXTS)
@example("أ\u200c\u0345\u0651\u0308")  # a non-joiner between marks
def test_equivalent_texts_have_the_same_words(text):
    words = split_words(text)
    assert split_words(unicodedata.normalize("NFD", text)) == words
    assert split_words(unicodedata.normalize("NFC", text)) == words


@given(TEXTS, st.sampled_from(["z", "ż", "ζ", "ز", "字", "z\u0304", "c++", "½"]))
@example("ſ#", "字")
def test_other_words_of_a_text_change_nothing(text, other):
    """The paths of plain and of special texts give the same words."""
    assert split_words(f"{text} {other}") == [*split_words(text), *split_words(other)]


@given(st.text(st.sampled_from("a_1 éßﬁΆςйשāक漢字か한กខ\u200b\ufe0f。-"), max_size=12))
def test_case_makes_no_difference(text):
    assert split_words(text.upper()) == split_words(text) == split_words(text.casefold())


def test_every_character_is_a_word_or_none():
    for code in (*range(0x3400), *range(0xA000, 0xAC10), *range(0xF900, 0x20010)):
        if unicodedata.category(chr(code)) not in {"Cn", "Co"}:
            words = split_words(f"a {chr(code)} a")[1:-1]
            assert all(words), hex(code)
            assert [split_words(word) for word in words] == [[word] for word in words], hex(code)


def test_many_marks_on_a_letter_take_linear_time():
    # Normalizing 400,000 marks in alternating order would take minutes.
    for unit in ("\u0301\u0316", "\u0e38\u0e48", "\u0301\u0316" * 15 + "\u3164"):
        assert len(split_words(f"e{unit * (400_000 // len(unit))} end")) <= 4
    assert split_words("e" + "\u0301" * 5000) == ["é" + "\u0301" * 29]
    assert split_words("㎏" * 600) == ["kg"] * 600


def test_remembered_words_have_a_bound(monkeypatch):
    monkeypatch.setattr(words_module, "_REMEMBERED_WORDS", 50)
    splitter = words_module._Splitter()
    for number in range(200):
        assert splitter.split(f"ά{number} {'ά' * 60}") == [f"α{number}", "α" * 60]
    assert len(splitter._forms) <= 50
    assert max(map(len, splitter._forms)) < 60


def test_threads_share_the_remembered_words(monkeypatch):
    monkeypatch.setattr(words_module, "_REMEMBERED_WORDS", 5)
    texts = [" ".join(f"ά{number + shift}" for number in range(9)) for shift in range(40)]
    expected = [[word.replace("ά", "α") for word in text.split()] for text in texts]
    found = []

    def split_all():
        found.extend([split_words(text) for text in texts] == expected for _ in range(20))

    threads = [threading.Thread(target=split_all) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [True] * 160
