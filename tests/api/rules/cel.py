"""What does a CEL expression come to? As much of the language as our rules use, and as strict as an API server.

A field that is absent is an error, unless `has` asks for it; `||` and `&&` forgive an error on one side when the other
side decides.
"""

import operator
import re
from collections.abc import Callable, Mapping

Scope = Mapping[str, object]
Term = Callable[[Scope], object]

TOKEN = re.compile(r"\s*('[^']*'|\d+|[A-Za-z_]\w*|\|\||&&|[=!<>]=|[-+!<>?:.,()\[\]])")
RANKS = {"?": 1, "||": 2, "&&": 3, "+": 5, "-": 5} | dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 4)
OPERATORS: dict[str, Callable[..., object]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda item, listed: item in listed,
    "+": operator.add,
    "-": operator.sub,
}


class CelError(Exception):
    """An expression that has no value here, or none at all."""


def evaluate(expression: str, **scope: object) -> bool:
    """Whether the expression holds of these objects."""
    parser = Parser(expression)
    found = truth(parser.expression(0)(scope))
    parser.expect("")
    return found


def truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{value!r} is neither true nor false")
    return value


class Parser:
    """One expression, read from the left."""

    def __init__(self, text: str) -> None:
        self.tokens = TOKEN.findall(text)
        if "".join(self.tokens) != re.sub(r"\s+(?=(?:[^']*'[^']*')*[^']*$)", "", text):
            raise CelError(f"cannot read {text!r}")
        self.tokens.append("")

    def take(self) -> str:
        return str(self.tokens.pop(0))

    def expect(self, token: str) -> None:
        if (found := self.take()) != token:
            raise CelError(f"found {found!r} where {token!r} should be")

    def expression(self, rank: int) -> Term:
        left = self.unary()
        while RANKS.get(self.tokens[0], 0) > rank:
            left = self.binary(left, self.take())
        return left

    def binary(self, left: Term, token: str) -> Term:
        if token == "?":
            yes = self.expression(0)
            self.expect(":")
            no = self.expression(0)
            return lambda scope: yes(scope) if truth(left(scope)) else no(scope)
        right = self.expression(RANKS[token])
        if token in ("||", "&&"):
            return lambda scope: either(left, right, scope, decides=token == "||")
        return lambda scope: compare(OPERATORS[token], left(scope), right(scope))

    def unary(self) -> Term:
        if self.tokens[0] != "!":
            return self.selected(self.primary())
        self.take()
        inner = self.unary()
        return lambda scope: not truth(inner(scope))

    def primary(self) -> Term:
        token = self.take()
        if token == "(":
            inner = self.expression(0)
            self.expect(")")
            return inner
        if token == "[":
            parts = self.arguments("]")
            return lambda scope: [part(scope) for part in parts]
        if token.startswith("'"):
            return lambda scope: token[1:-1]
        if token.isdigit():
            return lambda scope: int(token)
        if token == "has":
            return self.presence()
        if token == "size":
            self.expect("(")
            (listed,) = self.arguments(")")
            return lambda scope: size(listed(scope))
        if not token.isidentifier():
            raise CelError(f"found {token!r} where a value should be")
        return lambda scope: scope[token]

    def presence(self) -> Term:
        self.expect("(")
        inside = self.tokens[: self.tokens.index(")")]
        parent = Parser("".join(inside[:-2])).expression(0)
        del self.tokens[: len(inside) + 1]
        return lambda scope: fields(parent(scope)).get(inside[-1]) is not None

    def selected(self, term: Term) -> Term:
        while self.tokens[0] in (".", "["):
            if self.take() == "[":
                (index,) = self.arguments("]")
                term = item(term, index)
                continue
            name = self.take()
            if self.tokens[0] == "(":
                self.take()
                variable = self.take()
                self.expect(",")
                (body,) = self.arguments(")")
                term = quantified(name, term, variable, body)
            else:
                term = field(term, name)
        return term

    def arguments(self, end: str) -> list[Term]:
        parts = []
        while self.tokens[0] != end:
            parts.append(self.expression(0))
            if self.tokens[0] != end:
                self.expect(",")
        self.expect(end)
        return parts


def either(left: Term, right: Term, scope: Scope, *, decides: bool) -> bool:
    failed: CelError | None = None
    for side in (left, right):
        try:
            if truth(side(scope)) is decides:
                return decides
        except CelError as error:
            failed = error
    if failed:
        raise failed
    return not decides


def compare(judge: Callable[..., object], left: object, right: object) -> object:
    try:
        return judge(left, right)
    except TypeError as error:
        raise CelError(str(error)) from error


def fields(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise CelError(f"{value!r} has no fields")
    return value


def size(value: object) -> int:
    if not isinstance(value, list | Mapping | str):
        raise CelError(f"{value!r} has no size")
    return len(value)


def field(term: Term, name: str) -> Term:
    def select(scope: Scope) -> object:
        found = fields(term(scope)).get(name)
        if found is None:
            raise CelError(f"no such key: {name}")
        return found

    return select


def item(term: Term, index: Term) -> Term:
    def select(scope: Scope) -> object:
        listed, at = term(scope), index(scope)
        if not isinstance(listed, list) or not isinstance(at, int) or not 0 <= at < len(listed):
            raise CelError(f"no item {at}")
        return listed[at]

    return select


def quantified(name: str, term: Term, variable: str, body: Term) -> Term:
    ways: dict[str, Callable[[list[bool]], bool]] = {
        "all": all,
        "exists": any,
        "exists_one": lambda found: sum(found) == 1,
    }
    decide = ways[name]

    def judge(scope: Scope) -> object:
        listed = term(scope)
        if not isinstance(listed, list):
            raise CelError(f"{listed!r} is no list")
        return decide([truth(body({**scope, variable: one})) for one in listed])

    return judge
