"""Where scores are read: what the descriptions name, and the words for it."""

import subprocess
import sys

import pytest

from secondpass.scorers.families.descriptions import COMBINATIONS, Head, Read, Run, Vectors
from secondpass.scorers.torch.readouts import READ_OUTS


def test_each_read_out_of_a_description_has_a_class():
    assert {*READ_OUTS, "own"} == {*COMBINATIONS}


def test_its_module_does_not_import_torch():
    code = "import sys, secondpass.scorers.torch.readouts; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize(
    ("model", "read", "words"),
    [
        ("classifier", Read(label=0), "the logit of label 0"),
        ("causal", Read(logit="yes"), "the logit of 'yes' at the last token"),
        (
            "seq2seq",
            Read(logit="1", minus="0"),
            "the logit of '1' minus the logit of '0' at the first written token",
        ),
        ("encoder", Read(head=Head("a.weight")), "the head a.weight at the first token"),
        (
            "encoder",
            Read(head=Head(["a.weight", "b.weight"], "mean", 3)),
            "the head a.weight, b.weight at the mean token of layer 3",
        ),
        (
            "encoder",
            Read(vectors=Vectors("<q>", "<p>", ["up.weight"])),
            "the cosine of the hidden states at '<q>' and '<p>', through up.weight",
        ),
    ],
)
def test_words(model, read, words):
    assert READ_OUTS[read.place].words(Run(model), read) == words
