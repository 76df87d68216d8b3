import io
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from bench.race import __main__ as program
from bench.race.__main__ import REPEATS, entered, judge, options, plan, race
from bench.race.contenders import (
    FAIR_KUEUE,
    FAIR_OURS,
    KUEUE,
    LIMITS,
    MINE,
    NEW_LIMITS,
    OURS,
    OURS_ON_THEIRS,
    PLAIN_METRICS,
    RIVALS,
    TITLES,
    Built,
    Contender,
    limits,
    patched,
    split,
    without_conversion,
)
from bench.race.managermetrics import DROPPED, DUMP, LOST, Said, last_page, said
from bench.race.page import FAIR_PLACE, FILE, marks, replaced
from bench.race.processes import TICK, read_cores, read_peak, read_stat
from bench.race.requests import Tally, counted, read_page, writes
from bench.race.result import Class, Result, disturbed, middle, ratios, read_classes
from bench.race.scripts import CONFIGURATION, KUEUE_OPTIONS, OUR_OPTIONS, fair, script
from bench.race.shapes import BASELINE, LARGE, QUICK, SHAPES, Shape, Size, cut, size
from bench.race.tables import figures, where_it_goes

CLASSES = {"large": Class(10, 2.0, 3), "small": Class(90, 8.0, 0)}


def result(contender: str = OURS, requests: Mapping[str, float] | None = None, **figures: Any) -> Result:
    usual = Result(
        contender=contender,
        shape="quick",
        date="2026-01-31",
        wall=10.0,
        manager=2.0,
        apiserver=8.0,
        etcd=1.0,
        runner=1.0,
        others=0.5,
        memory=50 * 2**20,
        workloads=100,
        unfinished=0,
        dropped=0,
        classes=CLASSES,
        requests=requests or {"POST workloads": 100},
        slowness=(1.0,),
        stolen=(0.0,),
    )
    return msgspec.structs.replace(usual, **figures)


def load(cohorts: int, queues: int, *counts: int) -> dict[str, Any]:
    sets = [{"count": count, "creationIntervalMs": 5, "workloads": [{"className": "small"}]} for count in counts]
    return {"cohorts": [{"count": cohorts, "queuesSets": [{"count": queues, "workloadsSets": sets}]}]}


def test_a_load_has_as_many_workloads_as_its_sets_in_all_queues() -> None:
    assert size(load(5, 6, 350, 100, 50)) == Size(cohorts=5, queues=30, workloads=15_000)


def test_a_tenth_of_a_load_has_as_many_queues() -> None:
    whole = load(5, 6, 350, 100, 50)
    assert cut(whole, 10) == load(5, 6, 35, 10, 5)
    assert size(whole).workloads == 15_000, "the whole load is left as it was"


def test_no_set_of_workloads_is_cut_away() -> None:
    assert cut(load(1, 1, 4), 10) == load(1, 1, 1)


def test_a_process_whose_name_looks_like_fields() -> None:
    found = read_stat("12 (a) R 9 (b) S 7 12 11 0 -1 4194560 1 0 0 0 150 50 9 9 20 0 8 0 5 1 1")
    assert (found.name, found.parent, found.session) == ("a) R 9 (b", 7, 11)
    assert found.seconds == pytest.approx(200 * TICK), "those of its children are not its own"


@pytest.mark.parametrize(
    ("text", "peak"),
    [
        pytest.param("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1024 kB\n", 2 * 2**20, id="alive"),
        pytest.param("Name:\tx\nState:\tZ (zombie)\n", 0, id="ended"),
    ],
)
def test_the_peak_memory_of_a_process(text: str, peak: int) -> None:
    assert read_peak(text) == peak


def test_neither_waiting_nor_stolen_time_is_being_busy() -> None:
    found = read_cores("cpu  100 10 50 9999 777 4 6 30 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n")
    assert (found.busy, found.stolen) == pytest.approx((170 * TICK, 30 * TICK))


