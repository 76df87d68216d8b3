"""Does a process find its volumes, and nobody else's?"""

from pathlib import Path
from typing import Any

import pytest

from pykueue.base.units import parse_quantity
from pykueue.node.setup.environment import Holdings, Source
from pykueue.node.setup.volumes import (
    VolumeError,
    link_mounts,
    make_volumes,
    mounts_of,
    safe_path,
    volume_sources,
    volume_variables,
)

HOLDINGS: Holdings = {
    Source("ConfigMap", "settings"): {"a.yaml": b"a: 1\n", "b": b"2"},
    Source("Secret", "keys"): {"token": b"hush"},
    Source("ConfigMap", "none"): None,
}


ITEM = {"key": "a.yaml", "path": "deep/a"}


def pod(*volumes: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "n", "labels": {"app": "x"}},
        "spec": {"volumes": list(volumes), "containers": [{"name": "main"}]},
    }


def make(folder: Path, *volumes: dict[str, Any], may_mount: bool = True) -> dict[str, Path]:
    node = {"cpu": parse_quantity("2")}
    return make_volumes(
        pod(*volumes), folder / "pod" / "v", HOLDINGS, node=node, host="h", account=None, may_mount=may_mount
    )


def found(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_kinds_of_volumes(tmp_path: Path) -> None:
    made = make(
        tmp_path,
        {"name": "empty", "emptyDir": {}},
        {
            "name": "config",
            "configMap": {"name": "settings", "items": [{"key": "a.yaml", "path": "deep/a", "mode": 0o400}]},
        },
        {"name": "secret", "secret": {"secretName": "keys", "defaultMode": 0o440}},
        {"name": "down", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {
            "name": "all",
            "projected": {"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "keys"}}]},
        },
    )
    assert found(made["empty"]) == {}
    assert found(made["config"]) == {"deep/a": b"a: 1\n"}
    assert found(made["secret"]) == {"token": b"hush"}
    assert found(made["down"]) == {"labels": b'app="x"'}
    assert found(made["all"]) == {"a.yaml": b"a: 1\n", "b": b"2", "token": b"hush"}
    assert (made["config"] / "deep" / "a").stat().st_mode & 0o777 == 0o400
    assert (made["secret"] / "token").stat().st_mode & 0o777 == 0o440
    assert made["secret"].stat().st_mode & 0o777 == 0o700


def test_a_volume_is_made_once(tmp_path: Path) -> None:
    volume = {"name": "work", "emptyDir": {}}
    (make(tmp_path, volume)["work"] / "left").write_text("by an earlier attempt")
    assert found(make(tmp_path, volume)["work"]) == {"left": b"by an earlier attempt"}


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        (
            {"configMap": {"name": "settings", "items": [{"key": "x", "path": "x"}]}},
            "configmap n/settings references non-existent configmap key: x",
        ),
        (
            {"configMap": {"name": "settings", "items": [{"key": "b", "path": "../../x"}]}},
            "'../../x' is not a path within a volume; write one without .. and without a leading /",
        ),
        (
            {"nfs": {"server": "s"}},
            "local pods do not support volumes of kind nfs; use emptyDir, configMap, secret, downwardAPI, projected or "
            "hostPath",
        ),
        (
            {"hostPath": {"path": "/nonesuch", "type": "Directory"}},
            "hostPath type check failed: /nonesuch is not a directory",
        ),
        ({"hostPath": {"path": "/tmp", "type": "File"}}, "hostPath type check failed: /tmp is not a file"),
        (
            {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "spec.x"}}]}},
            "unsupported fieldPath: spec.x",
        ),
    ],
)
def test_what_cannot_be_made(tmp_path: Path, volume: dict[str, Any], message: str) -> None:
    with pytest.raises(VolumeError) as caught:
        make(tmp_path, {"name": "v", **volume})
    assert str(caught.value) == f'MountVolume.SetUp failed for volume "v" : {message}'
    assert not (tmp_path / "pod" / "v" / "v").exists()


def test_what_is_optional_may_be_missing(tmp_path: Path) -> None:
    volume = {"name": "v", "configMap": {"name": "none", "optional": True}}
    assert found(make(tmp_path, volume)["v"]) == {}


def test_a_path_of_the_machine_is_for_administrators(tmp_path: Path) -> None:
    volume = {"name": "v", "hostPath": {"path": str(tmp_path / "new"), "type": "DirectoryOrCreate"}}
    with pytest.raises(VolumeError, match="hostPath volumes are for administrators"):
        make(tmp_path, volume, may_mount=False)
    assert make(tmp_path, volume) == {"v": tmp_path / "new"}
    assert (tmp_path / "new").is_dir()


