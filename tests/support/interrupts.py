"""Exceptions where CPython runs signal handlers: at any of these places, one after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any


class Interrupt(KeyboardInterrupt):
    """What a signal handler raises."""


class Interrupting:
    """Raises an Interrupt within a with block, at the place of this number, from 0.

    CPython runs the handlers of signals, in the main thread, after most calls, when a function
    begins, and when a loop goes on. All functions count whose file is accepted, whoever wrote them.

    Attributes:
        raised: whether there were as many places.
        left: number of places before it.
    """

    def __init__(self, place: int, accepts: Callable[[str], bool] = lambda _file: True) -> None:
        self.left = place
        self._accepts = accepts
        self._before: Any = None
        self.raised = False

    def __enter__(self) -> Interrupting:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> bool:
        sys.settrace(self._before)
        return isinstance(error, Interrupt)

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        code = frame.f_code
        if event == "call":
            if code.co_filename == __file__ or not self._accepts(code.co_filename):
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
        elif event == "opcode" and frame.f_lasti in _places(code):
            self.left -= 1
            if self.left < 0:
                self.raised = True
                raise Interrupt
        return self._trace


@cache
def _places(code: CodeType) -> frozenset[int]:
    """The offsets of instructions before which a handler may have run.

    An exception of the handler counts as one of the instruction before. So that it is handled in
    the same way here, instructions at which a block ends are left out, such as the exit of a with.
    """
    bytecode = dis.Bytecode(code)

    def handler(offset: int) -> int | None:
        inside = (
            entry for entry in bytecode.exception_entries if entry.start <= offset < entry.end
        )
        return next((entry.target for entry in inside), None)

    places = set()
    before: dis.Instruction | None = None
    for instruction in bytecode:
        if before is not None and before.opname.startswith(("CALL", "RESUME")):
            places.add((before.offset, instruction.offset))
        if "JUMP_BACKWARD" in instruction.opname and "NO_INTERRUPT" not in instruction.opname:
            places.add((instruction.offset, instruction.argval))
        before = instruction
    return frozenset(place for at, place in places if handler(at) == handler(place))