METRICS = """\
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",group="kueue.x-k8s.io",resource="workloads",subresource="status",verb="APPLY"} 200
apiserver_request_total{code="201",group="kueue.x-k8s.io",resource="workloads",subresource="status",verb="APPLY"} 1
apiserver_request_total{code="409",group="kueue.x-k8s.io",resource="workloads",subresource="status",verb="APPLY"} 3
apiserver_request_total{code="201",group="",resource="events",subresource="",verb="POST"} 1e+03
apiserver_request_total{code="0",group="",resource="events",subresource="",verb="WATCH"} 2
apiserver_request_total{code="200",resource="",subresource="/metrics",verb="GET"} 4
apiserver_request_total_of_another_kind{code="200",resource="events",verb="POST"} 7
"""


def test_requests_are_counted_by_verb_and_kind() -> None:
    assert counted(METRICS) == {
        "APPLY workloads/status": 204,
        "409 APPLY workloads/status": 3,
        "POST events": 1000,
        "WATCH events": 2,
        "GET other//metrics": 4,
    }


def test_a_refused_write_is_one_write() -> None:
    assert writes(counted(METRICS)) == 204 + 1000


def test_a_page_of_workloads_tells_the_finished_ones_and_where_it_goes_on() -> None:
    page = {
        "metadata": {"continue": "more", "resourceVersion": "9"},
        "items": [
            {"metadata": {}, "status": {"conditions": [{"type": "Finished", "status": "True", "reason": "x"}]}},
            {"metadata": {}, "status": {"conditions": [{"type": "Finished", "status": "False"}]}},
            {"metadata": {}, "status": {"conditions": [{"type": "Admitted", "status": "True"}]}},
            {"metadata": {}},
        ],
    }
    assert read_page(msgspec.json.encode(page)) == (Tally(4, 1), "more")
    assert read_page(b'{"metadata":{},"items":[]}') == (Tally(0, 0), "")


def test_the_classes_come_with_the_scarcest_first() -> None:
    summary = {
        "workloadClasses": {
            "small": {"count": 9, "averageTimeToAdmissionMs": 2500, "totalEvictions": 1},
            "large": {"count": 1, "averageTimeToAdmissionMs": 500, "totalEvictions": 0},
        }
    }
    assert list(read_classes(summary).items()) == [("large", Class(1, 0.5, 0)), ("small", Class(9, 2.5, 1))]


def test_the_median_is_taken_figure_by_figure() -> None:
    runs = [
        result(wall=1.0, memory=30, requests={"POST events": 5}),
        result(wall=3.0, memory=10, unfinished=2),
        result(wall=2.0, memory=20, requests={"POST events": 7}),
    ]
    found = middle(runs)
    assert (found.wall, found.memory) == (2.0, 20)
    assert found.walls == (1.0, 3.0, 2.0)
    (row,) = [line for line in figures([found], frozenset({OURS})).splitlines() if "each run" in line]
    assert row.split("|")[2].strip() == "1, 3, 2"
    assert found.requests["POST events"] == 5, "a run without such requests had none of them"
    assert not found.complete, "one run that lost workloads spoils all"


def test_each_floor_is_held_against_the_better_rival() -> None:
    slow_but_small = result(KUEUE, wall=20.0, memory=100 * 2**20)
    quick_but_big = result(LIMITS, wall=12.0, memory=400 * 2**20)
    found = {ratio.floor.name: ratio for ratio in ratios(result(), [slow_but_small, quick_but_big])}
    assert found["wall"].whose == LIMITS
    assert found["wall"].value == pytest.approx(10 / 12)
    assert found["manager memory"].whose == KUEUE
    assert found["manager memory"].value == pytest.approx(0.5)
    assert [name for name, ratio in found.items() if not ratio.ok] == ["wall", "kube-apiserver CPU", "manager CPU"]
    assert [name for name in found if name.startswith("admission")] == ["admission, large", "admission, small"]


