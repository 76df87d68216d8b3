"""Does `pykueue simulate` answer every input with a story or a clear mistake, and never with a traceback?"""

import gc
import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from pykueue.cli.main import cli
from pykueue.sim.world import World
from tests.reports.samples import foreign
from tests.sim.builders import FLAVOR, configuration, job, queue

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "examples" / "demo"


def simulate(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["simulate", *arguments], input=stdin)


def on_stdin(*manifests: str, options: tuple[str, ...] = ()) -> Result:
    return simulate("-", *options, stdin=FLAVOR + "".join(manifests))


def test_the_demo_shows_borrowing_a_preemption_and_a_requeue() -> None:
    found = simulate("--timeline", *map(str, sorted(DEMO.glob("*.yaml"))))
    assert found.exit_code == 0
    for words in ("some of it borrowed from its cohort", "preempted", "takes back quota", "requeues", "Not finished:"):
        assert words in " ".join(found.output.split())
    assert max(map(len, found.output.splitlines())) <= 100
    assert "\x1b" not in found.output


def test_a_folder_stands_for_its_manifests() -> None:
    assert simulate(str(DEMO)).output == simulate(*map(str, sorted(DEMO.glob("*.yaml")))).output


def test_the_same_input_and_seed_give_the_same_output() -> None:
    first = simulate(str(DEMO), "--seed", "3", "-o", "json")
    assert first.output == simulate(str(DEMO), "--seed", "3", "-o", "json").output


def test_json_is_one_object() -> None:
    tree = msgspec.json.decode(simulate(str(DEMO), "-o", "json").output)
    assert tree["schema"] == "pykueue.io/simulation/v1"
    assert {"preempted", "requeues", "deactivated"} <= {event["what"] for event in tree["events"]}


def test_explain_says_what_would_help() -> None:
    words = "helps: it can start when work using 1 cpu of flavor default"
    manifests = (queue(cpu=1), job("a", run_seconds=5), job("b", run_seconds=5))
    assert words in on_stdin(*manifests, options=("--explain",)).output
    assert words not in on_stdin(*manifests).output


FINISHED = {
    "namespace": "default",
    "name": "old",
    "uid": "1",
    "state": "COMPLETED",
    "queue": "main",
    "requests": {"cpu": "1"},
    "started": "2026-01-01T00:00:00Z",
    "ended": "2026-01-01T00:05:00Z",
    "ranSeconds": 300,
}


def test_jobs_run_as_long_as_finished_ones_like_them(tmp_path: Path) -> None:
    file = tmp_path / "finished.json"
    file.write_bytes(msgspec.json.encode({"items": [FINISHED]}))
    manifests = (queue(cpu=1), job("a"), job("b", run_seconds=5))
    found = on_stdin(*manifests, options=("--run-times", str(file)))
    assert "After 0:05:05" in found.output
    words = " ".join(found.output.split())
    assert "taken to run for the median of its LocalQueue with the same requests, of jobs that succeeded" in words
    assert "After 0:01:05" in on_stdin(*manifests).output


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"requests": {"cpu": "2"}}, "the median of its LocalQueue, of jobs that succeeded"),
        ({"queue": "other"}, "the median of all queues, of jobs that succeeded"),
        ({"state": "FAILED"}, "taken to run for 60 s"),
    ],
)
def test_a_note_says_what_the_median_is_of(changed: dict[str, object], words: str, tmp_path: Path) -> None:
    file = tmp_path / "finished.json"
    file.write_bytes(msgspec.json.encode({"items": [{**FINISHED, **changed}]}))
    found = on_stdin(queue(cpu=1), job("a"), options=("--run-times", str(file)))
    assert words in " ".join(found.output.split())


@pytest.mark.parametrize("text", ['{"items": [{"ended": 3}]}', '{"foo": 1}', "[]", "nonsense"])
def test_what_is_no_list_of_finished_jobs_is_a_mistake(text: str, tmp_path: Path) -> None:
    file = tmp_path / "finished.json"
    file.write_text(text)
    found = on_stdin(queue(), options=("--run-times", str(file)))
    assert found.exit_code == 2
    assert "is not a list of finished jobs" in found.output
    assert "pykueue jobs --finished -o json" in found.output


def test_the_timeline_is_shown_when_asked_for() -> None:
    manifests = (queue(cpu=1), job("a", run_seconds=5))
    assert "arrives" not in on_stdin(*manifests).output
    assert "0:00:00  a  arrives" in on_stdin(*manifests, options=("--timeline",)).output


