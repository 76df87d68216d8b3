"""The contenders: Kueue's minimal manager with two client limits, and ours under two sets of CRDs."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from pykueue.base.struct import Frozen

ROOT: Final = Path(__file__).resolve().parent.parent.parent
WORK: Final = ROOT / "build" / "race"

KUEUE, LIMITS, NEW_LIMITS, OURS, OURS_ON_THEIRS = "kueue", "kueue-limits", "kueue-new-limits", "ours", "ours-kueue-crds"
RIVALS: Final = (KUEUE, LIMITS, NEW_LIMITS)
TITLES: Final = {
    KUEUE: "Kueue as it stands",
    LIMITS: "Kueue with its default client limits",
    NEW_LIMITS: "Kueue with the client limits of 0.20",
    OURS: "pykueue",
    OURS_ON_THEIRS: "pykueue on Kueue's CRDs",
}

MINIMAL: Final = "test/performance/scheduler/minimalkueue"
HARNESS_LIMITS: Final = (50, 100)
"""Requests a second, and bursts, of the harness's own manager."""
CLIENT_LIMITS: Final = {LIMITS: (300, 500), NEW_LIMITS: (1000, 1000)}
"""The defaults of Kueue's Configuration, until 0.19 and from 0.20 on."""

# The harness passes minimalkueue's flags; ours gets the relevant ones as a Configuration.
WRAPPER: Final = """\
#!/bin/sh
# Takes the flags that Kueue's harness gives its minimal manager, and becomes ours.
set -eu
port=0
while [ $# -gt 0 ]; do
    case $1 in
        --kubeconfig) kubeconfig=$2; shift ;;
        --kubeconfig=*) kubeconfig=${{1#*=}} ;;
        --metricsPort) port=$2; shift ;;
        --metricsPort=*) port=${{1#*=}} ;;
    esac
    shift
done
folder=$(dirname "$kubeconfig")
cd {root}
cat >"$folder/configuration.yaml" <<END
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection:
  leaderElect: true
  resourceName: c1f6bfd2.kueue.x-k8s.io
  resourceNamespace: default
metrics:
  bindAddress: :$port
health:
  healthProbeBindAddress: "0"
END
exec {python} manager --kubeconfig "$kubeconfig" --config "$folder/configuration.yaml" \\
    --controllers '*,-jobs,-webhooks' --no-metrics-secure --log-level warning >"$folder/manager.log" 2>&1
"""


class Contender(Frozen):
    """A participant in a race."""

    name: str
    executable: str
    crds: str

    @property
    def title(self) -> str:
        """Its display name."""
        return TITLES[self.name]


class Built(Frozen):
    """The output of the control plane's build script."""

    assets: str
    """The folder with etcd and kube-apiserver."""
    tree: str
    """Kueue's source tree, with its executables in bin."""


def control_plane() -> Built:
    """The control plane and Kueue, built if missing."""
    script = ROOT / "controlplane" / "build"
    done = subprocess.run([script, "kueue"], check=True, stdout=subprocess.PIPE, text=True)
    folder = Path(done.stdout.strip().splitlines()[-1])
    return Built(str(folder), str((folder / "kueue").resolve()))


def patched(source: str, limits: tuple[int, int]) -> str:
    """Minimal Kueue's main file with other client limits."""
    for field, old, new in zip(("QPS", "Burst"), HARNESS_LIMITS, limits, strict=True):
        line = f"kubeConfig.{field} = {old}\n"
        if source.count(line) != 1:
            raise ValueError(
                f"{MINIMAL}/main.go: holds {line.strip()!r} {source.count(line)} times, not once; see HARNESS_LIMITS"
            )
        source = source.replace(line, f"kubeConfig.{field} = {new}\n")
    return source


def with_limits(tree: Path, name: str) -> Path:
    """Minimal Kueue rebuilt with the client limits of this contender; the source tree is unchanged."""
    made = WORK / "bin" / f"{tree.name}-{name}" / "minimalkueue"
    if not made.exists():
        print(f"building {TITLES[name]}", flush=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        main = tree / MINIMAL / "main.go"
        scratch = made.parent / "main.go"
        scratch.write_text(patched(main.read_text(), CLIENT_LIMITS[name]))
        # The compiler reads the scratch file instead of the one in the tree.
        overlay = made.parent / "overlay.json"
        overlay.write_bytes(msgspec.json.encode({"Replace": {str(main): str(scratch)}}))
        command = [
            "go",
            "build",
            "-trimpath",
            "-ldflags",
            "-s -w",
            "-overlay",
            str(overlay),
            "-o",
            str(made),
            f"./{MINIMAL}",
        ]
        subprocess.run(command, check=True, cwd=tree)
    return made


def without_conversion(document: dict[str, Any]) -> dict[str, Any]:
    """A CRD with the conversion `None`: the harness has no conversion webhook."""
    return document | {"spec": {key: value for key, value in document["spec"].items() if key != "conversion"}}


def split(text: str) -> Iterator[tuple[str, str]]:
    """File name and text of each CRD in a stream of documents."""
    for document in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if document and document.get("kind") == "CustomResourceDefinition":
            yield f"{document['metadata']['name']}.json", msgspec.json.encode(without_conversion(document)).decode()


def our_crds() -> Path:
    """A folder with our CRDs from the manifests, without their conversion."""
    folder = WORK / "crds"
    command = [sys.executable, "-m", "pykueue", "manifests", "--only", "crds"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    files = dict(split(done.stdout))
    if not files:
        raise ValueError("pykueue manifests --only crds: printed no CustomResourceDefinition")
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def wrapper(profile: bool) -> Path:
    """An executable that the harness starts as minimal Kueue, and that executes our manager."""
    path = WORK / "bin" / "pykueue"
    path.parent.mkdir(parents=True, exist_ok=True)
    module = '-m bench.race.sample "$folder/profile.txt"' if profile else "-m pykueue"
    path.write_text(WRAPPER.format(root=shlex.quote(str(ROOT)), python=f"{shlex.quote(sys.executable)} {module}"))
    path.chmod(0o755)
    return path


def contenders(names: list[str], built: Built, profile: bool = False) -> list[Contender]:
    """The contenders of these names, ready to run."""
    tree = Path(built.tree)
    theirs = str(tree / "config" / "components" / "crd" / "bases")
    found = []
    for name in names:
        if name == KUEUE:
            found.append(Contender(name, str(tree / "bin" / "minimalkueue"), theirs))
        elif name in CLIENT_LIMITS:
            found.append(Contender(name, str(with_limits(tree, name)), theirs))
        else:
            crds = str(our_crds()) if name == OURS else theirs
            found.append(Contender(name, str(wrapper(profile)), crds))
    for each in found:
        assert os.access(each.executable, os.X_OK), f"{each.executable}: is not there; run controlplane/build kueue"
    return found
