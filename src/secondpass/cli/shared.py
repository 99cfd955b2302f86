"""What the commands of other packages share with the commands of the core."""

from secondpass.cli.console import (
    ERROR,
    USAGE_ERROR,
    check_usage,
    decode_argument,
    escaped,
    excerpt,
    fail,
    info,
    message_console,
    on_terminal,
    one_line,
    print_json,
    print_yaml,
    result_console,
    warn,
    write,
)
from secondpass.cli.dry_run import (
    NOTE,
    TOKENS,
    print_dry_run,
    print_use_table,
    shown_tokens,
    total_record,
    use_record,
)
from secondpass.cli.options import (
    AsJson,
    Batch,
    DryRun,
    Explain,
    Instruction,
    MonitorFolder,
    Order,
    Quiet,
    RankingOptions,
    RerankerOptions,
    RunOptions,
    Set,
    Timings,
    WithText,
    complete_preset,
    configuration,
    grouped,
    load_for,
    monitored,
    overridden,
    parse_order,
    with_depth,
)
from secondpass.cli.progress import progress_bars
from secondpass.cli.rankings import explained, report_unexplained
from secondpass.cli.rerank_input import read_context
from secondpass.cli.tables import FittedTable, plain_table
