"""Do the commands in the documents work? They are run word by word, or parsed where a test cannot run them."""

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pykueue.cli.main import COMMANDS, cli
from pykueue.testing.kueue import Kueue
from tests.clidocs import page as cli_page
from tests.documents import INLINE, PAGES, Block, blocks, commands, found, ours, parse, program, run, words_of
from tests.reports.samples import foreign
from tests.storyfile import ROOT

RUN = {
    "README.md": "test_the_readme_works",
    "docs/dashboard.md": "test_the_page_of_the_dashboard_works",
    "docs/doctor.md": "test_the_page_of_the_doctor_works",
    "docs/fairness.md": "test_a_short_guide_works",
    "docs/local.md": "test_the_guide_to_one_machine_works_for_a_user",
    "docs/provisioning.md": "test_the_guide_to_provisioning_shows_every_stage",
    "docs/reports.md": "test_the_guide_to_reports_works",
    "docs/simulate.md": "test_the_guide_to_simulations_works",
    "docs/start/first-job.md": "test_a_short_guide_works",
    "docs/start/from-kueue.md": "test_a_short_guide_works",
    "docs/tasks/job-kinds.md": "test_a_short_guide_works",
    "docs/tasks/priorities.md": "test_a_short_guide_works",
    "docs/tasks/queue-names.md": "test_a_short_guide_works",
    "docs/tasks/quotas.md": "test_a_short_guide_works",
    "docs/tasks/ready-pods.md": "test_a_short_guide_works",
    "docs/tasks/retention.md": "test_a_short_guide_works",
    "docs/tasks/shared-quota.md": "test_a_short_guide_works",
    "docs/whatif.md": "test_the_guide_to_previews_works_and_shows_what_is_printed",
}
"""Pages whose blocks, except those in PARSED, are run in order by the test of this name."""
SHORT_GUIDES = {
    "docs/fairness.md": ("18 of 18 workloads finished", "whose share of the"),
    "docs/start/first-job.md": ("hello", "can never start: asks for 1k cpu"),
    "docs/start/from-kueue.md": ("Nothing found", "3 of 3 workloads finished"),
    "docs/tasks/job-kinds.md": ("all 8 tasks succeeded", "of 40 pods at a time", "within ten minutes"),
    "docs/tasks/priorities.md": ("urgent work", "preempted"),
    "docs/tasks/queue-names.md": ('{"kueue.x-k8s.io/queue-name":"default"}',),
    "docs/tasks/quotas.md": ("clusterqueue.kueue.x-k8s.io/robots condition met",),
    "docs/tasks/ready-pods.md": ("evicted",),
    "docs/tasks/retention.md": ("short", "COMPLETED"),
    "docs/tasks/shared-quota.md": (),
}
"""Guides that need one server or none, with what they print."""
QUICK_GUIDES = (
    "docs/fairness.md",
    "docs/start/from-kueue.md",
    "docs/tasks/ready-pods.md",
    "docs/tasks/shared-quota.md",
)
"""Those that need no server, which `make test` runs, too."""
ON_A_CLUSTER = "docs/install.md"
"""The `sh` blocks of this page are run by tests/e2e/test_install.py."""
PARSED = {
    ("README.md", "make demo"): "tests/cli/commands/test_demo.py runs the demo, and `make test` this test",
    ("README.md", "pykueue manifests"): "needs a cluster",
    ("CONTRIBUTING.md", "git clone"): "needs the repository",
    (
        "docs/local.md",
        'eval "$(pykueue completion bash)"',
    ): "one line for each shell",
    ("docs/local.md", "kubectl --context lab"): "needs a cluster",
    ("docs/install.md", "docker build"): "needs docker and a registry",
    ("docs/install.md", "pykueue manifests --image"): "needs nodes that run the image",
    ("docs/install.md", "kubectl -n kueue-system delete deployment"): "tests/e2e/test_chart.py runs it",
    ("docs/install.md", "kubectl -n kueue-system delete secret"): "tests/e2e/test_chart.py replaces Kueue's chart",
    ("docs/install.md", "kubectl get --raw '/apis/visibility"): "tests/e2e/test_visibility.py asks for both",
    ("docs/install.md", "pykueue manifests | kubectl delete"): "needs a cluster",
    ("docs/metrics.md", "kubectl create clusterrolebinding"): "needs a cluster",
    ("docs/metrics.md", "(printf"): "needs a cluster",
    ("docs/metrics.md", "kubectl -n monitoring create configmap"): "needs a cluster",
    ("docs/provisioning.md", "kubectl apply --server-side -f https:"): "needs a cluster and the internet",
    ("docs/provisioning.md", "kubectl wait --for=condition=Active"): "needs a cluster",
    ("docs/provisioning.md", "kubectl get workload job-train-70ee0"): "needs a cluster",
    ("docs/whatif.md", "pykueue eta train-x7k2p"): "tests/cli/commands/test_eta.py asks such questions",
    ("docs/whatif.md", "pykueue preview -f job.yaml"): "tests/e2e/test_preview.py asks such questions",
    ("docs/whatif.md", "kubectl create --raw"): "tests/e2e/test_preview.py asks the same by `pykueue preview`",
    ("docs/dashboard.md", "pykueue dashboard  #"): "tests/cli/commands/test_dashboard.py opens it",
    ("docs/dashboard.md", "pykueue dashboard --view-only"): "tests/cli/commands/test_dashboard.py opens it",
    ("docs/reasons.md", "kubectl get --raw /apis/query"): "tests/e2e/test_explain.py and tests/cli ask all of it",
    ("docs/doctor.md", "kubectl get clusterqueues,cohorts"): "needs a cluster with Kueue",
    ("docs/faults.md", "python -m pykueue.audit"): "needs a cluster",
    ("docs/faults.md", "make crash"): "takes an hour",
    ("docs/faults.md", "python -m tests.crash.attempts"): "takes half an hour",
    ("docs/faults.md", "python -m tests.crash.embedded"): "takes minutes",
    ("docs/faults.md", "make mutants"): "takes minutes",
    ("docs/start/from-kueue.md", "pykueue manifests --image"): "tests/e2e/test_install.py replaces Kueue",
    ("docs/start/from-kueue.md", "kubectl -n kueue-system"): "tests/e2e/test_chart.py replaces Kueue's chart",
    ("docs/start/from-kueue.md", "pykueue doctor"): "needs a cluster",
    ("deploy/helm/README.md", "helm install"): "tests/e2e/test_chart.py installs the chart",
    ("deploy/helm/README.md", "pykueue manifests --only manager"): "tests/e2e/test_chart.py takes over",
    ("deploy/helm/README.md", "kubectl delete jobs"): "tests/e2e/test_chart.py removes everything",
    ("examples/own-admission-check/README.md", "kubectl annotate workload"): "its run.sh does it",
    (
        "examples/own-admission-check/README.md",
        "kubectl apply -f rbac.yaml",
    ): "needs a cluster",
}
"""Blocks that are not run, by page and how they begin, each with the reason; their commands are parsed."""
LANGUAGES = frozenset({"sh", "console", "bash", "yaml", "python", "text"})
"""`bash` is a script of a reader; the last three have no commands."""
CAPACITY_TOLD = (
    "waiting for admission checks: room: Capacity is not found, CA will try to find it later.",
    "capacity found",
    "Admission check cloud updated state from Pending to Retry with message: Retrying after failure: Attempt 1 fails",
    "on the second try",
    '"kubernetes.io/os":"linux"',
    '"autoscaling.x-k8s.io/provisioning-class-name":"scripted.pykueue.io"',
    'false: The workload is deactivated due to AdmissionCheck in Rejected state: "cloud" (Capacity is revoked,',
    'false: The workload is deactivated due to AdmissionCheck in Rejected state: "cloud" (no capacity within 3 s)',
    "10 of 10 workloads finished",
)
WITH_INLINE = [page for page in PAGES if page != "docs/cli.md" and INLINE.search((ROOT / page).read_text())]
PYKUEUE = """#!/bin/sh
[ "$1" != up ] || { shift; set -- up --cpus 16 --memory 64Gi "$@"; }
exec python -m pykueue "$@"
"""
"""The command on a machine of the size that the pages presuppose; their own options take precedence."""
NVIDIA_SMI = "#!/bin/sh\nprintf '%s\\n' '0, GPU-0, Stand-in, 81920' '1, GPU-1, Stand-in, 81920'\n"
SYSTEMCTL = "#!/bin/sh\n[ $1 != start ] || pykueue up --detach\n"


