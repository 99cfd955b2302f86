"""The answer of a reply, apart from the thinking before it, in every notation that is known."""

import time

import pytest

from reply_cases import (
    FROM_1,
    HIDDEN,
    ORDER,
    SEVERAL,
    THINKING,
    VALUES,
    G,
    O,
    check,
    order_of,
    scores_of,
)
from reply_marks import MARKS
from secondpass.errors import ReplyError
from secondpass.prompts.labels import Labels
from secondpass.prompts.replies.permutation import read_ranked
from secondpass.prompts.replies.thinking import MAX_LENGTH, answer_start, split_reply
from secondpass.questions import Completion

DRAFT = '{"k4t": 1, "b2c": 1, "z9x": 1}'

PARTS = {
    # the reply, its answer, its doubtful part, whether the answer follows thinking
    "no thinking": ("yes", "yes", "", False),
    "thinking": ("<think>no</think> yes", " yes", "", True),
    "empty thinking": ("<think>\n\n</think>\n\nyes", "\n\nyes", "", False),
    "nothing behind it": ("<think>no</think>", "", "", True),
    "an attribute": ('<thinking depth="2">no</thinking>yes', "yes", "", True),
    "white space before it": ("\ufeff\n <think>no</think>yes", "yes", "", True),
    "two blocks": ("<think>a</think>\n<think>b</think>yes", "yes", "", True),
    "another notation within": ("<think>[THINK]a[/THINK] no</think>yes", "yes", "", True),
    "a start mark within": ("<think>a <think> b</think>yes", "yes", "", True),
    "an end mark behind the answer": ("<think>no</think>yes</think>", "yes\n", "", True),
    "nested": ("<think>a<think>b</think>no</think>yes", "yes", "\nno", True),
    "nested, and an end mark behind the answer": (
        "<think>a<think>b</think>no</think>yes</think>",
        "yes\n",
        "\nno",
        True,
    ),
    "nested twice": ("<think><think><think>a</think>b</think>c</think>yes", "yes", "b\nc", True),
    "no start mark": ("no</think> yes", " yes", "no", True),
    "no start mark, twice": ("a</think>b</think>yes", "yes", "a\nb", True),
    "an end mark first": ("</think> yes", " yes", "", False),
    "text before": ("Well. <think>no</think>yes", "Well. \nyes", "no", True),
    "no end mark, behind the answer": ("yes <think>no", "yes ", "no", True),
    "quoted marks": ('{"a": "<think>"} </think>', "", '{"a": "<think>"} ', True),
    "a mark behind JSON": ('{"a": 1}</think>yes', "yes", '{"a": 1}', True),
    "a mark in JSON": ('Yes: ["<think>", "</think>"].', 'Yes: ["<think>", "</think>"].', "", False),
    # github.com/openai/harmony, docs/format.md
    "harmony": (
        '<|channel|>analysis<|message|>User asks: "What is 2 + 2?" Simple.<|end|>\n'
        "<|start|>assistant<|channel|>final<|message|>2 + 2 = 4.<|return|>",
        "2 + 2 = 4.\n",
        "",
        True,
    ),
    "harmony with a tool": (
        "<|start|>assistant<|channel|>analysis<|message|>a<|end|><|start|>assistant"
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>yes",
        "\nyes",
        "",
        True,
    ),
    # github.com/openai/harmony, issue 56
    "harmony that names JSON": (
        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final "
        "<|constrain|>json<|message|>{}",
        "{}",
        "",
        True,
    ),
    # ollama/ollama, issue 11691
    "harmony without an end": (
        "<|channel|>analysis<|message|>a\n<|start|>assistant<|channel|>final<|message|>yes",
        "yes",
        "",
        True,
    ),
    # sgl-project/sglang, issue 31019
    "harmony without a channel": ("<|channel|>analysis<|message|>a<|end|>yes", "yes", "", True),
    "harmony without special tokens": (
        "analysisWe need to.assistantcommentaryHm.assistantfinalyes",
        "yes",
        "",
        True,
    ),
    "harmony without special tokens and start": ("We need to.assistantfinalyes", "yes",
                                                 "We need to.", True),
    "two final channels": ("analysisWe assistantfinalno assistantfinalyes", "yes", "no ", True),
    "a word that is no channel": ("analysis of both: yes", "analysis of both: yes", "", False),
    "Gemma": ("<|channel>thought\nno<channel|>yes", "yes", "", True),
    "Cohere": (
        "<|START_THINKING|>no<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>",
        "yes\n",
        "",
        True,
    ),
    "Granite": (
        "Here is my thought process:\nno\n\nHere is my response:\nyes",
        "\nyes",
        "",
        True,
    ),
    "R1 Zero": ("<think> no </think> <answer> yes </answer>", " yes \n", "", True),
    "an answer alone": ("Let me see: <answer>yes</answer>", "yes\n", "Let me see: ", True),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "answer", "doubtful", "follows"), PARTS.values(), ids=PARTS)
def test_parts(reply, answer, doubtful, follows):
    parts = split_reply(reply)
    assert (parts.answer.strip(), parts.doubtful.strip()) == (answer.strip(), doubtful.strip())
    assert parts.follows_thinking is follows
    start = answer_start(reply)
    assert reply[start:].strip().startswith(answer.strip().partition("\n")[0])


UNFINISHED = [
    "<think>no",
    "<think>a</think><think>no",
    "<|channel|>analysis<|message|>no",
    "analysisWe need no",
    "analysis\u7528\u6237\u60f3",
    "[THINK]no",
    "Here's my thought process: no",
]


