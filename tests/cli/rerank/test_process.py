"""The command as a process."""

import json
import signal
from collections import Counter

from command_requests import LEXICAL, json_lines, process, requests
from secondpass import EngineInfo, Ranking, Report
from secondpass.cli.commands.rerank import _counts, _summary


def test_answers_come_as_requests_do_and_ctrl_c_ends_it():
    with process(*LEXICAL, "--batch", "1") as run:
        for request in requests(3):
            run.stdin.write(json_lines([request]))
            run.stdin.flush()
            assert json.loads(run.stdout.readline())["query_id"] == request["query_id"]
        run.send_signal(signal.SIGINT)
        err = run.stderr.read()
    assert run.returncode == 130
    assert err.decode().strip() == "secondpass: stopped"


def test_closed_output_pipe_is_not_an_error():
    with process(*LEXICAL, "--batch", "1") as run:
        first, second = requests(2)
        run.stdin.write(json_lines([first]))
        run.stdin.flush()
        run.stdout.readline()
        run.stdout.close()
        run.stdin.write(json_lines([second]))
        run.stdin.close()
        assert run.stderr.read() == b""
    assert run.returncode == 0


def test_summary_names_engines():
    counts = Counter({"ok": 2, "issue deadline": 1})
    engine = EngineInfo("model", "openvino", "bfloat16", 2, "any", "fastest")
    ranking = Ranking("q", (), Report("partial", engines=(engine,)))
    counts.update(_counts([ranking, ranking]))
    assert _summary(4, counts, 1.0) == (
        "4 queries in 1.0 s: 2 ok, 2 partial, 0 degraded, 0 unchanged; issues: deadline (1); "
        "engines: model on openvino, bfloat16, threads: 2 (2)"
    )