def only_parsed(block: Block) -> list[tuple[str, str]]:
    """The entries of PARSED for a block."""
    return [key for key in PARSED if key[0] == block.page and block.typed[0].startswith(key[1])]


def run_here(page: str) -> list[Block]:
    """The blocks of a page that are run."""
    return [block for block in commands(page) if not only_parsed(block)]


def invalid(script: str) -> list[str]:
    """What is wrong with the commands in a script: ours, targets of make, and modules of this repository."""
    wrong = []
    for words in ours(script):
        try:
            parse(words)
        except click.UsageError as error:
            wrong.append(f"pykueue {' '.join(words)}: {error.format_message()}")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for words in words_of(script):
        if words[0] == "make" and len(words) > 1 and words[1] not in targets:
            wrong.append(f"make {words[1]}: no such target")
        if words[:2] == ["python", "-m"] and find_spec(words[2]) is None:
            wrong.append(f"python -m {words[2]}: no such module")
    return wrong


def unknown(typed: str) -> list[str]:
    """The commands and options in a phrase that do not exist; arguments may be missing."""
    wrong = []
    for words in ours(typed.replace("pykueue COMMAND", "pykueue")):
        try:
            command, _, rest = found(words if words[:1] != ["--help"] else [])
        except click.UsageError as error:
            wrong.append(f"{typed}: {error.format_message()}")
            continue
        if command.context_settings.get("ignore_unknown_options"):
            continue
        offered = {"--help", *(one for param in command.params for one in (*param.opts, *param.secondary_opts))}
        options = [one for one in rest[: (*rest, "--").index("--")] if one.startswith("-")]
        wrong += [f"{typed}: {one}" for one in options if one.partition("=")[0] not in offered]
    return wrong


