"""Loads Zeek's logs with the package zat: zat-loads.py FILE... Exits with 1 if a log cannot be loaded or has other rows."""

import sys
import warnings

warnings.simplefilter("ignore")
from pandas.errors import ParserError
from zat.log_to_dataframe import LogToDataFrame
from zat.zeek_log_reader import ZeekLogReader


def rows_of(path):
    """The number of rows that zat finds."""
    try:
        return len(LogToDataFrame().create_dataframe(path))
    except ParserError:
        # pandas takes a quotation mark at the start of a value for one of CSV, and Zeek writes it as it is.
        return sum(1 for _ in ZeekLogReader(path).readrows())


failures, rows = 0, 0
for path in sys.argv[1:]:
    wanted = sum(1 for line in open(path, encoding="utf-8") if not line.startswith("#"))
    try:
        loaded = rows_of(path)
    except Exception as error:
        loaded = repr(error)
    if loaded != wanted:
        failures += 1
        print(f"{path}: {loaded} of {wanted} rows")
    else:
        rows += loaded
print(f"{len(sys.argv) - 1} logs, {rows} rows, {failures} failures")
sys.exit(1 if failures else 0)
