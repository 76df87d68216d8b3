"""Parses and validates the query parameters and DeleteOptions of writes, as kube-apiserver does."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from pykueue.api.core import Tree
from pykueue.api.fields import FieldError, forbidden, invalid, not_supported, required, too_long
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.statuserrors import StatusError, bad_request, quoted
from pykueue.apiserver.wire.statuserrors import invalid as invalid_object
from pykueue.apiserver.wire.writeterms import DeleteOptions, Propagation, Strictness, Terms
from pykueue.kube.port import Resource

MANAGER_MAX: Final = 128
INT64_MAX: Final = 2**63 - 1
NUMBER_MAX: Final = 40
"""Longer numbers are refused unread."""
DIGITS_MAX: Final = 18
WHOLE: Final = re.compile(r"[+-]?[0-9]+")
POLICIES: Final = ("Foreground", "Background", "Orphan", "nil")
STRICTNESS: Final = ("", "Ignore", "Strict", "Warn")
Query = Mapping[str, Sequence[str]]


def first(query: Query, name: str) -> str:
    """The first value of a parameter; empty if absent."""
    given = query.get(name)
    return given[0] if given else ""


def whole(query: Query, name: str) -> int | None:
    """Parse an integer parameter; None if absent, raises `StatusError` if malformed."""
    text = first(query, name)
    if not text:
        return None
    digits = text[1:] if text[0] in "+-" else text
    if not digits.isascii() or not digits.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text[:NUMBER_MAX]}": invalid syntax')
    if len(digits) > NUMBER_MAX or not -INT64_MAX - 1 <= int(text) <= INT64_MAX:
        raise bad_request(f'strconv.ParseInt: parsing "{text[:NUMBER_MAX]}": value out of range')
    return int(text)


def manager_of(given: str, agent: str) -> str:
    """The field manager of a request: the one it names, or else the program in its User-Agent."""
    named = given or agent.partition("/")[0]
    return "".join(letter for letter in named if letter.isprintable())[:MANAGER_MAX] or "unknown"


def write_terms(verb: str, query: Query, who: Identity, agent: str = "") -> Terms:
    """The terms of a write; the verb is `create`, `update`, `patch` or `apply`."""
    manager, validation = first(query, "fieldManager"), first(query, "fieldValidation")
    errors = [*manager_errors(manager, "fieldManager")]
    if verb == "apply" and not manager:
        errors.insert(0, required("fieldManager", "is required for apply patch"))
    elif verb != "apply" and "force" in query and verb == "patch":
        errors.insert(0, forbidden("force", "may not be specified for non-apply patch"))
    errors += dry_run_errors(query.get("dryRun", ()))
    if validation not in STRICTNESS:
        errors.append(not_supported("fieldValidation", validation, STRICTNESS))
    if errors:
        kind = {"create": "CreateOptions", "update": "UpdateOptions"}.get(verb, "PatchOptions")
        raise refused(kind, errors)
    return Terms(
        who=who,
        dry_run=bool(query.get("dryRun")),
        manager=manager_of(manager, agent),
        force=truth(query, "force"),
        validation=cast("Strictness", validation or "Warn"),
    )


def delete_terms(query: Query, body: Tree | None, who: Identity, agent: str = "") -> tuple[DeleteOptions, Terms]:
    """The options of a delete: those in the body, or else those in the query."""
    found: Tree = body if body is not None else delete_query(query)
    dry = found.get("dryRun")
    dry_run = [str(one) for one in dry] if isinstance(dry, list) else []
    policy, orphan, grace = (
        found.get("propagationPolicy"),
        found.get("orphanDependents"),
        found.get("gracePeriodSeconds"),
    )
    errors: list[FieldError] = []
    if policy is not None and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", policy, detail))
    if policy is not None and policy not in POLICIES[:-1]:
        errors.append(not_supported("propagationPolicy", policy, POLICIES))
    errors += dry_run_errors(dry_run)
    if errors:
        raise refused("DeleteOptions", errors)
    held = found.get("preconditions")
    conditions = held if isinstance(held, dict) else {}
    options = DeleteOptions(
        grace=grace if isinstance(grace, int) and not isinstance(grace, bool) else None,
        propagation=cast("Propagation", policy or ""),
        uid=str(conditions.get("uid") or ""),
        version=str(conditions.get("resourceVersion") or ""),
        orphan_dependents=orphan if isinstance(orphan, bool) else None,
    )
    return options, Terms(who=who, dry_run=bool(dry_run), manager=manager_of("", agent))


def delete_query(query: Query) -> Tree:
    """The DeleteOptions in a query."""
    found: Tree = {}
    if "gracePeriodSeconds" in query:
        found["gracePeriodSeconds"] = number(query, "gracePeriodSeconds")
    if "propagationPolicy" in query:
        found["propagationPolicy"] = first(query, "propagationPolicy")
    if "orphanDependents" in query:
        found["orphanDependents"] = truth(query, "orphanDependents")
    if query.get("dryRun"):
        found["dryRun"] = [*query["dryRun"]]
    return found


def number(query: Query, name: str) -> int:
    """Parse an integer parameter; 0 if absent."""
    given = first(query, name)
    if not given:
        return 0
    if not WHOLE.fullmatch(given):
        raise bad_request(f"strconv.ParseInt: parsing {quoted(given)}: invalid syntax")
    if len(given) > DIGITS_MAX:
        raise bad_request(f"strconv.ParseInt: parsing {quoted(given)}: value out of range")
    return int(given)


def truth(query: Query, name: str) -> bool:
    """Whether a boolean parameter is true: anything but `0` and `false`."""
    return name in query and first(query, name).lower() not in ("0", "false")


def manager_errors(manager: str, path: str) -> Iterator[FieldError]:
    """Errors in the name of a field manager."""
    if len(manager.encode(errors="surrogatepass")) > MANAGER_MAX:
        yield too_long(path, MANAGER_MAX)
    for index, letter in enumerate(manager):
        if not letter.isprintable():
            yield invalid(path, manager, f"invalid character U+{ord(letter):04X} (at position {index})")


def dry_run_errors(dry_run: Sequence[str]) -> Iterator[FieldError]:
    """Errors in the stages of a dry run."""
    if any(stage != "All" for stage in dry_run):
        yield not_supported("dryRun", [*dry_run], ("All",))


def refused(kind: str, errors: Sequence[FieldError]) -> StatusError:
    """The error for invalid options."""
    return invalid_object(Resource("meta.k8s.io", "v1", "", kind), "", errors)