def test_every_block_is_run_or_has_a_reason_why_not() -> None:
    shown = [block for page in PAGES for block in commands(page)]
    assert [block.where for block in shown if not block.typed] == [], "commands in `console` blocks follow a prompt"
    assert [test for test in RUN.values() if not callable(globals().get(test))] == []
    left = [block for block in shown if block.page not in RUN and not only_parsed(block)]
    stray = [block.where for block in left if block.page != ON_A_CLUSTER or block.language != "sh"]
    assert stray == [], "run it, or add it to PARSED with the reason"
    used = [key for block in shown for key in only_parsed(block)]
    assert sorted(used) == sorted(PARSED), "each entry of PARSED is for one block"


def test_the_language_of_every_block_is_known() -> None:
    assert [block.where for page in PAGES for block in blocks(page) if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_the_commands_of_a_page_are_valid(page: str) -> None:
    wrong = [f"{block.where}: {one}" for block in commands(page) for typed in block.typed for one in invalid(typed)]
    assert wrong == []


@pytest.mark.parametrize("page", WITH_INLINE)
def test_commands_within_sentences_exist_with_their_options(page: str) -> None:
    assert [one for typed in INLINE.findall((ROOT / page).read_text()) for one in unknown(typed)] == []


def test_every_command_is_explained_on_a_page() -> None:
    text = "\n".join((ROOT / page).read_text() for page in PAGES if page != "docs/cli.md")
    assert [name for name in COMMANDS if f"pykueue {name}" not in text] == []


def test_the_examples_in_help_texts_are_valid() -> None:
    examples = re.findall(r"^  (?:Example|Then, in another terminal):\n((?:    .*\n)+)", cli_page(), re.MULTILINE)
    assert len(examples) > 40
    assert [one for example in examples for one in invalid(re.sub(r"(?m)^    ", "", example))] == []


@pytest.mark.parametrize(
    "typed",
    [
        "pykueue jbos",
        "pykueue jobs --mien",
        "x=1 pykueue cancel a b --force > out",
        'eval "$(pykueue completion tcsh)"',
        "true && kubectl pykueue list nothing",
        "pykueue queue",
        "pykueue up --cpus many",
        "make nothing",
        "python -m tests.nothing",
    ],
)
def test_a_command_that_does_not_exist_is_found(typed: str) -> None:
    assert invalid(f"echo 'fine; pykueue nothing' |\n  cat\n{typed}\n")


def test_a_console_block_has_commands_and_output() -> None:
    block = Block(page="p", line=1, language="console", text="$ one |\n  two\noutput\n$ three\nmore |\nstill\n")
    assert block.typed == ("one |\n  two", "three")


@pytest.mark.parametrize("page", ["README.md", "docs/testing.md"])
def test_the_python_example_passes(page: str, monkeypatch: pytest.MonkeyPatch, kueue: Kueue) -> None:
    monkeypatch.chdir(ROOT / "examples/testing")
    names: dict[str, object] = {}
    exec(next(block.text for block in blocks(page) if block.language == "python"), names)
    test = names["test_the_owner_reclaims_its_quota"]
    assert callable(test)
    test(kueue)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with the programs and files that the pages presuppose."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    for name, text in (("pykueue", PYKUEUE), ("nvidia-smi", NVIDIA_SMI), ("systemctl", SYSTEMCTL)):
        program(tmp_path / "bin", name, text)
    for name in ("pip", "journalctl", "systemd-run", "notify-send"):
        program(tmp_path / "bin", name, "#!/bin/sh\n")
    work = tmp_path / "work"
    for name in ("train.py", "evaluate.py"):
        program(work, name, "print('done')\n")
    program(work, "simulate", "#!/bin/sh\n")
    (work / "Makefile").write_text("report:\n\techo reported\n")
    (work / "examples").symlink_to(ROOT / "examples")
    (work / "cluster").symlink_to(ROOT / "examples/demo")
    for name in ("queues.yaml", "jobs.yaml"):
        (work / name).symlink_to(ROOT / "examples/demo" / name)
    other = (ROOT / "examples/demo/queues.yaml").read_text().replace("nominalQuota: 8", "nominalQuota: 12")
    (work / "other-queues.yaml").write_text(other)
    return tmp_path


def test_the_readme_works(desk: Path) -> None:
    told = run(run_here("README.md"), desk)
    assert "\ndone\n" in told


@pytest.mark.slow("runs everything that the guide shows")
def test_the_guide_to_one_machine_works_for_a_user(desk: Path) -> None:
    (script,) = (block.text for block in blocks("docs/local.md") if block.language == "bash")
    (desk / "work/job.sh").write_text(script)
    told = run([block for block in run_here("docs/local.md") if not block.root], desk)
    expected = ("all 100 tasks succeeded", "\nhello\n", "on a terminal", "\ntrained\n", "job default/sweep cancelled")
    assert [text for text in expected if text not in told] == []


@pytest.mark.slow("starts three servers, one after the other")
def test_the_guide_to_one_machine_works_for_root(desk: Path) -> None:
    (desk / "etc/pykueue").mkdir(parents=True)
    shutil.copy(ROOT / "examples/local/queues.yaml", desk / "etc/pykueue")
    told = run([block for block in run_here("docs/local.md") if block.root], desk, root=True)
    assert "guest" in told


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page in QUICK_GUIDES else pytest.mark.slow("starts a server"))
        for page in SHORT_GUIDES
    ],
)
def test_a_short_guide_works(page: str, desk: Path) -> None:
    told = run(run_here(page), desk)
    assert [text for text in SHORT_GUIDES[page] if text not in told] == []