@pytest.mark.parametrize(
    ("name", "ours", "rival", "ok"),
    [
        pytest.param("wall", 75.0, 100.0, True, id="exactly quick enough"),
        pytest.param("wall", 75.1, 100.0, False, id="a little too slow"),
        pytest.param("apiserver", 70.0, 100.0, True, id="the API server just spared enough"),
        pytest.param("manager", 61.0, 100.0, False, id="the manager works too hard"),
        pytest.param("wall", 1.0, 0.0, False, id="a rival that measured nothing is no excuse"),
    ],
)
def test_whether_a_floor_is_kept(name: str, ours: float, rival: float, ok: bool) -> None:
    place = {"wall": "wall", "apiserver": "kube-apiserver CPU", "manager": "manager CPU"}[name]
    mine, theirs = ({name: figure} for figure in (ours, rival))
    found = ratios(msgspec.structs.replace(result(), **mine), [msgspec.structs.replace(result(KUEUE), **theirs)])
    (ratio,) = [each for each in found if each.floor.name == place]
    assert ratio.ok is ok
    assert ("MISSED" in ratio.line()) is not ok


def test_no_class_may_wait_longer_than_with_the_rival() -> None:
    longer = result(classes=CLASSES | {"small": Class(90, 8.1, 0)})
    of_classes = [ratio for ratio in ratios(longer, [result(KUEUE)]) if ratio.floor.name.startswith("admission")]
    assert [(ratio.floor.name, ratio.ok) for ratio in of_classes] == [
        ("admission, large", True),
        ("admission, small", False),
    ]


def test_under_fair_sharing_the_wall_and_the_manager_have_floors() -> None:
    slower = {name: Class(each.count, each.admission * 2, 0) for name, each in CLASSES.items()}
    rival = result(FAIR_KUEUE, wall=14.5, manager=3.9)
    found = ratios(result(FAIR_OURS, classes=slower, memory=2**40), [rival])
    assert [(ratio.floor.name, ratio.ok) for ratio in found] == [("wall", True), ("manager CPU", False)]


def test_a_result_of_an_earlier_run_is_marked() -> None:
    table = figures([result(KUEUE), result(OURS)], frozenset({OURS}))
    assert "Kueue as it stands (earlier run of 2026-01-31)" in table
    assert "pykueue (earlier" not in table


def test_requests_are_shown_per_workload_and_refusals_last() -> None:
    asked = {"409 APPLY workloads/status": 50.0, "POST events": 20.0, "APPLY workloads/status": 150.0, "GET nodes": 0.1}
    rows = where_it_goes([result(requests=asked)]).splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == [
        "APPLY workloads/status",
        "POST events",
        "refused with 409: APPLY workloads/status",
    ], "what hardly ever happens is left out"
    assert "1.500" in rows[0]


MAIN_GO = "\tkubeConfig.QPS = 50\n\tkubeConfig.Burst = 100\n"


def test_the_client_limits_are_replaced() -> None:
    assert patched(MAIN_GO, limits(300, 500), "main.go") == "\tkubeConfig.QPS = 300\n\tkubeConfig.Burst = 500\n"


def test_the_metrics_of_full_kueue_are_served_without_tls() -> None:
    source = "\n".join(
        [
            '\t"sigs.k8s.io/controller-runtime/pkg/metrics/filters"',
            "\t\tSecureServing:  true,",
            "\t\tFilterProvider: filters.WithAuthenticationAndAuthorization,",
            '\tmetricsCertPath := "/etc/kueue/metrics/certs"\n',
        ]
    )
    found = patched(source, PLAIN_METRICS, "main.go")
    assert found == "\t\tSecureServing:  false,\n\tmetricsCertPath := cfg.Webhook.CertDir\n"


