"""Deprecated import paths lead to the new modules, with a warning."""

import importlib

import pytest

MOVED = {
    "documents": ("read_source", "secondpass.search.documents"),
    "formats": ("read_qrels", "secondpass.formats.reading"),
    "index": ("open_index", "secondpass.search.index"),
    "retrieval": ("HybridRetriever", "secondpass.search.retrieval"),
    "runs": ("strictly_falling", "secondpass.formats.runs"),
    "svg": ("figure", "secondpass.evaluation.report.svg"),
    "writing": ("write_run", "secondpass.formats.writing"),
}


@pytest.mark.parametrize("old", MOVED)
def test_a_name_of_an_old_path_is_the_one_of_the_new(old):
    name, new = MOVED[old]
    module = importlib.import_module(f"secondpass.evaluation.{old}")
    message = rf"^secondpass\.evaluation\.{old}\.{name} is deprecated, use {new}\.{name}$"
    with pytest.warns(DeprecationWarning, match=message):
        value = getattr(module, name)
    assert value is getattr(importlib.import_module(new), name)


def test_the_second_of_two_new_modules_is_searched_too():
    module = importlib.import_module("secondpass.evaluation.formats")
    with pytest.warns(DeprecationWarning, match=r"use secondpass\.formats\.writing\.write_run$"):
        assert module.write_run


@pytest.mark.parametrize("old", MOVED)
def test_other_names_are_missing(old):
    module = importlib.import_module(f"secondpass.evaluation.{old}")
    with pytest.raises(AttributeError, match=rf"'secondpass\.evaluation\.{old}' has no attribute"):
        _ = module.nothing
