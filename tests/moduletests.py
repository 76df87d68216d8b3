"""Which tests cover each module of src? `python -m tests.moduletests` lists them, and fails for a module without any.

`tests/` mirrors `src/pykueue/`: the tests of `engine/cycle.py` are `tests/engine/test_cycle.py`. A module without such
a file is covered by the tests that `COVERED_BY` names, or by those that import it.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pykueue.base.struct import Frozen
from tests.storyfile import ROOT

SOURCE: Final = "src/pykueue"

COVERED_BY: Final[Mapping[str, tuple[str, str]]] = {
    "__main__.py": ("tests/cli/commands/test_up.py", "every command is started as `python -m pykueue`"),
    "api/install/crds_older.py": ("tests/api/install/test_crds.py", "the CRDs contain the schemas of v1beta1"),
    "api/query.py": ("tests/api/install/test_manifests.py", "the names in roles and APIServices"),
    "api/install/visibility.py": ("tests/e2e/test_visibility.py", "its manifests, applied to a real API server"),
    "api/rules/flavors.py": ("tests/api/rules/test_table.py", "one case or more per rule"),
    "api/rules/queues.py": ("tests/api/rules/test_table.py", "one case or more per rule"),
    "api/rules/workload.py": ("tests/api/rules/test_table.py", "one case or more per rule"),
    "api/rules/workload_spec.py": ("tests/api/rules/test_table.py", "one case or more per rule"),
    "api/rules/workload_status.py": ("tests/api/rules/test_table.py", "one case or more per rule"),
    "app/queries.py": ("tests/cli/commands/test_eta.py", "every question to a server"),
    "controllers/queries/group.py": ("tests/controllers/queries/test_estimates.py", "who answers"),
    "controllers/queries/owners.py": ("tests/controllers/queries/test_estimates.py", "gated and finished Jobs"),
    "apiserver/storage/pendingwrite.py": ("tests/apiserver/storage/test_store.py", "every write"),
    "apiserver/http/openapiv2.py": ("tests/apiserver/http/test_openapi.py", "the document at /openapi/v2"),
    "apiserver/http/resources.py": ("tests/apiserver/http/test_front.py", "requests on resources"),
    "apiserver/kinds/jobdefaults.py": ("tests/apiserver/kinds/test_validation_jobs.py", "the defaults of Jobs"),
    "apiserver/kinds/lifecycle.py": ("tests/apiserver/verbs", "every create and update"),
    "apiserver/kinds/metadata.py": ("tests/apiserver/verbs", "every create, update and delete"),
    "apiserver/kinds/transitions.py": ("tests/apiserver/verbs", "updates of each kind"),
    "apiserver/schema/descriptions.py": ("tests/apiserver/http/test_openapi.py", "the descriptions of fields"),
    "apiserver/schema/merge.py": ("tests/apiserver/schema/test_apply.py", "every apply"),
    "apiserver/schema/nodes.py": ("tests/apiserver/schema/test_apply.py", "the schemas that an apply follows"),
    "apiserver/schema/typefaults.py": ("tests/apiserver/schema/test_apply.py", "objects of wrong types"),
    "apiserver/storage/past.py": ("tests/apiserver/verbs/test_reading.py", "lists at an earlier version"),
    "apiserver/storage/writer.py": ("tests/apiserver/storage/test_store.py", "every commit"),
    "apiserver/verbs/patching.py": ("tests/apiserver/verbs/test_writing.py", "patches of each media type"),
    "apiserver/verbs/preconditions.py": ("tests/apiserver/verbs/test_writing.py", "writes with preconditions"),
    "apiserver/verbs/writesteps.py": ("tests/apiserver/verbs/test_writing.py", "every write"),
    "apiserver/wire/execquery.py": ("tests/apiserver/http/test_connections.py", "the parameters of connections"),
    "app/admission.py": ("tests/testing/test_door.py", "writes of users on the embedded system"),
    "app/jobboard.py": ("tests/apiserver/http/test_ownapi.py", "every list of jobs that run or wait"),
    "audit/rules/bounds.py": ("tests/audit/rules/test_fairshare.py", "what the manager may have seen otherwise"),
    "audit/rules/look.py": ("tests/audit/rules/test_stuck.py", "what would fit, and what keeps it out"),
    "audit/nodes.py": ("tests/audit/rules/test_conditions.py", "flavors whose nodes exclude the pods"),
    "audit/rules/overdue.py": ("tests/audit/rules/test_losses.py", "what is reported when it is overdue"),
    "audit/rules/recent.py": ("tests/audit/rules/test_preemption.py", "room that the manager did not have"),
    "audit/templates.py": ("tests/audit/test_requests.py", "what pods request"),
    "audit/uptime.py": ("tests/audit/rules/test_losses.py", "deadlines while the manager is down"),
    "bridge/jobtotals.py": ("tests/controllers/test_jobsummaries.py", "what a job uses"),
    "cli/jobs/clusterwatch.py": ("tests/cli/dashboard/test_source.py", "the jobs of a cluster, from list to end"),
    "cli/localserver/pagemount.py": ("tests/cli/localserver/test_dashboard.py", "every request to the page"),
    "cli/queues/reading.py": ("tests/cli/dashboard/test_source.py", "users with and without rights on queues"),
    "cli/dashboard/codes.py": ("tests/cli/commands/test_dashboard.py", "codes of a machine, and a cluster without"),
    "cli/dashboard/edits.py": ("tests/cli/dashboard/test_calls.py", "diffs, and changes that are applied"),
    "cli/dashboard/jobsfeed.py": ("tests/cli/dashboard/test_source.py", "the jobs of a machine and of a cluster"),
    "cli/dashboard/rights.py": ("tests/cli/dashboard/test_calls.py", "what users may do"),
    "cli/dashboard/serving.py": ("tests/cli/commands/test_dashboard.py", "the command, in a process of its own"),
    "cli/dashboard/site.py": ("tests/cli/localserver/test_dashboard.py", "sources that start, are shared and stop"),
    "cli/doctor/facts.py": ("tests/cli/doctor/test_table.py", "every finding about queues and broken rules"),
    "cli/doctor/report.py": ("tests/cli/commands/test_doctor.py", "the output in every format"),
    "cli/doctor/checks/installation.py": ("tests/cli/doctor/test_table.py", "one case or more per check"),
    "cli/doctor/checks/queues.py": ("tests/cli/doctor/test_table.py", "one case or more per check"),
    "cli/doctor/checks/quotas.py": ("tests/cli/doctor/test_table.py", "one case or more per check"),
    "cli/doctor/checks/requests.py": ("tests/cli/doctor/test_table.py", "one case or more per check"),
    "controllers/metrics/conditions.py": ("tests/controllers/metrics/test_metrics.py", "everything that is counted"),
    "cli/explain/journals.py": ("tests/cli/commands/test_history.py", "decisions in journals"),
    "cli/follow/admitted.py": ("tests/cli/follow/test_job.py", "what `run` and `status` say of jobs that hold quota"),
    "cli/queues/whatif.py": ("tests/cli/commands/test_preview.py", "every preview of a dump"),
    "sim/assignments.py": ("tests/sim/test_preview.py", "fields that are set"),
    "cli/commands/attach.py": ("tests/cli/jobs/test_verbs.py", "the command, in a process of its own"),
    "cli/commands/backup.py": ("tests/cli/commands/test_up.py", "both commands, in processes of their own"),
    "cli/commands/cancel.py": ("tests/cli/jobs/test_verbs.py", "the command, in a process of its own"),
    "cli/commands/completion.py": ("tests/cli/test_completion.py", "the script for each shell"),
    "cli/commands/create.py": ("tests/cli/commands/test_list.py", "the verb, on a real server"),
    "cli/commands/delete.py": ("tests/cli/commands/test_list.py", "the verb, on a real server"),
    "cli/commands/hold.py": ("tests/cli/jobs/test_verbs.py", "its commands, in processes of their own"),
    "cli/commands/logs.py": ("tests/cli/jobs/test_verbs.py", "the command, in a process of its own"),
    "cli/commands/passthrough.py": ("tests/cli/kueuectl/test_kubectl.py", "the words that kubectl gets"),
    "cli/commands/status.py": ("tests/cli/commands/test_up.py", "both commands, in processes of their own"),
    "cli/commands/version.py": ("tests/cli/commands/test_list.py", "the command, on a real server"),
    "cli/commands/wait.py": ("tests/cli/jobs/test_verbs.py", "the command, in a process of its own"),
    "cli/flags.py": ("tests/cli/commands/test_config.py", "the option that it defines"),
    "cli/follow/interactive.py": (
        "tests/cli/follow/test_terminal.py",
        "interactive runs, on a terminal",
    ),
    "cli/jobs/listing.py": ("tests/cli/commands/test_jobs.py", "every list, in a process of its own"),
    "cli/jobs/logs.py": ("tests/cli/jobs/test_verbs.py", "`pykueue logs`, in a process of its own"),
    "cli/jobs/waits.py": ("tests/cli/jobs/test_verbs.py", "`pykueue wait`, in a process of its own"),
    "cli/messages.py": ("tests/cli/follow/test_job.py", "every message of `run`"),
    "cli/objects.py": ("tests/cli/commands/test_list.py", "every list of objects"),
    "cli/kueuectl/ownerdeletion.py": ("tests/cli/commands/test_list.py", "Workloads that are deleted with their jobs"),
    "cli/kueuectl/podlist.py": ("tests/cli/commands/test_list.py", "the pods of a job, on a real server"),
    "cli/queues/quotas.py": ("tests/cli/queues/test_usage.py", "every amount of a queue"),
    "cli/localserver/server.py": ("tests/cli/commands/test_up.py", "the server, in a process of its own"),
    "cli/run/submission.py": ("tests/cli/follow/test_job.py", "every Job that `run` submits"),
    "cli/localserver/usersetup.py": ("tests/cli/commands/test_user.py", "`pykueue user add`, in a process of its own"),
    "cli/kueuectl/writes.py": ("tests/cli/commands/test_list.py", "every write, with and without a dry run"),
    "controllers/jobwrites.py": ("tests/controllers/test_jobs.py", "every write of the job controller"),
    "controllers/metrics/gauges.py": ("tests/controllers/metrics/test_metrics.py", "the page of metrics"),
    "controllers/metrics/selfmetrics.py": ("tests/controllers/metrics/test_metrics.py", "the page of metrics"),
    "engine/heads.py": (
        "tests/scenarios/test_stories.py",
        "every story has heads; those that step aside are in queues.yaml",
    ),
    "engine/record/causetree.py": ("tests/test_reasons.py", "answers as the document has them"),
    "engine/eligibility.py": ("tests/scenarios", "stories of taints, selectors and affinity"),
    "engine/flavors.py": ("tests/scenarios", "every story with an admission"),
    "engine/learn.py": ("tests/scenarios", "every fact of a story"),
    "engine/lifecycle.py": ("tests/scenarios", "stories of checks, evictions, timeouts and requeueing"),
    "engine/placement.py": ("tests/scenarios", "every workload of a story"),
    "engine/record/sharetree.py": ("tests/engine/record/test_sharecauses.py", "the sentences of every case"),
    "jobs/admit_batch.py": ("tests/jobs/test_admit.py", "the rules of Jobs"),
    "jobs/admit_topology.py": ("tests/jobs/test_admit.py", "the rules of topology annotations"),
    "jobs/match.py": ("tests/jobs/test_plan.py", "which Workload is a job's"),
    "jobs/workloadsync.py": ("tests/jobs/test_plan.py", "when a Workload follows its job"),
    "kube/client/streams.py": ("tests/cli/follow/test_terminal.py", "interactive runs, in processes of their own"),
    "kube/notices.py": ("tests/kubecontrollers/test_jobcontroller.py", "the notices that become Events"),
    "node/hooks.py": ("tests/node/test_runner.py", "pods with hooks and probes"),
    "node/prepare.py": ("tests/node/test_runner.py", "every container that starts"),
    "node/supervision/command.py": ("tests/node/test_spawn.py", "every command that is started"),
    "node/supervision/console.py": ("tests/node/test_execs.py", "clients that are attached to commands"),
    "testing/plugin.py": ("tests/testing/test_kueue.py", "its fixture and its marker"),
    "testing/pods.py": ("tests/testing/test_kueue.py", "scripted pods"),
}
"""Modules, by path in `SOURCE`, that other tests cover: the tests' file or folder, and how they reach the module.

