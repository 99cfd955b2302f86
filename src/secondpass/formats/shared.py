"""Files of requests, rankings, queries, documents and runs, for the other packages."""

from secondpass.formats import to_json
from secondpass.formats.errors import FormatError, check_numbers
from secondpass.formats.files import (
    atomic_write,
    find_file,
    flush_file,
    flush_folder,
    lock,
    open_input,
    open_locked,
    uncompressed_name,
)
from secondpass.formats.lines import (
    INTEGER,
    AnyPath,
    Line,
    check_field,
    decode_line,
    finite_float,
    read_json_lines,
    read_lines,
    write_lines,
)
from secondpass.formats.pairs import read_pairs
from secondpass.formats.reading import (
    parse_document,
    parse_run_line,
    read_queries,
    single_precision,
    trec_order,
)
from secondpass.formats.requests import (
    InputRequest,
    UnknownKeys,
    parse_request,
    ranking_record,
    request_line,
)
from secondpass.formats.totals import count, summary, tokens_and_cost
from secondpass.formats.trec_requests import CorpusFile, read_run_requests