def test_every_short_guide_is_listed_and_shown() -> None:
    assert set(SHORT_GUIDES) == {page for page, test in RUN.items() if test == test_a_short_guide_works.__name__}


def test_the_page_of_the_dashboard_works(desk: Path) -> None:
    told = run(run_here("docs/dashboard.md"), desk)
    assert "/ui/enter within a minute; it works once:" in told


def test_the_page_of_the_doctor_works(desk: Path) -> None:
    told = run(run_here("docs/doctor.md"), desk)
    assert '"items": []' in told
    assert "Nothing found" in told


def test_the_guide_to_simulations_works(desk: Path) -> None:
    told = run(run_here("docs/simulate.md"), desk)
    assert '"schema":"pykueue.io/simulation/v1"' in told.replace(" ", "")


def test_the_picture_of_a_simulation_is_up_to_date(tmp_path: Path) -> None:
    words = ["simulate", str(ROOT / "examples/demo"), "--plot", str(tmp_path / "new.svg")]
    assert CliRunner().invoke(cli, words).exit_code == 0
    kept = (ROOT / "docs/images/simulation.svg").read_text()
    assert (tmp_path / "new.svg").read_text() == kept, "run `make picture`, or the last command of its recipe"


def test_the_guide_to_reports_works(desk: Path) -> None:
    run(run_here("docs/reports.md"), desk)
    page = (desk / "work/week.html").read_text()
    assert foreign(page) == []
    assert "Use over time" in page
    assert (desk / "work/compared.html").exists()
    assert (desk / "work/report.csv").read_text().startswith("table,queue,")


def test_the_guide_to_previews_works_and_shows_what_is_printed(desk: Path) -> None:
    told = run(run_here("docs/whatif.md"), desk)
    shown = [
        line for block in blocks("docs/whatif.md") if block.language == "console" for line in block.text.splitlines()
    ]
    assert [line for line in shown if line and not line.startswith("$") and line not in told] == []


@pytest.mark.slow("waits for retries and timeouts")
def test_the_guide_to_provisioning_shows_every_stage(desk: Path) -> None:
    told = run(run_here("docs/provisioning.md"), desk)
    assert [text for text in CAPACITY_TOLD if text not in told] == []