def test_jobs_are_listed_and_the_longest_waits_first() -> None:
    manifests = (queue(cpu=1), job("a", run_seconds=5), job("b", run_seconds=7), job("c", run_seconds=9))
    table = on_stdin(*manifests, options=("--jobs",)).output
    assert [line.split()[0] for line in table.splitlines() if line.startswith("default/")] == [
        "default/a",
        "default/b",
        "default/c",
    ]
    assert on_stdin(*manifests, options=("--longest", "2", "-o", "csv")).output.splitlines() == [
        "JOB,CLUSTERQUEUE,ARRIVED,STARTED,FINISHED,WAITED,EVICTIONS",
        "default/c,main,0:00:00,0:00:12,0:00:21,0:00:12,0",
        "default/b,main,0:00:00,0:00:05,0:00:12,0:00:05,0",
    ]
    summary = on_stdin(*manifests).output
    assert "main            0:00:05  0:00:05  0:00:12  0:00:12  0:00:12  0:00:12" in summary
    assert "default/c" not in summary


def test_a_field_can_be_set() -> None:
    manifests = (queue(cpu=1), job("a", run_seconds=5), job("b", run_seconds=5))
    found = on_stdin(*manifests, options=("--set", "clusterqueue/main.cpu=2", "-o", "json"))
    assert [one["waited_seconds"] for one in msgspec.json.decode(found.output)["summary"]["jobs"]] == [0, 0]
    for wrong, says in (("cq/main.cpus=2", "did you mean cpu?"), ("cq/main.cpu=x", "nominalQuota"), ("x", "no value")):
        found = on_stdin(*manifests, options=("--set", wrong))
        assert (found.exit_code, says in found.stderr) == (2, True), found.stderr


def test_until_and_start() -> None:
    found = on_stdin(
        queue(),
        job("a", run_seconds=5, arrival="2h"),
        options=("--until", "1h", "--start", "2030-05-01T00:00:00Z", "-o", "json"),
    )
    tree = msgspec.json.decode(found.output)
    assert (tree["start"], tree["summary"]["end"]) == ("2030-05-01T00:00:00Z", "2030-05-01T01:00:00Z")
    assert tree["events"] == []


def test_a_configuration_can_be_named(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(configuration("waitForPodsReady: {timeout: 9s, requeuingStrategy: {backoffLimitCount: 0}}\n"))
    found = on_stdin(queue(), job("a", ready_seconds="never"), options=("--config", str(config), "--timeline"))
    assert "0:00:09  a  deactivated" in found.output


def test_notes_are_shown() -> None:
    assert "Note: no pykueue.io/run-seconds on default/a; taken to run for 60 s" in on_stdin(queue(), job("a")).output


def test_control_characters_do_not_reach_the_terminal() -> None:
    found = simulate("-", stdin=FLAVOR + 'spec: {"a\\e[31mb": 1}\n')
    assert "\x1b" not in found.output
    assert "spec.a\\x1b[31mb: unknown field" in found.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "holds no object", id="empty file"),
        pytest.param(bytes(range(256)) * 8, "is not UTF-8", id="binary file"),
        pytest.param(b"a: [1,\nb: {\n", "not YAML", id="broken YAML"),
        pytest.param(b"a: &a [x]\nb: [*c]\n", "c", id="alias of nothing"),
        pytest.param(queue(cpu=-3).encode(), "must be greater than or equal to 0", id="negative quota"),
        pytest.param(queue().replace("[cpu]", "7").encode(), "must be of type array", id="wrong type"),
        pytest.param(FLAVOR.replace("default", "x" * 300).encode(), "no more than 253 bytes", id="300 characters"),
        pytest.param(job("a", run_seconds="-1").encode(), "write seconds", id="negative run"),
    ],
)
def test_bad_input_is_refused_in_words(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    found = simulate(str(file))
    assert found.exit_code == 2
    assert found.stdout == ""
    assert says in found.stderr
    assert str(file) in found.stderr
    assert found.stderr.endswith("nothing was simulated\n")
    assert isinstance(found.exception, SystemExit)


def test_every_mistake_of_every_file_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(queue(cpu=-3))
    (tmp_path / "b.yaml").write_text("hello")
    found = simulate(str(tmp_path), str(tmp_path / "missing.yaml"), "--feature-gates", "Nonsense=true")
    assert found.exit_code == 2
    for words in ("a.yaml: document 1", "b.yaml: document 1", "missing.yaml: cannot be read: No such file", "Nonsense"):
        assert words in found.stderr
    assert "Error: 4 errors in the input; nothing was simulated" in found.stderr


def test_mistakes_are_in_the_order_of_the_files_and_documents(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.yaml").write_text(job("a", arrival="soon"))
    first, last = tmp_path / "z.yaml", tmp_path / "b.yaml"
    first.write_text(job("one", arrival="soon") + "---\n3\n" + job("two", cpu=-1))
    last.write_text("---\n3\n" + job("three", arival="soon"))
    gone = tmp_path / "gone.yaml"
    found = simulate(str(first), str(folder), str(gone), str(last))
    wheres = [line.split(": ")[0] for line in found.stderr.splitlines()[:-1]]
    assert wheres == sorted(wheres, key=[str(first), str(folder / "a.yaml"), str(gone), str(last)].index)
    assert len(set(wheres)) == 4
    numbers = [
        int(line.split(": document ")[1].split(":")[0])
        for line in found.stderr.splitlines()[:-1]
        if " document " in line
    ]
    assert numbers == [1, 2, 3, 1, 1, 2], found.stderr


def test_very_many_mistakes_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("---\nhello\n" * 300)
    found = simulate(str(tmp_path))
    assert len(found.stderr.splitlines()) == 202
    assert "and 100 more" in found.stderr


def test_an_empty_folder_is_a_mistake(tmp_path: Path) -> None:
    assert "the directory contains no manifests" in simulate(str(tmp_path)).stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param([], "Missing argument", id="no file"),
        pytest.param(["-", "--until", "soon"], "is not a duration; write it as in", id="odd until"),
        pytest.param(["-", "--until", "-1h"], "is negative", id="negative until"),
        pytest.param(["-", "--start", "today"], "is not a timestamp; use RFC 3339", id="odd start"),
        pytest.param(["-", "--start", "9999-01-01T00:00:00Z"], "is out of range", id="the end of time"),
        pytest.param(["-", "--seed", "-1"], "--seed", id="negative seed"),
        pytest.param(["-", "-o", "xml"], "'xml' is not one of", id="odd output"),
        pytest.param(["a\0b"], "cannot be read", id="no file name at all"),
    ],
)
def test_bad_usage_is_refused_in_words(arguments: list[str], says: str) -> None:
    found = simulate(*arguments, stdin="")
    assert found.exit_code == 2
    assert says in found.stderr