@pytest.mark.parametrize("source", ["", MAIN_GO * 2], ids=["not there", "there twice"])
def test_lines_that_cannot_be_replaced_are_an_error(source: str) -> None:
    with pytest.raises(ValueError, match=r"main\.go: holds 'kubeConfig\.QPS = 50'"):
        patched(source, limits(300, 500), "main.go")


def test_crds_are_split_without_their_conversion() -> None:
    crd = {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "workloads.kueue.x-k8s.io"},
        "spec": {"group": "kueue.x-k8s.io", "conversion": {"strategy": "Webhook"}},
    }
    text = yaml.safe_dump_all([crd, {"kind": "Namespace", "metadata": {"name": "n"}}, None])
    ((name, written),) = split(text)
    assert name == "workloads.kueue.x-k8s.io.json"
    assert msgspec.json.decode(written) == without_conversion(crd)
    assert without_conversion(crd)["spec"] == {"group": "kueue.x-k8s.io"}


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(["--kubeconfig", "{}/kubeconfig", "--metricsPort", "4711"], id="as the harness gives them"),
        pytest.param(["--zap-log-level=2", "--metricsPort=4711", "--kubeconfig={}/kubeconfig"], id="in one word each"),
    ],
)
def test_the_wrapper_turns_the_flags_of_the_harness_into_ours(tmp_path: Path, flags: list[str]) -> None:
    run(tmp_path, script(tmp_path, CONFIGURATION, "echo manager", OUR_OPTIONS), flags)
    configuration = yaml.safe_load((tmp_path / "configuration.yaml").read_text())
    assert configuration["metrics"]["bindAddress"] == "127.0.0.1:4711"
    assert configuration["leaderElection"]["leaderElect"] is True
    said = (tmp_path / "manager.log").read_text()
    assert said.startswith(f"manager --kubeconfig {tmp_path}/kubeconfig --config {tmp_path}/configuration.yaml ")


def run(folder: Path, text: str, flags: list[str]) -> None:
    path = folder / "manager"
    path.write_text(text)
    subprocess.run(["/bin/sh", path, *(flag.format(folder) for flag in flags)], check=True)


def test_full_managers_get_the_shipped_configuration_with_fair_sharing(tmp_path: Path) -> None:
    shipped = {"clientConnection": {"qps": 300}, "webhook": {"port": 9443}, "integrations": {"frameworks": ["pod"]}}
    flags = ["--kubeconfig", "{}/kubeconfig", "--metricsPort", "4711"]
    run(tmp_path, script(tmp_path, fair(shipped, tmp_path / "made"), "echo", KUEUE_OPTIONS), flags)
    configuration = yaml.safe_load((tmp_path / "configuration.yaml").read_text())
    assert configuration["clientConnection"] == {"qps": 300}
    assert configuration["integrations"]["frameworks"] == ["batch/job"], "the harness's cluster has no other kinds"
    assert configuration["webhook"] == {"host": "127.0.0.2", "port": 4711, "certDir": str(tmp_path / "made")}
    assert configuration["metrics"]["bindAddress"] == "127.0.0.1:4711"
    strategies = configuration["fairSharing"]["preemptionStrategies"]
    assert strategies == ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


@pytest.mark.parametrize(
    ("shape", "only", "rounds", "order"),
    [
        pytest.param(QUICK, None, None, [LIMITS, OURS, NEW_LIMITS, OURS, LIMITS, LIMITS, OURS], id="in turns"),
        pytest.param(QUICK, [OURS], None, [OURS] * 3, id="one alone, as often as usual"),
        pytest.param(BASELINE, [OURS, LIMITS], 2, [OURS, LIMITS, OURS, LIMITS], id="two in turns"),
        pytest.param(LARGE, None, None, [OURS, LIMITS], id="at scale the better rival will do"),
    ],
)
def test_who_runs(shape: Shape, only: list[str] | None, rounds: int | None, order: list[str]) -> None:
    assert plan(shape, only, rounds) == order


