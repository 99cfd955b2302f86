"""The command as a whole: terminals and pipes, and that no input gives a traceback."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from terminals import on_a_terminal

# Each example is a whole run of the command, so there are fewer of them than usual.
shared_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=settings().max_examples // 8,
)


# ---------------------------------------------------------------------- streams


def test_colour_is_for_terminals_that_want_it(secondpass):
    arguments = ["presets", "lexical"]
    assert "\x1b[" in on_a_terminal(*arguments)
    assert "\x1b[" not in secondpass(*arguments).out
    wrong = ["rerank", "--preset", "nosuch"]
    assert "\x1b[1;31m" in on_a_terminal(*wrong)
    assert "31m" not in on_a_terminal(*wrong, env={"NO_COLOR": "1"})
    assert "\x1b[" not in secondpass(*wrong).err


def test_force_color_makes_no_terminal_of_a_pipe(secondpass, monkeypatch):
    call = ["rerank", "-p", "lexical", "-q", "a"]
    monkeypatch.setenv("FORCE_COLOR", "1")
    told = secondpass(*call, stdin=b'"a"')
    assert json.loads(told.out)["report"]["status"] == "ok"
    assert "1 query in" in told.err
    assert "Reranking" not in told.err


@pytest.mark.parametrize("command", [["presets"], ["rerank", "-q", "a", "--quiet"]])
def test_json_can_be_asked_for_in_a_terminal(tmp_path, command):
    if command[0] == "rerank":
        candidates = tmp_path / "in.jsonl"
        candidates.write_text('"a text"')
        command = [*command, "-p", "lexical", str(candidates)]
    assert json.loads(on_a_terminal(*command, "--json"))


# ---------------------------------------------------------------------- no tracebacks


def is_told(outcome):
    """An end that a person can make something of."""
    assert outcome.code in {0, 1, 2}, outcome.err
    assert "Traceback" not in outcome.err
    assert "internal error" not in outcome.err, outcome.err
    assert (
        outcome.code == 0
        or outcome.err
        or '"runs": false' in outcome.out
        or "cannot run" in outcome.out
    )


words = st.text(st.characters(exclude_characters="/~\0", codec="utf-8"), max_size=8)
options = st.sampled_from(
    "--query -q --run --queries --corpus --preset -p --config --set --top-k --depth --context "
    "--format -f --output -o --resume --force --no-text --timings --tag --batch --strict --quiet "
    "--qrels --compare --measure --limit --mode --behind --baseline --json --into --nosuch "
    "-- - --help".split()
)
values = st.sampled_from("lexical in.jsonl run.trec 1 0 -3 depth=2 depth=x trec nowhere .".split())


@shared_folder
@given(
    st.sampled_from(["rerank", "doctor", "presets", "config", "nosuch", ""]),
    st.lists(st.one_of(options, values, words), max_size=7),
)
@example("rerank", ["--output", "\ud800"])
@example("rerank", ["-o", "a\0b"])
@example("doctor", ["lexical"])
@example("doctor", ["nowhere"])
def test_no_arguments_give_a_traceback(secondpass, write, tmp_path, monkeypatch, command, rest):
    monkeypatch.chdir(tmp_path)
    write("in.jsonl", [{"query": "a", "candidates": ["a", "b"]}])
    write("run.trec", "q1 Q0 d1 1 1 t\n")
    first = ["-p", "lexical"] if command in {"rerank", "doctor"} else []
    is_told(secondpass(command, *first, *rest))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "query_id query candidates id _id text content score metadata title x".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
candidates = st.lists(
    st.one_of(
        st.text(max_size=5),
        json_values,
        st.fixed_dictionaries({"text": st.text(max_size=5)}, optional={"id": st.text(max_size=2)}),
    ),
    max_size=3,
)
lines = st.lists(
    st.one_of(
        json_values.map(json.dumps),
        st.fixed_dictionaries(
            {"query": st.text(max_size=5), "candidates": candidates},
            optional={"query_id": json_values, "context": json_values},
        ).map(json.dumps),
        st.text(max_size=10),
    ),
    max_size=4,
).map(lambda parts: "\n".join(parts).encode("utf-8", "surrogatepass"))


@shared_folder
@given(st.one_of(st.binary(max_size=40), lines), st.sampled_from(["jsonl", "trec", "table"]))
@example(b"[" * 20_000, "jsonl")
@example(b'{"query": "x", "candidates": [' + b"9" * 5000 + b"]}", "jsonl")
@example(b'{"query": "\\ud800", "candidates": ["\\udfff"]}', "trec")
def test_no_input_gives_a_traceback_or_half_an_answer(secondpass, stdin, form):
    for query in ([], ["--query", "a"]):
        told = secondpass("rerank", "-p", "lexical", "-f", form, *query, stdin=stdin)
        is_told(told)
        if form == "jsonl":
            assert all(one["report"]["status"] for one in told.lines())