def test_too_many_rounds_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykueue.sim.world.ROUNDS_BASE", -(10**6))
    found = on_stdin(queue(), job("a"))
    assert found.exit_code == 1
    assert "Error: it did not settle" in found.stderr


def test_ctrl_c_ends_it_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(world: World, until: object = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(World, "run", interrupted)
    found = on_stdin(queue(), job("a"))
    assert (found.exit_code, found.stderr) == (130, "")


def process(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "pykueue", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    # More than a pipe holds, so that writing goes on after the reader has gone.
    (tmp_path / "a.yaml").write_text(FLAVOR + queue(cpu=400) + "".join(job(f"j{index}") for index in range(400)))
    with process("simulate", str(tmp_path)) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == ""


def test_the_module_is_the_command(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("{")
    with process("simulate", str(tmp_path)) as running:
        output, errors = running.communicate(timeout=60)
    assert (running.returncode, output) == (2, "")
    assert "not YAML" in errors
    assert "Traceback" not in errors


TWO = (queue("red", 2), queue("blue", 2), job("a", 2, "red", run_seconds=60), job("b", 2, "red", run_seconds=60))


def test_a_plot_is_written_besides_the_tables_and_is_private(tmp_path: Path) -> None:
    for file in (tmp_path / "plot.html", tmp_path / "plot.svg"):
        done = on_stdin(*TWO, options=("--plot", str(file)))
        assert (done.exit_code, "ClusterQueue" in done.output) == (0, True)
        assert "default/b" in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_two_configurations_are_compared(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(queue("red", 4) + queue("blue", 0))
    done = on_stdin(*TWO, options=("--compare", str(other), "--plot", str(tmp_path / "plot.html")))
    assert done.exit_code == 0, done.output
    assert "Wait, longest 60 s 0 s -60 s (-100 %)" in " ".join(done.output.split())
    assert foreign((tmp_path / "plot.html").read_text()) == []
    tree = msgspec.json.decode(on_stdin(*TWO, options=("--compare", str(other), "-o", "json")).stdout)
    assert [one["summary"]["seconds"] for one in (tree, tree["compared"])] == [120, 60]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--compare", "missing.yaml"), "missing.yaml"),
        (("--compare", "missing.yaml", "-o", "csv"), "--compare cannot be combined with -o csv"),
        (("--plot", "plot.png"), "--plot: 'plot.png' has no known format; name a file that ends with .html or .svg"),
        (("--plot", "html"), "--plot: 'html' has no known format"),
    ],
)
def test_plots_that_cannot_be(options: tuple[str, ...], says: str) -> None:
    done = on_stdin(*TWO, options=options)
    assert done.exit_code == 2
    assert says in done.output


@pytest.mark.parametrize("manifest", [pytest.param(job("a"), id="valid"), pytest.param("a: 1", id="invalid")])
def test_garbage_is_collected_as_usual_afterwards(manifest: str) -> None:
    usual = gc.get_threshold()
    on_stdin(queue(), manifest)
    assert gc.get_threshold() == usual
