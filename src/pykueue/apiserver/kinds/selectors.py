"""Parses and evaluates label and field selectors, with the errors of kube-apiserver."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from pykueue.api.core import Tree
from pykueue.api.fields import FieldError, aggregate, invalid
from pykueue.api.labels import label_value, qualified_name
from pykueue.api.trees import mapping, member, text
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.wire.statuserrors import bad_request, quoted
from pykueue.base.struct import Frozen, Wire

TOKENS: Final = re.compile(r"\s*(?:(==|!=|[=!<>(),])|([^\s=!<>(),]+))")
EXPECTED: Final = "in, notin, =, ==, !=, gt, lt"
EVERYWHERE: Final = ("metadata.name", "metadata.namespace")
TERM: Final = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)
COMMA: Final = re.compile(r"((?:[^\\,]|\\.|\\$)*)(?:,|$)", re.DOTALL)
WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
ESCAPES: Final = re.compile(r"\\(.?)|[,=]", re.DOTALL)


class Requirement(Frozen):
    """One condition on a label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet the requirement."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return compares(value, self.operator, self.values[0])


def compares(value: str | None, operator: str, bound: str) -> bool:
    """Whether a label is a number greater, or less, than another."""
    if value is None or not WHOLE.fullmatch(value) or not WHOLE.fullmatch(bound):
        return False
    return int(value) > int(bound) if operator == "gt" else int(value) < int(bound)


class Term(Frozen):
    """One requirement of a field selector: the field equals, or does not equal, a value."""

    field: str
    value: str
    equal: bool = True


class Labelled(Wire):
    """The labels of an object."""

    labels: dict[str, str] = {}
    name: str = ""
    namespace: str = ""


class Named(Wire):
    """The name, namespace and labels of an object."""

    metadata: Labelled = Labelled()


NAMED: Final = msgspec.json.Decoder(Named)
TREE: Final = msgspec.json.Decoder(dict)


