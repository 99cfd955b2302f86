"""The bars of the figures of tools/size.py."""

import size


def test_a_listwise_question_passes_few_generators():
    assert size.nested_generators() <= 5
