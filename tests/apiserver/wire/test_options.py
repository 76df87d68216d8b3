"""Tests of the options of calls."""

import pytest

from pykueue.apiserver.wire.options import delete_terms, manager_of, number, write_terms
from pykueue.apiserver.wire.statuserrors import StatusError
from tests.apiserver.desk import ADMIN


@pytest.mark.parametrize(
    ("given", "agent", "manager"),
    [
        ("me", "kubectl/v1.36", "me"),
        ("", "kubectl/v1.36 (linux)", "kubectl"),
        ("", "", "unknown"),
        ("", "x" * 200, "x" * 128),
        ("", "a\x07b/1", "ab"),
    ],
)
def test_a_field_manager_is_named_or_found(given: str, agent: str, manager: str) -> None:
    assert manager_of(given, agent) == manager


@pytest.mark.parametrize(
    ("verb", "query", "message"),
    [
        ("create", {"dryRun": ["Some"]}, 'CreateOptions|dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        (
            "update",
            {"fieldValidation": ["Odd"]},
            'UpdateOptions|fieldValidation: Unsupported value: "Odd": supported values: "", "Ignore", "Strict", "Warn"',
        ),
        ("patch", {"force": ["true"]}, "PatchOptions|force: Forbidden: may not be specified for non-apply patch"),
        ("apply", {}, "PatchOptions|fieldManager: Required value: is required for apply patch"),
        (
            "create",
            {"fieldManager": ["x" * 129]},
            "CreateOptions|fieldManager: Too long: may not be more than 128 bytes",
        ),
    ],
)
def test_options_of_writes_that_make_no_sense_are_refused(verb: str, query: dict[str, list[str]], message: str) -> None:
    with pytest.raises(StatusError) as refused:
        write_terms(verb, query, ADMIN)
    kind, _, mistake = message.partition("|")
    assert refused.value.code == 422
    assert refused.value.message == f'{kind}.meta.k8s.io "" is invalid: {mistake}'


def test_options_of_writes_are_read() -> None:
    terms = write_terms("apply", {"fieldManager": ["me"], "force": ["true"], "dryRun": ["All"]}, ADMIN, "kubectl/1")
    assert (terms.manager, terms.force, terms.dry_run, terms.validation) == ("me", True, True, "Warn")


def test_a_delete_is_told_by_its_body_or_by_its_query() -> None:
    body = {"preconditions": {"uid": "u", "resourceVersion": "7"}, "gracePeriodSeconds": 5, "dryRun": ["All"]}
    options, terms = delete_terms({"gracePeriodSeconds": ["9"]}, body, ADMIN)  # type: ignore[arg-type]  # a table gives it as an object
    assert (options.grace, options.uid, options.version, terms.dry_run) == (5, "u", "7", True)
    options, terms = delete_terms({"gracePeriodSeconds": ["9"], "propagationPolicy": ["Orphan"]}, None, ADMIN)
    assert (options.grace, options.propagation, terms.dry_run) == (9, "Orphan", False)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"propagationPolicy": "Odd"},
            'propagationPolicy: Unsupported value: "Odd": supported values: "Foreground", "Background", "Orphan", '
            '"nil"',
        ),
        (
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
    ],
)
def test_options_of_deletes_that_make_no_sense_are_refused(body: dict[str, object], message: str) -> None:
    with pytest.raises(StatusError) as refused:
        delete_terms({}, body, ADMIN)  # type: ignore[arg-type]  # a table gives it as an object
    assert refused.value.message == f'DeleteOptions.meta.k8s.io "" is invalid: {message}'


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("9" * 30, f'strconv.ParseInt: parsing "{"9" * 30}": value out of range'),
    ],
)
def test_numbers_that_are_none_are_refused(given: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        number({"n": [given]}, "n")
    assert refused.value.message == message
