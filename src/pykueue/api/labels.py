"""Validation of names, labels, annotations and selectors, with Kubernetes' messages.

Functions on texts return messages, functions on fields return field errors; an empty tuple means valid. Values of the
wrong JSON type are skipped, since the schema reports them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pykueue.api.fields import FieldError, forbidden, invalid, required, too_long

LABEL_BYTES_MAX: Final = 63
SUBDOMAIN_BYTES_MAX: Final = 253
ANNOTATIONS_BYTES_MAX: Final = 256 * 1024

EMPTY: Final = "must be non-empty"
NAME_FORM: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
VALUE_FORM: Final = f"({NAME_FORM})?"
DNS_LABEL_FORM: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_FORM: Final = rf"{DNS_LABEL_FORM}(\.{DNS_LABEL_FORM})*"
HTTP_PATH_FORM: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

NO_OPERATOR: Final = "not a valid selector operator"
VALUES_NEEDED: Final = "must be specified when `operator` is 'In' or 'NotIn'"
VALUES_UNWELCOME: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
ALPHANUMERIC_ENDS: Final = "and must start and end with an alphanumeric character"
NAME_SAYS: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {ALPHANUMERIC_ENDS}"
VALUE_SAYS: Final = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {ALPHANUMERIC_ENDS}"
)
DNS_LABEL_SAYS: Final = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {ALPHANUMERIC_ENDS}"
)
SUBDOMAIN_SAYS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    f"{ALPHANUMERIC_ENDS}"
)


def size_bytes(text: str) -> int:
    """The length in bytes, as Kubernetes counts it."""
    return len(text.encode(errors="surrogatepass"))


def longer_than(most: int) -> str:
    """Kubernetes' message for a text that is too long."""
    return f"must be no more than {most} bytes"


def ill_formed(says: str, form: str, *examples: str) -> str:
    """Kubernetes' message for a text that does not match a pattern, with its spacing and commas."""
    if not examples:
        return f"{says} (regex used for validation is '{form}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{says} (e.g. {shown}regex used for validation is '{form}')"


PREFIX_SAYS: Final = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
NAME_ILL_FORMED: Final = ill_formed(NAME_SAYS, NAME_FORM, "MyName", "my.name", "123-abc")


def dns_label(text: str) -> tuple[str, ...]:
    """Messages for a text that is not a DNS-1123 label."""
    found = [longer_than(LABEL_BYTES_MAX)] if size_bytes(text) > LABEL_BYTES_MAX else []
    if not re.fullmatch(DNS_LABEL_FORM, text):
        found.append(ill_formed(DNS_LABEL_SAYS, DNS_LABEL_FORM, "my-name", "123-abc"))
    return tuple(found)


def dns_subdomain(text: str) -> tuple[str, ...]:
    """Messages for a text that is not a DNS-1123 subdomain, which the names of most objects must be."""
    found = [longer_than(SUBDOMAIN_BYTES_MAX)] if size_bytes(text) > SUBDOMAIN_BYTES_MAX else []
    if not re.fullmatch(SUBDOMAIN_FORM, text):
        found.append(ill_formed(SUBDOMAIN_SAYS, SUBDOMAIN_FORM, "example.com"))
    return tuple(found)


def qualified_name(text: str) -> tuple[str, ...]:
    """Messages for a text that is not a label key: a name, after an optional DNS subdomain and a slash."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (f"a qualified name {NAME_ILL_FORMED} {PREFIX_SAYS}",)
    found: list[str] = []
    if slash and not prefix:
        found.append(f"prefix part {EMPTY}")
    elif slash:
        found += (f"prefix part {message}" for message in dns_subdomain(prefix))
    if not name:
        found.append(f"name part {EMPTY}")
    elif size_bytes(name) > LABEL_BYTES_MAX:
        found.append(f"name part {longer_than(LABEL_BYTES_MAX)}")
    if not re.fullmatch(NAME_FORM, name):
        found.append(f"name part {NAME_ILL_FORMED}")
    return tuple(found)


def label_value(text: str) -> tuple[str, ...]:
    """Messages for a text that is not a valid label value."""
    found = [longer_than(LABEL_BYTES_MAX)] if size_bytes(text) > LABEL_BYTES_MAX else []
    if not re.fullmatch(VALUE_FORM, text):
        found.append(ill_formed(VALUE_SAYS, VALUE_FORM, "MyValue", "my_value", "12345"))
    return tuple(found)


def texts(value: object) -> Iterator[tuple[str, str]]:
    """The entries of a map of texts, sorted by key, so that errors have a stable order."""
    if isinstance(value, Mapping):
        pairs = [(key, text) for key, text in value.items() if isinstance(key, str) and isinstance(text, str)]
        yield from sorted(pairs)


def label_name_errors(text: str, path: str) -> tuple[FieldError, ...]:
    """Errors in the label key in this field."""
    return tuple(invalid(path, text, message) for message in qualified_name(text))


def labels_errors(labels: object, path: str) -> Iterator[FieldError]:
    """Errors in a map of labels; every error has the path of the map, and shows the key or the value."""
    for key, value in texts(labels):
        yield from label_name_errors(key, path)
        yield from (invalid(path, value, message) for message in label_value(value))


def annotations_errors(annotations: object, path: str) -> Iterator[FieldError]:
    """Errors in a map of annotations: keys may be of either case, and values are not restricted."""
    size = 0
    for key, value in texts(annotations):
        size += size_bytes(key) + size_bytes(value)
        yield from (invalid(path, key, message) for message in qualified_name(key.lower()))
    if size > ANNOTATIONS_BYTES_MAX:
        yield too_long(path, ANNOTATIONS_BYTES_MAX)


def selector_errors(selector: object, path: str) -> Iterator[FieldError]:
    """Errors in a label selector."""
    if not isinstance(selector, Mapping):
        return
    yield from labels_errors(selector.get("matchLabels"), f"{path}.matchLabels")
    expressions = selector.get("matchExpressions")
    for index, requirement in enumerate(expressions if isinstance(expressions, list) else []):
        if isinstance(requirement, Mapping):
            yield from requirement_errors(requirement, f"{path}.matchExpressions[{index}]")


def requirement_errors(requirement: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in one expression of a label selector."""
    listed = requirement.get("values")
    values = listed if isinstance(listed, list) else []
    operator = requirement.get("operator", "")
    match operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", VALUES_NEEDED)
        case "Exists" | "DoesNotExist":
            if values:
                yield forbidden(f"{path}.values", VALUES_UNWELCOME)
        case _:
            yield invalid(f"{path}.operator", operator, NO_OPERATOR)
    key = requirement.get("key", "")
    if isinstance(key, str):
        yield from label_name_errors(key, f"{path}.key")
    for index, value in enumerate(values):
        if isinstance(value, str):
            yield from (invalid(f"{path}.values[{index}]", value, message) for message in label_value(value))


def domain_path_errors(text: str, path: str) -> Iterator[FieldError]:
    """Errors in a domain-prefixed path such as `acme.io/foo`."""
    if not text:
        yield required(path)
        return
    domain, _, rest = text.partition("/")
    if not domain or not rest:
        yield invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    yield from (invalid(path, domain, message) for message in dns_subdomain(domain))
    if not re.fullmatch(HTTP_PATH_FORM, rest):
        yield invalid(path, rest, ill_formed("Invalid path", HTTP_PATH_FORM))