@pytest.mark.parametrize("reply", UNFINISHED)
def test_thinking_without_an_end(reply):
    with pytest.raises(ReplyError, match="ends in the middle of thinking"):
        split_reply(reply)
    assert answer_start(reply) == 0


WORD = "Well"  # some marks need a capital behind them


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize(("start", "end"), MARKS)
def test_every_notation(start, end, cut):
    thought = f"{start}{WORD}: {DRAFT} or {G}?"
    check(lambda: scores_of(f"{thought}{end}{G}", cut=cut), VALUES)
    check(lambda: scores_of(f"\n{thought}{end}\n```json\n{G}\n```\n", cut=cut), VALUES)
    check(lambda: scores_of(thought, cut=cut), THINKING)
    check(lambda: scores_of(f"{start}{WORD}: {DRAFT}", cut=cut), THINKING)
    assert order_of(f"{start}{WORD}: {O[:-4]}{end}{O}") == ORDER
    ranked = f"{start}{WORD}: [1] > [2] > [3].{end}[2] > [1] > [3]"
    assert read_ranked(Completion(ranked), FROM_1).places == (1, 0, 2)


ENDS = sorted({end for _, end in MARKS} - {"<|end|>", "<|call|>", "<|end_message|>"})


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("rest", [G, "", "So?"])
def test_every_end_without_a_start(end, rest):
    check(lambda: scores_of(f"Hm.{end}{G}"), VALUES)
    check(lambda: scores_of(f"{G}, or?{end}{G}"), VALUES)
    # The draft may be the answer, in front of a quoted mark.
    check(lambda: scores_of(f"{DRAFT}, or?{end}{rest}"), HIDDEN)
    with pytest.raises(ReplyError, match="another answer"):
        read_ranked(Completion(f"[1] > [2]{end}[2] > [1]"), FROM_1)
    with pytest.raises(ReplyError, match="another answer"):
        read_ranked(Completion(f'[1] > [2]{end}{{"ranking": [2, 1]}}'), FROM_1)


DRAFTS = {
    "behind the answer": (f"{G}\n<think>Or {DRAFT}?</think>", HIDDEN),
    "behind the answer, open": (f"{G}\n<think>Or {DRAFT}?", HIDDEN),
    "behind the answer, the same": (f"{G}\n<think>So {G}.</think>", VALUES),
    "behind other text": (f"Sure. <think>Or {DRAFT}?</think>{G}", HIDDEN),
    "alone, behind other text": (f"Sure. <think>Or {DRAFT}?</think>", HIDDEN),
    "broken, before a mark": (f"{{k4t is 1, b2c}} they say </think>{G}", "it holds another answer, "
                              "which cannot be read"),
    "between two blocks": (f"<think>a</think>{DRAFT}<think>b</think>{G}", SEVERAL),
    "in a quoted end": (f'<think>It says "</think>{DRAFT}".</think>{G}', SEVERAL),
    "in a quoted final channel": (
        f'analysisIt says "assistantfinal{DRAFT}", so.assistantfinal{G}',
        HIDDEN,
    ),
    "in quoted harmony": (
        '<|channel|>analysis<|message|>It says "<|end|><|start|>assistant<|channel|>final'
        f'<|message|>{DRAFT}".<|end|><|start|>assistant<|channel|>final<|message|>{G}',
        HIDDEN,
    ),
    "in another channel": (
        f"<|channel|>final<|message|>{G}<|end|><|start|>assistant<|channel|>analysis<|message|>"
        f"Or {DRAFT}?",
        HIDDEN,
    ),
    "in the final channel": (f"analysisWe{DRAFT}assistantfinal{DRAFT} {G}", SEVERAL),
    "in an unknown notation": (f"(thinking: {DRAFT}) {G}", SEVERAL),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "expected"), DRAFTS.values(), ids=DRAFTS)
def test_drafts(reply, expected):
    check(lambda: scores_of(reply), expected)


LABELS = Labels(["<think>", "x</think>y", "assistantfinal"], None)


@pytest.mark.parametrize("around", ["{}", "Best first: {}", "```json\n{}\n```", "{} </think>"])
def test_labels_that_look_like_marks(around):
    reply = around.replace("{}", '["assistantfinal", "<think>", "x</think>y"]')
    expected = HIDDEN if around.endswith("</think>") else (2, 0, 1)
    check(lambda: order_of(reply, LABELS), expected)


def test_length():
    assert split_reply("y" * MAX_LENGTH).answer == "y" * MAX_LENGTH
    with pytest.raises(ReplyError, match="too long"):
        split_reply(" " * (MAX_LENGTH + 1))


def test_control_characters_are_spaces():
    assert split_reply("\x00<think>\x0b</think>y\x7fy").answer == "y y"


LASTING = {
    "openings": "<",
    "tags": "<think>",
    "ends": "x</think>",
    "attributes": "<think" + " " * 199,
    "headers": "<|channel|>analysis",
    "blocks": "<think></think>x",
    "values": '{"a":"</think>"}',
    "words": "assistant",
    "white space": " ",
}


@pytest.mark.parametrize("piece", LASTING.values(), ids=LASTING)
def test_linear_time(piece):
    text = piece * (MAX_LENGTH // len(piece))
    started = time.thread_time()
    for read in (split_reply, answer_start):
        try:
            read(text)
        except ReplyError:
            continue
    assert time.thread_time() - started < 5  # a quadratic one takes minutes
