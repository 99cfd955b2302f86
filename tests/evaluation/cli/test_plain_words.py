"""What commands print says what to do in plain words; terms and papers are for docs."""

import ast
import re
from pathlib import Path

import secondpass_evaluation

ROOT = Path(secondpass_evaluation.__file__).parent
TERMS = re.compile(
    r"[Ee]xchangeable|[Cc]onformal|prediction-powered|\bet al\b|\b(Holm|Cohen|Student|Bonferroni"
    r"|Wilks|Vovk|Fisher|Smirnov|UMBRELA)\b|\b(ICLR|SIGIR|CIKM|arXiv)\b"
)


def printed(path):
    """The string constants of a module, without docstrings."""
    tree = ast.parse(path.read_text())
    nodes = [*ast.walk(tree)]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


def test_no_message_has_the_terms_of_a_paper():
    found = {
        (path.name, match[0])
        for path in ROOT.rglob("*.py")
        for text in printed(path)
        for match in TERMS.finditer(text)
    }
    found |= {
        (path.name, match[0])
        for path in ROOT.rglob("*.j2")
        for match in TERMS.finditer(path.read_text())
    }
    assert not found
