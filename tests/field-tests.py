"""Decides expressions over records: a second evaluation of what Weir's expressions mean, which shares nothing with Weir.

field-tests.py KINDS ROWS EXPRESSIONS: KINDS is a JSON object of the kinds of fields by table and name; ROWS has a JSON object per line
with table, proto, ends (address and port of the initiator, then of the responder) and body (the fields); EXPRESSIONS has an
expression per line. Prints for each expression a line of JSON: the numbers of the rows for which it holds.

Expressions are in full parentheses: `(A) and (B)`, `(A) or (B)`, `not (A)`.
"""

import ipaddress
import json
import re
import sys
from decimal import Decimal

TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[()]|,|!=|<=|>=|=|<|>|~|@[^\s()]+|[^\s(),="'<>~!]+)""")
OPERATORS = {"=", "!=", "<", "<=", ">", ">=", "contains", "begins", "ends", "under", "~", "in"}


class Value:
    """A value in an expression: bytes, and whether its letters are compared as they are."""

    def __init__(self, token, is_pattern=False):
        self.is_exact = token.startswith("'")
        if token[0] in "\"'":
            token = token[1:-1]
            keep = r"\\(['\"])" if is_pattern else r"\\(['\"\\])"
            token = re.sub(keep, r"\1", token)
        self.text = token

    def bytes(self):
        text = self.text.encode()
        return text if self.is_exact else text.lower()

    def fold(self, text):
        return text if self.is_exact else text.lower()


class Parser:
    def __init__(self, text):
        self.tokens = [match.group(1) for match in TOKEN.finditer(text)]
        self.at = 0

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def expression(self):
        left = self.operand()
        while self.peek() in ("and", "or"):
            word = self.next()
            right = self.operand()
            left = (word, left, right)
        return left

    def operand(self):
        if self.peek() == "not":
            self.next()
            return ("not", self.operand())
        if self.peek() == "(":
            self.next()
            inner = self.expression()
            assert self.next() == ")"
            return inner
        word = self.next()
        if word in ("tcp", "udp"):
            return ("proto", {"tcp": 6, "udp": 17}[word])
        if word in ("src", "dst", "net", "host"):
            side = {"src": 0, "dst": 1}.get(word)
            if side is not None:
                self.next()
            return ("net", side, ipaddress.ip_network(self.next(), strict=False))
        if word == "port":
            return ("port", int(self.next()))
        if word in ("flow.client", "flow.server"):
            assert self.next() == "="
            return ("net", ["flow.client", "flow.server"].index(word), ipaddress.ip_network(self.next(), strict=False))
        table, name = word.split(".", 1)
        if self.peek() not in OPERATORS:
            return ("field", table, name, None, None)
        operator = self.next()
        if operator in ("in", "under") and self.peek() == "(":
            self.next()
            values = [Value(self.next())]
            while self.next() == ",":
                values.append(Value(self.next()))
        elif self.peek().startswith("@"):
            lines = open(self.next()[1:], encoding="utf-8").read().split("\n")
            values = [Value(line) for line in lines if line]
        else:
            values = [Value(self.next(), operator == "~")]
        return ("field", table, name, operator, values)


def leaves(value):
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    return [] if value is None else [value]


def text_of(leaf):
    if isinstance(leaf, bool):
        return b"true" if leaf else b"false"
    if isinstance(leaf, float):
        text = format(Decimal(repr(leaf)), "f")
        return (text.rstrip("0").rstrip(".") if "." in text else text).encode()
    return str(leaf).encode()


def address(text):
    """The addresses of a text as a range of numbers of 128 bits."""
    net = ipaddress.ip_network(text, strict=False)
    first, last = int(net.network_address), int(net.broadcast_address)
    mapped = 0xFFFF << 32 if net.version == 4 else 0
    return first | mapped, last | mapped


def ordered(operator, order):
    return {"=": order == 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator]


def compare(operator, kind, leaf, value):
    if kind == "bool":
        return isinstance(leaf, bool) and ordered(operator, int(leaf) - int(value.text == "true"))
    if kind in ("number", "duration", "time"):
        if isinstance(leaf, (bool, str)):
            return False
        # Whole numbers are compared as such: they may have more digits than a float.
        number = int(value.text) if re.fullmatch(r"-?\d+", value.text) else float(value.text)
        return ordered(operator, (leaf > number) - (leaf < number))
    if kind == "address":
        if not isinstance(leaf, str):
            return False
        (found, _), (first, last) = address(leaf), address(value.text)
        return ordered(operator, -1 if found < first else 1 if found > last else 0)
    found, wanted = value.fold(text_of(leaf)), value.bytes()
    return ordered(operator, (found > wanted) - (found < wanted))


def under(leaf, value):
    found, wanted = value.fold(text_of(leaf)), value.bytes()
    found = found[:-1] if found.endswith(b".") else found
    wanted = wanted[1:] if wanted.startswith(b".") else wanted
    wanted = wanted[:-1] if wanted.endswith(b".") else wanted
    return wanted == b"" or found == wanted or found.endswith(b"." + wanted)


def matches(operator, kind, leaf, values):
    value = values[0]
    if operator == "in":
        return any(compare("=", kind, leaf, value) for value in values)
    if operator == "under":
        return any(under(leaf, value) for value in values)
    if operator == "~":
        flags = 0 if value.is_exact else re.IGNORECASE
        return re.search(value.text.encode(), text_of(leaf), flags) is not None
    if operator in ("contains", "begins", "ends"):
        found, wanted = value.fold(text_of(leaf)), value.bytes()
        tests = {"contains": wanted in found, "begins": found.startswith(wanted), "ends": found.endswith(wanted)}
        return tests[operator]
    return compare(operator, kind, leaf, value)


def holds(node, row, kinds):
    match node[0]:
        case "and":
            return holds(node[1], row, kinds) and holds(node[2], row, kinds)
        case "or":
            return holds(node[1], row, kinds) or holds(node[2], row, kinds)
        case "not":
            return not holds(node[1], row, kinds)
        case "proto":
            return row["proto"] == node[1]
        case "net":
            ends = row["ends"] if node[1] is None else [row["ends"][node[1]]]
            return any(ipaddress.ip_address(end[0]) in node[2] for end in ends)
        case "port":
            return row["proto"] in (6, 17, 132) and any(end[1] == node[1] for end in row["ends"])
    _, table, name, operator, values = node
    # A record has no values of another table's fields.
    found = leaves(row["body"].get(name)) if row["table"] == table else []
    if operator is None:
        return bool(found)
    kind = kinds[table][name]
    if operator == "!=":
        return bool(found) and not any(matches("=", kind, leaf, values) for leaf in found)
    return any(matches(operator, kind, leaf, values) for leaf in found)


def main():
    kinds_path, rows_path, expressions_path = sys.argv[1:]
    kinds = json.load(open(kinds_path, encoding="utf-8"))
    rows = [json.loads(line) for line in open(rows_path, encoding="utf-8") if line.strip()]
    for line in open(expressions_path, encoding="utf-8").read().split("\n"):
        if line:
            node = Parser(line).expression()
            print(json.dumps([number for number, row in enumerate(rows) if holds(node, row, kinds)]))


main()