def test_mounts_are_found_in_the_working_folder_and_by_variables(tmp_path: Path) -> None:
    volumes = make(tmp_path, {"name": "my-config", "configMap": {"name": "settings"}})
    container = {
        "volumeMounts": [
            {"name": "my-config", "mountPath": "/etc/app"},
            {"name": "my-config", "mountPath": "/one", "subPath": "b"},
            {"name": "unknown", "mountPath": "/x"},
        ]
    }
    folder = tmp_path / "work"
    folder.mkdir()
    link_mounts(container, folder, volumes)
    assert (folder / "etc/app/a.yaml").read_text() == "a: 1\n"
    assert (folder / "one").read_text() == "2"
    assert volume_variables({"volumeMounts": container["volumeMounts"][:1]}, volumes) == {
        "PYKUEUE_VOLUME_MY_CONFIG": str(volumes["my-config"])
    }


def test_mounts_do_not_leave_the_working_folder(tmp_path: Path) -> None:
    volumes = make(tmp_path, {"name": "v", "emptyDir": {}})
    for mount in ({"mountPath": "/../../x"}, {"mountPath": "/x", "subPath": "../../y"}):
        with pytest.raises(VolumeError, match="not a path within a volume"):
            link_mounts({"volumeMounts": [{"name": "v", **mount}]}, tmp_path, volumes)


def test_a_link_that_a_container_left_in_a_volume_is_not_followed_out_of_it(tmp_path: Path) -> None:
    volumes = make(tmp_path, {"name": "v", "emptyDir": {}})
    (volumes["v"] / "inside").mkdir()
    (volumes["v"] / "out").symlink_to(tmp_path.parent)
    (volumes["v"] / "in").symlink_to("inside")

    def mounted(inner: str) -> Path:
        return mounts_of({"volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": inner}]}, volumes)[0].source

    assert mounted("in") == volumes["v"] / "inside"
    assert mounted("later") == volumes["v"] / "later"
    for inner in ("out", "out/x", "in/../../.."):
        with pytest.raises(VolumeError, match=r"leaves the volume|not a path within a volume"):
            mounted(inner)


@pytest.mark.parametrize("path", ["", "/", "/a", "..", "a/../b", "a\0b"])
def test_paths_that_lead_away(path: str) -> None:
    with pytest.raises(VolumeError):
        safe_path(path)


def test_the_sources_of_volumes() -> None:
    tree = pod(
        {"name": "a", "configMap": {"name": "c"}},
        {"name": "b", "secret": {"secretName": "s"}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "d"}}, {"secret": {"name": "t"}}]}},
    )
    assert {str(source.name) for source in volume_sources(tree)} == {"c", "s", "d", "t"}


def test_no_mount_is_put_through_another_whose_volume_holds_links_of_a_user(tmp_path: Path) -> None:
    volumes = make(tmp_path, {"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}})
    outside = tmp_path / "outside"
    outside.mkdir()
    (volumes["a"] / "x").symlink_to(outside)
    for inner in ("/data/x/evil.sh", "/data/x/deep/evil.sh", "/data/new/evil.sh"):
        folder = tmp_path / f"work{inner.replace('/', '-')}"
        folder.mkdir()
        mounts = [{"name": "a", "mountPath": "/data"}, {"name": "b", "mountPath": inner}]
        with pytest.raises(VolumeError, match="mount volumes beside each other, not into each other"):
            link_mounts({"volumeMounts": mounts}, folder, volumes)
    assert not list(outside.iterdir())
    assert [path.name for path in volumes["a"].iterdir()] == ["x"]


def test_a_path_that_would_have_to_be_expanded_is_refused(tmp_path: Path) -> None:
    volumes = make(tmp_path, {"name": "v", "emptyDir": {}})
    with pytest.raises(VolumeError, match="local pods do not support subPathExpr; write the path as subPath"):
        mounts_of({"volumeMounts": [{"name": "v", "mountPath": "/x", "subPathExpr": "$(NAME)"}]}, volumes)


@pytest.mark.parametrize("number", [1, 2], ids=["one volume", "several volumes"])
def test_the_volumes_of_a_pod_are_bounded(tmp_path: Path, number: int) -> None:
    """Also if they are tried again and again: what was made the first time counts, too."""
    held = {Source("ConfigMap", "big"): {"k": b"x" * 1_000_000}}
    items = [{"key": "k", "path": f"f{n}"} for n in range(40 // number)]
    volumes = [{"name": f"v{n}", "configMap": {"name": "big", "items": items}} for n in range(number)]
    for _ in range(2):
        with pytest.raises(VolumeError, match=f'volume "v{number - 1}" : the volumes of a pod can hold 32 MiB'):
            make_volumes(pod(*volumes), tmp_path / "pod" / "v", held, node={}, host="h", account=None, may_mount=False)


def test_files_and_folders_of_a_volume_count(tmp_path: Path) -> None:
    fields = {"fieldRef": {"fieldPath": "metadata.name"}}
    items = [{"path": f"{n}/" + "d/" * 100 + "f", **fields} for n in range(100)]
    with pytest.raises(VolumeError, match="can hold 32 MiB"):
        make(tmp_path, {"name": "down", "downwardAPI": {"items": items}})
    assert not (tmp_path / "pod").exists()
