"""Exceptions: their tree, their messages, and that they can be pickled."""

import pickle
import re

import pytest

from secondpass import Reranker, errors
from secondpass.errors import ConfigurationError, LLMError, Problem
from secondpass.formats.errors import FormatError
from secondpass.ranking.result import RerankError


def test_exceptions_form_the_tree_that_is_drawn():
    drawn = re.findall(r"(\w+Error)\b", errors.__doc__ or "")
    defined = {**vars(errors), "RerankError": RerankError}
    for name in drawn:
        if name not in {"ImportError", "RuntimeError", "ValueError"}:
            assert issubclass(defined[name], errors.SecondPassError)
    for name, cls in vars(errors).items():
        if isinstance(cls, type) and issubclass(cls, Exception):
            assert name in drawn


def test_exceptions_pass_between_processes():
    ranking = Reranker("lexical").rerank("q", ["a"])
    for error in (
        errors.ConfigurationError([errors.Problem(("a", 0), "wrong")], "about"),
        errors.ConfigurationError("wrong"),
        errors.NotSerializableError("wrong"),
        errors.InputError("wrong"),
        errors.MissingExtraError("embedded", "it"),
        errors.MethodError("wrong", "code"),
        errors.ModelLoadError("wrong"),
        RerankError(ranking),
        FormatError("file", 3, "wrong"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
        assert getattr(again, "code", None) == getattr(error, "code", None)


def test_flags_pass_between_processes():
    error = LLMError("busy", "server_error", retryable=True, retry_after=2.0, sent=False)
    for again in (pickle.loads(pickle.dumps(error)), error.with_message("busy")):
        assert vars(again) == vars(error)
    assert str(error.with_message("other")) == "other"


@pytest.mark.parametrize(
    ("path", "text"),
    [((), "wrong"), (("a",), "a: wrong"), (("a", 0, "b"), "a[0].b: wrong"), ((0,), "[0]: wrong")],
)
def test_the_path_of_a_problem(path, text):
    assert str(Problem(path, "wrong")) == text


def test_a_problem_of_an_inner_setting():
    assert str(Problem(("b",), "wrong").under(("a", 2))) == "a[2].b: wrong"


@pytest.mark.parametrize(
    ("problems", "about", "text"),
    [
        ("wrong", "", "wrong"),
        ("wrong", "config.yaml", "config.yaml: wrong"),
        ([Problem(("a",), "x"), Problem((), "y")], "c", "c: 2 problems\n  a: x\n  y"),
        ("\ud800", "", "\\ud800"),
    ],
)
def test_messages_of_configuration_errors(problems, about, text):
    assert str(ConfigurationError(problems, about)) == text


def test_who_has_no_checkout_reads_the_packages_of_an_extra(monkeypatch):
    requires = ["a>=1", "b<2,>=1; extra == 'openai'", 'c==3; extra == "openai"', "d; extra == 'x'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: requires)
    install = 'From a checkout of secondpass: pip install -e ".[{extra}]"'
    monkeypatch.setattr(errors.MissingExtraError, "_INSTALL", install)
    message = str(errors.MissingExtraError("openai", "it"))
    assert message.endswith(' (or, without a checkout: pip install "b<2,>=1" "c==3")')
    monkeypatch.setattr(errors.MissingExtraError, "_INSTALL", 'Run: pip install "p[{extra}]"')
    assert str(errors.MissingExtraError("openai", "it")).endswith('pip install "p[openai]"')