class Selection(Frozen):
    """The label and field selectors of a request."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Term, ...] = ()
    storage: str = ""

    def __bool__(self) -> bool:
        return bool(self.labels or self.fields)

    @property
    def name(self) -> str:
        """The name that the selection requires, if any."""
        return next((term.value for term in self.fields if term.field == "metadata.name" and term.equal), "")

    def meets(self, body: bytes) -> bool:
        """Whether a stored object is selected."""
        if not self.labels and not self.fields:
            return True
        if self.labels:
            labels = NAMED.decode(body).metadata.labels
            if not all(one.holds(labels) for one in self.labels):
                return False
        if not self.fields:
            return True
        tree: Tree = TREE.decode(body)
        return all((value_of(self.storage, tree, term.field) == term.value) is term.equal for term in self.fields)


def value_of(storage: str, tree: Tree, field: str) -> str:
    """The value of a selectable field, as a text."""
    special = SPECIAL.get((storage, field))
    if special is not None:
        return special(tree)
    found = member(tree, *field.split("."))
    if isinstance(found, bool):
        return "true" if found else "false"
    return "" if found is None or isinstance(found, dict | list) else str(found)


def flag(*path: str) -> Callable[[Tree], str]:
    """A boolean field, `false` if absent."""
    return lambda tree: "true" if member(tree, *path) is True else "false"


def source_of(tree: Tree) -> str:
    """The component that reported an event."""
    return text(tree, "source", "component") or text(tree, "reportingComponent")


SPECIAL: Final[Mapping[tuple[str, str], Callable[[Tree], str]]] = {
    ("pods", "spec.hostNetwork"): flag("spec", "hostNetwork"),
    ("nodes", "spec.unschedulable"): flag("spec", "unschedulable"),
    ("jobs.batch", "status.successful"): lambda tree: str(mapping(tree, "status").get("succeeded", 0)),
    ("events", "source"): source_of,
}


def selection(served: Served, labels: str = "", fields: str = "") -> Selection:
    """Parse the selectors of a request for a kind."""
    if not labels and not fields:
        return ALL
    return Selection(tuple(requirements(labels)), tuple(terms(served, fields)), served.storage)


ALL: Final = Selection()


def requirements(selector: str) -> Iterator[Requirement]:
    """Parse a label selector."""
    tokens = tokenized(selector)
    found: list[Requirement] = []
    while tokens[0]:
        if tokens[0] in OPENERS:
            raise bad_request(f"found '{tokens[0]}', expected: !, identifier, or 'end of string'")
        try:
            found.append(requirement(tokens))
        except ValueError as error:
            raise bad_request(f"unable to parse requirement: {error}") from None
        last = tokens.pop(0)
        if not last:
            break
        if last != ",":
            raise bad_request(f"found '{last}', expected: ',' or 'end of string'")
        if not tokens[0] or tokens[0] in OPENERS:
            raise bad_request(f"found '{tokens[0]}', expected: identifier after ','")
    return iter(found)


OPENERS: Final = frozenset({"=", "==", "!=", "(", ")", ",", "<", ">"})
SYMBOLS: Final = OPENERS | {"!"}
WORDS: Final = {"=": "in", "==": "in", "in": "in", "!=": "notin", "notin": "notin", ">": "gt", "<": "lt"}


def tokenized(selector: str) -> list[str]:
    """The tokens of a label selector, followed by empty ones."""
    return [match.group(1) or match.group(2) for match in TOKENS.finditer(selector)] + ["", "", ""]


def requirement(tokens: list[str]) -> Requirement:
    """Parse and consume one requirement at the start of the tokens; raises `ValueError` with the reason."""
    key = tokens.pop(0)
    absent = key == "!"
    if absent:
        key = tokens.pop(0)
    if not key or key in SYMBOLS:
        raise ValueError(f"found '{key}', expected: identifier")
    wrong = qualified_name(key)
    if wrong:
        raise ValueError(f"<nil>: {invalid('', key, '; '.join(wrong))}")
    if absent or tokens[0] in ("", ","):
        return Requirement(key, "!" if absent else "exists")
    operator = tokens.pop(0)
    if operator not in WORDS:
        raise ValueError(f"found '{operator}', expected: {EXPECTED}")
    values = listed(tokens) if operator in ("in", "notin") else [exact(tokens)]
    values = sorted(set(values))
    errors = [*value_errors(key, WORDS[operator], values)]
    if errors:
        raise ValueError(aggregate(errors))
    return Requirement(key, WORDS[operator], tuple(values))


def value_errors(key: str, operator: str, values: list[str]) -> Iterator[FieldError]:
    """Errors in the values of a requirement."""
    for index, value in enumerate(values):
        if operator in ("gt", "lt") and not WHOLE.fullmatch(value):
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            yield invalid(f"values[{index}]", value, detail)
        wrong = label_value(value)
        if wrong:
            yield invalid(f"values[{index}][{key}]", value, "; ".join(wrong))


def exact(tokens: list[str]) -> str:
    """Consume one value, which may be empty."""
    if tokens[0] in ("", ","):
        return ""
    value = tokens.pop(0)
    if value in SYMBOLS:
        raise ValueError(f"found '{value}', expected: identifier")
    return value


def listed(tokens: list[str]) -> list[str]:
    """Consume a parenthesized list of values."""
    opened = tokens.pop(0)
    if opened != "(":
        raise ValueError(f"found '{opened}' expected: '('")
    values = [""]
    while True:
        token = tokens.pop(0)
        if token == ")":
            return values
        if token == ",":
            values.append("")
        elif not token or token in SYMBOLS or values[-1]:
            raise ValueError(f"found '{token}', expected: ',' or ')'")
        else:
            values[-1] = token


def terms(served: Served, selector: str) -> Iterator[Term]:
    """Parse a field selector."""
    found = []
    for part in sorted(split(selector)):
        if not part:
            continue
        match = TERM.fullmatch(part)
        if match is None:
            raise bad_request(f"invalid selector: '{selector}'; can't understand '{part}'")
        found.append((match.group(1), match.group(2), unescaped(match.group(3))))
    for field, operator, value in found:
        yield Term(stored_name(served, field), value, operator != "!=")


def split(selector: str) -> list[str]:
    """Split a field selector at commas that are not escaped."""
    parts, start = [], 0
    while start <= len(selector):
        match = COMMA.match(selector, start)
        assert match is not None
        parts.append(match.group(1))
        start = match.end() if match.end() > match.end(1) else len(selector) + 1
    return parts


def unescaped(value: str) -> str:
    """A value of a field selector with its escapes resolved."""

    def bare(match: re.Match[str]) -> str:
        if match.group(1) is None:
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(match.group())}")
        if match.group(1) not in ("\\", ",", "="):
            raise bad_request(f"invalid field selector: invalid escape sequence: {match.group()}")
        return match.group(1)

    return ESCAPES.sub(bare, value) if ESCAPES.search(value) else value


def stored_name(served: Served, field: str) -> str:
    """The path in the stored object of a field in a selector; raises `StatusError` if it is not selectable."""
    if field in EVERYWHERE:
        return field
    if field in served.selectable:
        return served.strategy.stored_field(field)
    if served.selectable or served.custom:
        raise bad_request(served.strategy.unsupported_field(field))
    raise bad_request(f'{quoted(field)} is not a known field selector: only "metadata.name", "metadata.namespace"')
