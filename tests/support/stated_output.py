"""What the Python blocks of a page say that they print, and what they do print.

Comments behind a statement with a ``print``, and the lines of comments right below it, are its
output. Numbers with decimals may differ by a hundredth, as between processors, and times are not
compared.
"""

import ast
import io
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

TIME = re.compile(r"\d+(?:\.\d+)? (?=m?s\b)")
DECIMAL = re.compile(r"\d+\.\d+")
TOLERANCE = 0.0101  # a hundredth, with the rounding of floats


def run_blocks(blocks: Sequence[str], page: str) -> None:
    """Run the blocks of a page in one module, and compare what they print with their comments."""
    module: dict[str, Any] = {"__name__": "__page__"}
    for block in blocks:
        _run(block, page, module)


def _run(block: str, page: str, module: dict[str, Any]) -> None:
    printed: dict[int, str] = defaultdict(str)

    def record(*values: object, **options: Any) -> None:
        print(*values, **options, file=(text := io.StringIO()))
        sys.stdout.write(text.getvalue())
        printed[sys._getframe(1).f_lineno] += text.getvalue()

    module["print"] = record
    exec(compile(block, page, "exec"), module)
    for lines, expected in stated_outputs(block).items():
        output = "".join(text for line, text in printed.items() if line in lines)
        assert is_same(output.strip(), expected), f"{page}:\n{output}\nnot as stated:\n{expected}"


def stated_outputs(block: str) -> dict[range, str]:
    """The lines of each statement that prints -> the output that comments state for it."""
    lines = block.splitlines()
    outputs = {}
    for statement in ast.parse(block).body:
        if not any(_is_print(node) for node in ast.walk(statement)):
            continue
        last = statement.end_lineno or statement.lineno
        behind = lines[last - 1].encode()[statement.end_col_offset or 0 :].decode().strip()
        below = lines[last:]
        count = next((at for at, line in enumerate(below) if line[:1] != "#"), len(below))
        if comments := [*([behind] if behind else []), *below[:count]]:
            text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in comments)
            outputs[range(statement.lineno, last + 1)] = text
    return outputs


def _is_print(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="print")):
            return True
    return False


def is_same(printed: str, stated: str) -> bool:
    """Whether two outputs are the same, but for times and a hundredth of numbers."""
    first, second = (TIME.sub("T ", text) for text in (printed, stated))
    if DECIMAL.sub("N", first) != DECIMAL.sub("N", second):
        return False
    pairs = zip(DECIMAL.findall(first), DECIMAL.findall(second), strict=True)
    return all(abs(float(one) - float(other)) <= TOLERANCE for one, other in pairs)
