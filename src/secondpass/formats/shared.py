"""Files of requests, rankings, queries, corpora, runs and judgements, for the other packages."""

from secondpass.formats import to_json
from secondpass.formats.errors import (
    FormatError,
    IndexFaultError,
    MeasureError,
    StaleIndexError,
    check_numbers,
    first_few,
)
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
    AnyPath,
    Line,
    check_field,
    decode_line,
    finite_float,
    read_json_lines,
    write_lines,
)
from secondpass.formats.reading import (
    Qrels,
    Run,
    by_judged_id,
    file_of,
    judged_id,
    read_corpus,
    read_qrels,
    read_queries,
    read_run,
    strictly_falling,
    whole_relevance,
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
