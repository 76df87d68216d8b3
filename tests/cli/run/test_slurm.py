"""What becomes of each option of sbatch?"""

import contextlib
import shlex

import pytest

from pykueue.cli.run.slurm import FLAGS, SHORT, SlurmError, translated


def read(line: str) -> tuple[str, list[str]]:
    found = list(translated(shlex.split(line)))
    return shlex.join(word for one in found for word in one.words), [one.warning for one in found if one.warning]


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("--job-name=train", "--name-prefix train"),
        ("-J train -t 10", "--name-prefix train --time 10"),
        ("-Jtrain", "--name-prefix train"),
        ("--array=0-99%4", "--array 0-99%4"),
        ("--time 1-00", "--time 1-00"),
        ("-c 4", "--cpu 4"),
        ("--cpus-per-task=4", "--cpu 4"),
        ("--mem=4000", "--memory 4000Mi"),
        ("--mem=16G", "--memory 16Gi"),
        ("--mem-per-cpu=2g", "--memory-per-cpu 2Gi"),
        ("--gres=gpu:2", "--gpu 2"),
        ("--gres=gpu", "--gpu 1"),
        ("--gpus=4", "--gpu 4"),
        ("-G 1", "--gpu 1"),
        ("--dependency=afterok:a:b,afterany:c", "--after-ok a --after-ok b --after c"),
        ("--begin=16:00", "--begin 16:00"),
        ("--output=result.txt", "--output result.txt"),
        ("-p gpu -q high", "--queue gpu --priority high"),
        ("--export=SEED,MODE=fast", "--env SEED --env MODE=fast"),
        ("--export=NONE", ""),
        ("--export=ALL,MODE=fast", "--env-all --env MODE=fast"),
        ("-o %A_%a.out", "--output %A_%a.out"),
        ("--no-requeue", "--no-requeue"),
        ("--nodes=1 --ntasks=1 -N1 -n 1 --requeue --parsable", ""),
    ],
)
def test_an_option_that_has_an_equal_is_translated(line: str, ours: str) -> None:
    assert read(line) == (ours, [])


@pytest.mark.parametrize(
    ("line", "ours", "says"),
    [
        ("--mail-type=END", "", "--mail-type is ignored: mail is not sent"),
        ("-A lab", "", "--account is ignored: choose a queue instead"),
        ("-o %N.out", "", "--output=%N.out is ignored: %N has no equivalent"),
        ("-e err.txt", "", "--error is ignored"),
        ("--gres=gpu:a100:2", "--gpu 2", "the GPU type a100 is ignored"),
        ("--gpus=a100:2", "--gpu 2", "the GPU type a100 is ignored"),
        ("--priority=100", "", "--priority is ignored: choose a class with --priority"),
    ],
)
def test_an_option_that_changes_nothing_is_left_out_with_a_word(line: str, ours: str, says: str) -> None:
    words, warnings = read(line)
    assert words == ours
    assert len(warnings) == 1
    assert warnings[0].startswith(says)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--nodes=4", "--nodes=4 has no equivalent: a job is one process; use --array"),
        ("-n 16", "--ntasks=16 has no equivalent"),
        ("--exclusive", "--exclusive has no equivalent; request all cores"),
        ("--chdir=/data", "--chdir has no equivalent; use cd in the script"),
        ("--dependency=singleton", "--dependency=singleton has no equivalent"),
        ("--dependency=after:a", "--dependency=after:a has no equivalent; use afterany:JOB or afterok:JOB"),
        ("--gres=license:1", "--gres=license:1 has no equivalent"),
        ("--mem=0", "'0' is not a valid amount of memory"),
        ("--het-group=1", "--het-group has no equivalent; remove the line"),
        ("-Z 1", "-Z is not an option of sbatch"),
        ("--time", "--time requires a value"),
        ("train.py", "'train.py' is not an option"),
    ],
)
def test_an_option_that_would_change_the_job_is_refused(line: str, says: str) -> None:
    with pytest.raises(SlurmError, match=says):
        read(line)


@pytest.mark.parametrize("name", sorted({*SHORT.values(), *FLAGS}))
def test_every_option_of_sbatch_gets_an_answer(name: str) -> None:
    with contextlib.suppress(SlurmError):
        read(f"--{name}" if name in FLAGS else f"--{name}=1")