def test_under_fair_sharing_full_managers_alternate() -> None:
    order = plan(QUICK, None, None, fair=True)
    assert order == [FAIR_KUEUE, FAIR_OURS, FAIR_OURS, FAIR_KUEUE, FAIR_KUEUE, FAIR_OURS]


def test_each_contender_is_in_one_race_and_is_ours_or_a_rival() -> None:
    assert sorted(entered(fair=False) + entered(fair=True)) == sorted(TITLES) == sorted(MINE + RIVALS)
    assert set(plan(BASELINE, None, None, fair=True)) == set(entered(fair=True))


def test_a_contender_of_the_other_race_cannot_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert options(["--fair", "--only", FAIR_OURS]).only == [FAIR_OURS]
    with pytest.raises(SystemExit):
        options(["--fair", "--only", OURS])
    assert "--only: ours: not in this race; choose from kueue-fair, ours-fair" in capsys.readouterr().err


def test_in_a_hurry_ours_and_the_better_rival_run_three_times_each_in_turns() -> None:
    order = plan(QUICK, None, None)
    assert (order.count(OURS), order.count(LIMITS), order.count(NEW_LIMITS)) == (3, 3, 1)
    assert all(order.index(name) < 3 for name in (OURS, LIMITS, NEW_LIMITS))


def test_a_run_on_a_machine_of_another_speed_does_not_compare() -> None:
    speeds = [1.30, 1.25, 1.35, 1.31, 1.60, 1.10]
    runs = [result(slowness=(speed,)) for speed in speeds]
    assert [run.slowness[0] for run in disturbed(runs)] == [1.60, 1.10]


def test_a_run_whose_cores_were_given_to_others_does_not_compare() -> None:
    runs = [result(stolen=(part,)) for part in (0.03, 0.26, 0.04, 0.0, 0.02)]
    assert [run.stolen[0] for run in disturbed(runs)] == [0.26, 0.0]


def test_disturbed_runs_are_repeated_while_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = iter([1.0, 1.0, 1.0, 2.0, 2.0, 1.0, 1.0])
    monkeypatch.setitem(REPEATS, BASELINE.name, 2)
    found = raced(monkeypatch, BASELINE, speeds, [LIMITS, OURS, LIMITS, OURS, LIMITS])
    assert {each.contender: each.walls for each in found} == {LIMITS: (0.0, 2.0, 6.0), OURS: (1.0, 5.0)}
    assert next(speeds, None) is None


def test_a_machine_that_stays_noisy_does_not_keep_the_race_going(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPEATS, BASELINE.name, 2)
    found = raced(monkeypatch, BASELINE, iter([1.0, 1.0, 3.0, 3.0, 3.0]), [LIMITS, OURS, LIMITS])
    assert sorted(wall for each in found for wall in each.walls) == [0.0, 1.0, 4.0]


def raced(monkeypatch: pytest.MonkeyPatch, shape: Shape, speeds: Iterator[float], order: list[str]) -> list[Result]:
    """The results of a race whose runs are made up: of these speeds, and each a second longer than the one before."""
    walls = count()

    def made_up(contender: Contender, *_: Any) -> Result:
        return result(contender.name, wall=float(next(walls)), slowness=(next(speeds),))

    monkeypatch.setattr(program, "control_plane", lambda: Built("", ""))
    monkeypatch.setattr(program, "contenders", lambda names, *_: [Contender(name, "", "") for name in names])
    monkeypatch.setattr(program, "run", made_up)
    monkeypatch.setattr(program, "save", lambda _: None)
    return race(shape, order, "2026-01-31", profile=False)


def test_in_the_baseline_all_run_three_times_and_none_always_before_another() -> None:
    order = plan(BASELINE, None, None)
    names = (LIMITS, OURS, OURS_ON_THEIRS, NEW_LIMITS)
    assert {name: order.count(name) for name in order} == dict.fromkeys(names, 3)
    assert order[:4] == list(names)
    assert order[4:8] == list(reversed(names))


