"""Files of requests, rankings, queries, corpora, runs and judgements, for the other packages."""

from secondpass.formats.compression import find_file, open_input, uncompressed_name
from secondpass.formats.errors import (
    FormatError,
    IndexFaultError,
    MeasureError,
    StaleIndexError,
    check_numbers,
    first_few,
)
from secondpass.formats.files import atomic_write, flush_file, flush_folder, lock, open_locked
from secondpass.formats.json_text import to_json
from secondpass.formats.lines import (
    AnyPath,
    Line,
    check_field,
    decode_line,
    finite_float,
    read_json_lines,
    write_lines,
)
from secondpass.formats.ranking_lines import ranking_record
from secondpass.formats.reading import read_corpus, read_qrels, read_queries, read_run
from secondpass.formats.requests import InputRequest, UnknownKeys, parse_request, request_line
from secondpass.formats.runs import (
    Qrels,
    Run,
    by_judged_id,
    file_of,
    judged_id,
    strictly_falling,
    whole_relevance,
)
from secondpass.formats.totals import count, summary, tokens_and_cost
from secondpass.formats.trec_requests import CorpusFile, read_run_requests

__all__ = [
    "AnyPath",
    "CorpusFile",
    "FormatError",
    "IndexFaultError",
    "InputRequest",
    "Line",
    "MeasureError",
    "Qrels",
    "Run",
    "StaleIndexError",
    "UnknownKeys",
    "atomic_write",
    "by_judged_id",
    "check_field",
    "check_numbers",
    "count",
    "decode_line",
    "file_of",
    "find_file",
    "finite_float",
    "first_few",
    "flush_file",
    "flush_folder",
    "judged_id",
    "lock",
    "open_input",
    "open_locked",
    "parse_request",
    "ranking_record",
    "read_corpus",
    "read_json_lines",
    "read_qrels",
    "read_queries",
    "read_run",
    "read_run_requests",
    "request_line",
    "strictly_falling",
    "summary",
    "to_json",
    "tokens_and_cost",
    "uncompressed_name",
    "whole_relevance",
    "write_lines",
]
