# ruff: noqa: RUF001
"""Words in two spellings that must find each other, and words that must not."""

import unicodedata


def decomposed(text):
    return unicodedata.normalize("NFD", text)


WORD_FORMS = {
    # equivalent sequences
    "accent decomposed": (decomposed("café"), "café"),
    "umlaut decomposed": (decomposed("Überfülle"), "überfülle"),
    "Vietnamese decomposed": (decomposed("Việt"), "việt"),
    "Hangul decomposed": (decomposed("한국어"), "한국어"),
    "kana decomposed": (decomposed("ガラス"), "ガラス"),
    "nukta decomposed": ("\u0958लम", "क\u093cलम"),
    "Bengali vowel of two parts": ("ক\u09c7\u09be", "ক\u09cb"),
    "Cyrillic decomposed": (decomposed("Йод"), "йод"),
    "marks in another order": ("e\u0301\u0323gba", "ẹ\u0301gba"),
    "Angstrom sign": ("\u212bngström", "ångström"),
    "tonos and oxia": ("λ\u1f79γος", "λόγος"),
    # invisible characters
    "soft hyphen": ("Donau\u00addampf\u00adschiff", "donaudampfschiff"),
    "mark of direction": ("left\u200eward", "leftward"),
    "mark of direction in Hebrew": ("ספר\u200fים", "ספרים"),
    "embedding and isolate": ("\u202bin\u202cner\u2066most\u2069", "innermost"),
    "word joiner": ("co\u2060operate", "cooperate"),
    "byte order mark": ("\ufeffheading\ufeffs", "headings"),
    "joiner": ("back\u200dward", "backward"),
    "non-joiner": ("Auf\u200clage", "auflage"),
    "joiner in Devanagari": ("क्\u200dषत्रिय", "क्षत्रिय"),
    "grapheme joiner": ("a\u034fside", "aside"),
    "variation selector": ("葛\U000e0100城市", "葛城市"),
    "zero-width space in Thai": ("ภาษา\u200bไทย", "ภาษาไทย"),
    "non-joiner in Persian": ("می\u200cخواهم", "می خواهم"),
    # compatibility forms
    "ligature fi": ("ﬁnance", "finance"),
    "ligature ffl": ("waﬄe", "waffle"),
    "ligature ij": ("ĳsberg", "ijsberg"),
    "full width": ("ＴＯＫＹＯ", "tokyo"),
    "full-width digits": ("２０２４", "2024"),
    "half-width katakana": ("ﾊﾟｽﾜｰﾄﾞ", "パスワード"),
    "Kangxi radical": ("⽇本", "日本"),
    "roman numeral": ("Ⅷ", "viii"),
    "circled number": ("⑰", "17"),
    "subscript": ("CO₂", "co2"),
    "superscript": ("km³", "km3"),
    "letters of formulas": ("𝐯𝐞𝐜𝐭𝐨𝐫", "vector"),
    "trade mark": ("Windows™", "windows"),
    "ordinal": ("1ª", "1a"),
    "square": ("5㎏", "5 kg"),
    "company": ("㈱三菱", "(株)三菱"),
    "fraction": ("2½", "2 1/2"),
    # case
    "sharp s": ("Straße", "STRASSE"),
    "capital sharp s": ("GROẞ", "gross"),
    "long s": ("Waſſer", "wasser"),
    "Turkish dotted capital": ("İzmir", "izmir"),
    "Turkish dotted capital decomposed": ("I\u0307stanbul", "istanbul"),
    "Turkish dotted capital lower-cased": ("İSTİKLAL".lower(), "istiklal"),
    "final sigma": ("ΣΟΦΟΣ", "σοφος"),
    "micro sign": ("\u00b5F", "μf"),
    "Kelvin sign": ("300\u212a", "300k"),
    # Greek, Hebrew, Cyrillic
    "Greek accent": ("Αθήνα", "ΑΘΗΝΑ"),
    "Greek diaeresis": ("προϊόν", "προιον"),
    "ancient Greek": ("Ἰλιάς", "ιλιας"),
    "Greek decomposed": (decomposed("Πάτρα"), "πατρα"),
    "niqqud": ("שָׁלוֹם", "שלום"),
    "cantillation": ("בְּרֵאשִׁ֖ית", "בראשית"),
    "Hebrew presentation form": ("\ufb2aמש", "שמש"),
    "Hebrew ligature": ("\ufb4fהים", "אלהים"),
    "Russian stress": ("за\u0301мок", "замок"),
    # Arabic
    "Arabic presentation forms": ("ﻛﺘﺎﺏ", "كتاب"),
    "Arabic ligature": ("ﻻعب", "لاعب"),
    "Arabic vowels": ("مُحَمَّد", "محمد"),
    "superscript alef": ("هٰذا", "هذا"),
    "tatweel": ("ســـلام", "سلام"),
    "alef with hamza": ("أحمد", "احمد"),
    "alef with madda": ("القرآن", "القران"),
    "Persian yeh": ("علی", "علي"),
    "alef maksura": ("موسى", "موسي"),
    "Persian kaf": ("کریم", "كریم"),
    "teh marbuta": ("مدرسة", "مدرسه"),
    "Urdu heh": ("ہندوستان", "هندوستان"),
    # digits
    "Arabic digits": ("١٩٤٧", "1947"),
    "Persian digits": ("۱۳۵۷", "1357"),
    "Devanagari digits": ("१८५७", "1857"),
    "Thai digits": ("๒๕๖๗", "2567"),
    "digits of formulas": ("𝟒𝟐", "42"),
    # names
    "C++": ("“C++”", "c++"),
    "C++ in full width": ("Ｃ＋＋", "C++"),
    "C# beside kana": ("C#で", "c# で"),
}
"""Name -> the spelling in a passage, and the one in a query."""

DIFFERENT_WORDS = {
    "accent of Latin": ("résumé", "resume"),
    "Swedish letters": ("får", "far"),
    "Spanish letters": ("año", "ano"),
    "dotless i": ("kıl", "kil"),
    "Cyrillic letters": ("мои", "мой"),
    "vowel signs of Devanagari": ("दिन", "दीन"),
    "vowel signs lost": ("हिन्दी", "हन्द"),
    "virama": ("पक्का", "पकका"),
    "tone marks of Thai": ("ข่า", "ข้า"),
    "voicing of kana": ("かき", "がき"),
    "vowels of Lao": ("ກາ", "ກີ"),
    "yeh with hamza": ("ئب", "يب"),
    "waw with hamza": ("سؤل", "سول"),
    "Urdu letters": ("بھر", "بہر"),
    "sign after a word": ("Windows™", "windowstm"),
    "zero-width space": ("in\u200bput", "input"),
    "C++ and C": ("C++", "C"),
    "C# and C": ("C#", "C"),
    "C++ and C#": ("C++", "C#"),
    "mixed number": ("1½", "11"),
}
