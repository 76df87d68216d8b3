"""Which file is a script with options, and how do they join those of the command line?"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pykueue.cli.run.scripts import META, ScriptCommand, is_missing, read_script, script_at, unrunnable


@click.command(cls=ScriptCommand, context_settings={"allow_interspersed_args": False})
@click.option("-c", "--cpu", "--cpus", "cpu", default="1")
@click.option("--memory")
@click.option("--memory-per-cpu")
@click.option("--gpu", "--gpus", "gpu", type=click.IntRange(min=0), default=0)
@click.option("--time")
@click.option("--timeout")
@click.option("--env", multiple=True)
@click.option("--after", multiple=True)
@click.option("--after-ok", multiple=True)
@click.option("--name")
@click.option("--name-prefix")
@click.option("--detach", is_flag=True)
@click.argument("command", nargs=-1, required=True)
@click.pass_context
def submit(ctx: click.Context, /, **options: Any) -> None:
    script = ctx.meta.get(META)
    ctx.obj.update({key: value for key, value in options.items() if value}, script=script)


Submit = Callable[..., dict[str, Any]]


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    monkeypatch.chdir(tmp_path)

    def run(content: str, *args: str) -> dict[str, Any]:
        Path("job.sh").write_text(content)
        found: dict[str, Any] = {}
        done = CliRunner().invoke(submit, [*args], obj=found)
        return {**found, "code": done.exit_code, "says": done.output}

    return run


HEAD = "#!/bin/bash -l\n# A comment.\n\n"


def test_options_of_the_file_are_those_of_the_command_line(submitted: Submit) -> None:
    content = (
        f"{HEAD}#PYKUEUE --cpus 4 --env A=1 # as always\n#PYKUEUE --env 'B=x y' --detach\necho\n#PYKUEUE --cpu 9\n"
    )
    found = submitted(content, "job.sh", "--cpu", "2")
    assert (found["cpu"], found["env"], found["detach"]) == ("4", ("A=1", "B=x y"), True)
    assert found["command"] == ("job.sh", "--cpu", "2")
    assert found["script"].command(found["command"]) == (
        "/bin/bash",
        "-l",
        str(Path("job.sh").absolute()),
        "--cpu",
        "2",
    )


def test_the_command_line_wins(submitted: Submit) -> None:
    content = f"{HEAD}#PYKUEUE -c 4 --gpu 2 --time 10 --env A=1 --env B=1 --after-ok x --name n\n"
    words = ["--cpu", "1", "--timeout", "2h", "--env", "B=2", "--after", "y", "--name-prefix", "p", "--", "./job.sh"]
    found = submitted(content, *words)
    assert (found["cpu"], found["gpu"], found["timeout"], found["after"]) == ("1", 2, "2h", ("y",))
    assert found["env"] == ("A=1", "B=1", "B=2")
    assert found["name_prefix"] == "p"
    assert not {"time", "after_ok", "name"} & set(found)


def test_our_lines_win_over_slurms(submitted: Submit) -> None:
    found = submitted(f"{HEAD}#PYKUEUE --cpu 2\n#SBATCH --cpus-per-task=8 --mem=4G -J x --mail-user=me\n", "job.sh")
    assert (found["cpu"], found["memory"], found["name_prefix"]) == ("2", "4Gi", "x")
    assert found["script"].slurm
    assert "job.sh:5: #SBATCH: --mail-user is ignored: mail is not sent" in found["says"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param("#PYKUEUE --cpuz 1", "job.sh:4: #PYKUEUE: No such option '--cpuz'", id="an unknown option"),
        pytest.param("#PYKUEUE --cpu", "job.sh:4: #PYKUEUE: Option '--cpu' requires an argument", id="no value"),
        pytest.param("#PYKUEUE train.py", "job.sh:4: #PYKUEUE: 'train.py' is not an option", id="no option"),
        pytest.param("#PYKUEUE --env 'x", "job.sh:4: #PYKUEUE: No closing quotation", id="an open quotation"),
        pytest.param("#SBATCH --nodes=2", "job.sh:4: #SBATCH: --nodes=2 has no equivalent", id="no equivalent"),
        pytest.param("#PYKUEUE --gpu x", "'x' is not a valid integer", id="a wrong value"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(submitted: Submit, line: str, says: str) -> None:
    found = submitted(f"{HEAD}{line}\n", "job.sh")
    assert found["code"] == 2
    assert says in found["says"].replace(":  ", ": ")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("#PYKUEUE --cpu 2\n", id="no interpreter"),
        pytest.param("#!/bin/sh\necho\n#PYKUEUE --cpu 2\n", id="below a command"),
        pytest.param("#!/bin/sh\n##SBATCH --nodes=2\n# PYKUEUE --cpu 2\n#SBATCHES\n", id="commented out"),
        pytest.param("", id="empty"),
        pytest.param("#!\n#PYKUEUE --cpu 2\n", id="an empty interpreter"),
    ],
)
def test_other_files_have_no_options(content: str) -> None:
    assert read_script("job.sh", content) is None


def test_what_is_no_readable_file_is_a_command(tmp_path: Path) -> None:
    assert script_at("true") is None
    assert script_at(str(tmp_path)) is None
    assert script_at("\0") is None
    (tmp_path / "binary").write_bytes(b"\x7fELF" + bytes(range(256)))
    assert script_at(str(tmp_path / "binary")) is None


def test_a_file_that_does_not_run_as_a_command_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, head, mode in (
        ("plain.sh", "echo", 0o644),
        ("made.sh", "#!/bin/sh", 0o644),
        ("good.sh", "#!/bin/sh", 0o755),
    ):
        Path(name).write_text(f"{head}\n")
        Path(name).chmod(mode)
    assert unrunnable("plain.sh").startswith("plain.sh has no #! line; if it does not start, name its interpreter")
    assert unrunnable("./made.sh").startswith("./made.sh is not executable; run `chmod +x ./made.sh`, or name its")
    assert unrunnable("good.sh") == "good.sh is not in PATH; if you mean the file in this directory, write ./good.sh"
    assert unrunnable("./good.sh") == unrunnable("nothing.sh") == unrunnable("sh") == ""


def test_a_command_that_does_not_exist_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert [is_missing(one, str(tmp_path)) for one in ("tool", "./tool", "nosuch", "./nosuch")] == [
        False,
        False,
        True,
        True,
    ]
    assert is_missing("tool", "/nowhere")
