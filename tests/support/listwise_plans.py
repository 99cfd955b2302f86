"""Plans of listwise, and answers to their questions."""

from fakes import Limited, in_answer, number_of, numbered, play, ranked, shown_in, task_of


def judge(method, texts, reply=ranked, rounds=lambda asked: None):
    limited = Limited(rounds)
    return play(method.judge(task_of(texts, call=limited)), in_answer(reply), limited)


def numbers_of(ask):
    """The passages that a round shows, by their numbers."""
    return [number_of(text) for text in shown_in(ask.questions[0].request).values()]


def ascending(count):
    """The best is at the back: each window carries it on."""
    return numbered(range(count))
