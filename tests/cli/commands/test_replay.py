"""A journal, run again, comes out the same; or we say where it does not."""

from pathlib import Path

from click.testing import CliRunner

from pykueue.base.units import Instant
from pykueue.cli.main import cli
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen, Synced
from pykueue.engine.model import Namespace, Workload
from pykueue.engine.record.journal import VERSION, Recorder


def journal(file: Path) -> bytes:
    lines: list[bytes] = []
    recorder = Recorder(Engine(), lines.append)
    recorder.observe(Seen(Namespace("ns")))
    recorder.observe(Seen(Workload("ns/w", "u", "ns/lq", Instant(0))))
    recorder.observe(Synced())
    assert recorder.decide(Instant(1_000_000))
    file.write_bytes(b"".join(lines))
    return b"".join(lines)


def run(*files: Path) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["replay", *map(str, files)])
    return result.exit_code, result.output


def test_the_same_decisions(tmp_path: Path) -> None:
    journal(tmp_path / "j")
    assert run(tmp_path / "j") == (0, f"{tmp_path / 'j'}: all decisions are the same\n")


def test_other_decisions_are_shown(tmp_path: Path) -> None:
    text = journal(tmp_path / "j")
    (tmp_path / "j").write_bytes(text.replace(b'"why":{"type":"QueueMissing"', b'"why":{"type":"QueueInactive"'))
    code, output = run(tmp_path / "j")
    assert code == 1
    assert "line 6" in output
    assert "1 decisions differ" in output


def test_a_last_line_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    text = journal(tmp_path / "j")
    (tmp_path / "j").write_bytes(text + b'{"type":"Obse')
    assert run(tmp_path / "j")[0] == 0


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("hello\n")
    code, output = run(tmp_path / "j")
    assert code == 2
    assert "this is no line of a journal" in output


def test_a_journal_without_a_format_version_is_refused(tmp_path: Path) -> None:
    text = journal(tmp_path / "j")
    (tmp_path / "j").write_bytes(text.split(b"\n", 1)[1])
    assert run(tmp_path / "j") == (
        2,
        f"{tmp_path / 'j'}: line 1: no format version; an older pykueue wrote this journal, or its beginning is "
        "missing; replay it with the pykueue that wrote it, or record a new one with --journal\n",
    )


def test_a_journal_of_another_format_version_is_refused(tmp_path: Path) -> None:
    text = journal(tmp_path / "j")
    (tmp_path / "j").write_bytes(b'{"type":"Journal","version":99}\n' + text)
    assert run(tmp_path / "j") == (
        2,
        f"{tmp_path / 'j'}: line 1: format version 99, and this pykueue reads version {VERSION}; replay it with the "
        "pykueue that wrote it, or record a new one with --journal\n",
    )


def test_journals_one_behind_the_other_replay(tmp_path: Path) -> None:
    text = journal(tmp_path / "j")
    (tmp_path / "j").write_bytes(text + text)
    assert run(tmp_path / "j")[0] == 0