Measure an entry before you add it: with `coverage run -m pytest PATH`, these tests execute most of the module.
"""


class Cover(Frozen):
    """What covers a module; none of the three if nothing does."""

    module: str
    own: str = ""
    """Its own test file, at the mirrored path."""
    named: str = ""
    """The tests that `COVERED_BY` names, and how."""
    importers: tuple[str, ...] = ()
    """The test files that import it, those of its own package first."""

    def __str__(self) -> str:
        more = f" and {len(self.importers) - 2} more" if len(self.importers) > 2 else ""
        return f"{self.module}: {self.own or self.named or ', '.join(self.importers[:2]) + more}"


def own_test(module: str) -> str:
    """The test file of a module of this path."""
    inner = Path(module).relative_to(SOURCE)
    return str(Path("tests", inner.parent, f"test_{inner.name}"))


def imported(path: Path) -> Iterator[str]:
    """The dotted names that a file imports; of `from a import b` both `a` and `a.b`, which may be a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def covers(root: Path, named: Mapping[str, tuple[str, str]] = COVERED_BY) -> list[Cover]:
    """What covers each module of src, in the order of their paths."""
    importers: dict[str, set[str]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        for name in imported(path):
            importers.setdefault(name, set()).add(str(path.relative_to(root)))
    found = []
    for path in sorted((root / SOURCE).rglob("*.py")):
        if path.name != "__init__.py":
            module = str(path.relative_to(root))
            own = own_test(module)
            dotted = ".".join(path.relative_to(root / "src").with_suffix("").parts)
            near = sorted(importers.get(dotted, ()), key=lambda test: (Path(test).parent != Path(own).parent, test))
            entry = named.get(str(path.relative_to(root / SOURCE)))
            told = "{} ({})".format(*entry) if entry else ""
            found.append(Cover(module, own if (root / own).is_file() else "", told, tuple(near)))
    return found


def broken(root: Path, found: list[Cover], named: Mapping[str, tuple[str, str]] = COVERED_BY) -> Iterator[str]:
    """Modules without tests, and entries of the table that are out of date, as sentences that say what to do."""
    known = {cover.module: cover for cover in found}
    for module, cover in known.items():
        if not (cover.own or cover.named or cover.importers):
            yield f"{module}: has no tests; write {own_test(module)}, or enter in COVERED_BY the tests that cover it"
    for inner, (tests, _) in named.items():
        module = f"{SOURCE}/{inner}"
        if module not in known:
            yield f"COVERED_BY: {module} is no module; take it out"
        elif known[module].own:
            yield f"COVERED_BY: {module} has a test file of its own, {known[module].own}; take it out"
        if not (root / tests).exists():
            yield f"COVERED_BY: {tests}, which is to cover {module}, does not exist; name the tests that do"


def report(found: list[Cover]) -> Iterator[str]:
    """How many modules have a test file of their own, and what covers each of the rest."""
    yield f"modules with a test file of their own: {sum(bool(cover.own) for cover in found)} of {len(found)}"
    for title, chosen in (
        ("modules that other tests cover", [cover for cover in found if not cover.own and cover.named]),
        ("modules that other tests import", [cover for cover in found if not (cover.own or cover.named)]),
    ):
        yield f"{title}: {len(chosen)}"
        yield from (f"  {cover}" for cover in chosen)


def main() -> int:
    """Print the lists and what is broken; the exit code says whether anything is."""
    found = covers(ROOT)
    for line in report(found):
        print(line)
    wrong = list(broken(ROOT, found))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