def test_the_tables_of_one_load_leave_the_others_alone() -> None:
    (first, last), (other, _) = marks("quick"), marks("large")
    page = f"Words.\n{first}\nold\n{last}\nMore.\n{other}\n"
    assert replaced(page, "quick", "new\n") == f"Words.\n{first}\n\nnew\n\n{last}\nMore.\n{other}\n"


def test_a_page_without_a_place_is_an_error() -> None:
    with pytest.raises(ValueError, match="no place for the tables of quick"):
        replaced("Words.", "quick", "new")


@pytest.mark.parametrize("place", [*SHAPES, FAIR_PLACE])
def test_the_page_has_a_place_for_each_load_and_for_fair_sharing(place: str) -> None:
    assert replaced(FILE.read_text(), place, "new")


def test_one_missed_floor_is_a_defeat_and_old_rivals_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    slow = result(KUEUE, wall=100.0, apiserver=100.0, manager=100.0, memory=2**30)
    assert judge([slow, result()], frozenset({KUEUE, OURS}), QUICK)
    assert not judge([slow, result(memory=2**30)], frozenset({OURS}), QUICK)
    said = capsys.readouterr().out
    assert said.count("MISSED") == 1
    assert said.count("not of this run, and perhaps of a busier or quieter hour: kueue\n") == 1


def test_ours_under_foreign_crds_has_floors_too(capsys: pytest.CaptureFixture[str]) -> None:
    slow = result(KUEUE, wall=100.0, apiserver=100.0, manager=100.0, memory=2**30)
    everybody = frozenset({KUEUE, OURS, OURS_ON_THEIRS})
    assert judge([slow, result(), result(OURS_ON_THEIRS)], everybody, QUICK)
    assert not judge([slow, result(), result(OURS_ON_THEIRS, wall=200.0)], everybody, QUICK)
    assert "MISSED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "ok"),
    [
        pytest.param(Said(70.0, 0, 0), True, id="work is lost"),
        pytest.param(Said(70.0, 1, 0), False, id="in vain"),
        pytest.param(Said(70.0, 0, 1), False, id="an Event is dropped"),
    ],
)
def test_what_our_manager_must_not_do(said: Said, ok: bool, capsys: pytest.CaptureFixture[str]) -> None:
    slow = result(KUEUE, wall=100.0, apiserver=100.0, manager=100.0, memory=2**30)
    assert judge([slow, result(said=said)], frozenset({KUEUE, OURS}), QUICK) is ok
    assert ("MISSED" in capsys.readouterr().out) is not ok


def test_the_last_page_of_metrics_says_what_the_manager_did(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / DUMP, "w:gz") as dump:
        for moment, dropped in ((900, 4), (1000, 7)):
            lines = (f'{LOST}{{cluster_queue="a"}} 1.5', f'{LOST}{{cluster_queue="b"}} 2', f"{DROPPED} {dropped}", "")
            page = "\n".join(lines).encode()
            info = tarfile.TarInfo(f"{moment}.prometheus")
            info.size = len(page)
            dump.addfile(info, io.BytesIO(page))
    assert said(last_page(tmp_path)) == Said(3.5, 0, 7)


def test_of_several_runs_the_worst_of_what_must_not_happen_counts() -> None:
    runs = [result(said=Said(1.0, 0, 3)), result(said=Said(5.0, 1, 0)), result(said=Said(2.0, 0, 0))]
    assert middle(runs).said == Said(2.0, 1, 3)
    assert middle([result(KUEUE)]).said is None


def test_nothing_is_judged_without_a_rival(capsys: pytest.CaptureFixture[str]) -> None:
    assert judge([result()], frozenset({OURS}), QUICK)
    assert "no floor was judged" in capsys.readouterr().out
