"""The examples in the docstrings of public names run, and print what they show."""

import doctest
import importlib
import inspect

import pytest

from secondpass import Ranking, Reranker, fuse

MODULES = ("secondpass", "secondpass_evaluation", "secondpass.extend", "secondpass.llms")
SHOWN = [
    *(Reranker, Reranker.rerank, Reranker.rerank_many, Reranker.from_config, Reranker.from_preset),
    *(Ranking, fuse),
]
"""What a newcomer asks ``help()`` about."""


def documented():
    """The public names and their methods whose docstrings have an example."""
    for name in MODULES:
        module = importlib.import_module(name)
        for attribute in module.__all__:
            value = getattr(module, attribute)
            members = inspect.getmembers(value) if isinstance(value, type) else []
            for place, item in [("", value), *members]:
                if ">>> " in (getattr(item, "__doc__", None) or ""):
                    yield f"{name}.{attribute}.{place}".rstrip("."), item.__doc__


EXAMPLES = dict(documented())


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name):
    names = {"Reranker": Reranker}
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name], names, name, None, 0)
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("item", SHOWN, ids=lambda item: item.__qualname__)
def test_what_a_newcomer_asks_about_has_an_example(item):
    assert ">>> " in item.__doc__
