"""The command as a process."""

import json
import signal

from command_requests import LEXICAL, json_lines, process, requests


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
