"""Exceptions: their tree, their messages, and that they can be pickled."""

import pickle
import re


def test_exceptions_form_the_tree_that_is_drawn():
    from secondpass import errors

    drawn = re.findall(r"(\w+Error)\b", errors.__doc__ or "")
    for name in drawn:
        if name not in {"ImportError", "RuntimeError", "ValueError"}:
            assert issubclass(getattr(errors, name), errors.SecondPassError)
    for name, cls in vars(errors).items():
        if isinstance(cls, type) and issubclass(cls, Exception):
            assert name in drawn


def test_exceptions_pass_between_processes():
    from secondpass import Reranker, errors
    from secondpass.evaluation import FormatError, MeasureError

    ranking = Reranker("lexical").rerank("q", ["a"])
    for error in (
        errors.ConfigurationError([errors.Problem(("a", 0), "wrong")], "about"),
        errors.ConfigurationError("wrong"),
        errors.NotSerializableError("wrong"),
        errors.InputError("wrong"),
        errors.MissingExtraError("embedded", "it"),
        errors.MethodError("wrong", "code"),
        errors.ModelLoadError("wrong"),
        errors.RerankError(ranking),
        FormatError("file", 3, "wrong"),
        MeasureError("nDCG", "wrong"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
        assert getattr(again, "code", None) == getattr(error, "code", None)
