"""The contenders: Kueue's minimal manager with several client limits, ours under two sets of CRDs, and both in full."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from bench.race.scripts import (
    CONFIGURATION,
    KUEUE_OPTIONS,
    OUR_FULL_OPTIONS,
    OUR_OPTIONS,
    SHIPPED,
    fair,
    script,
)
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen
from pykueue.kube.certmaking import renewed

ROOT: Final = Path(__file__).resolve().parent.parent.parent
WORK: Final = ROOT / "build" / "race"

KUEUE, LIMITS, NEW_LIMITS, OURS, OURS_ON_THEIRS = "kueue", "kueue-limits", "kueue-new-limits", "ours", "ours-kueue-crds"
FAIR_KUEUE, FAIR_OURS = FAIR = "kueue-fair", "ours-fair"
MINE: Final = (OURS, OURS_ON_THEIRS, FAIR_OURS)
RIVALS: Final = (KUEUE, LIMITS, NEW_LIMITS, FAIR_KUEUE)
TITLES: Final = {
    KUEUE: "Kueue as it stands",
    LIMITS: "Kueue with its default client limits",
    NEW_LIMITS: "Kueue with the client limits of 0.20",
    OURS: "pykueue",
    OURS_ON_THEIRS: "pykueue on Kueue's CRDs",
    FAIR_KUEUE: "full Kueue, fair sharing",
    FAIR_OURS: "full pykueue, fair sharing",
}

MINIMAL: Final = "test/performance/scheduler/minimalkueue"
HARNESS_LIMITS: Final = (50, 100)
"""Requests a second, and bursts, of the harness's own manager."""
FULL: Final = "cmd/kueue"
PLAIN_METRICS: Final = {
    '\t"sigs.k8s.io/controller-runtime/pkg/metrics/filters"\n': "",
    "SecureServing:  true,\n": "SecureServing:  false,\n",
    "\t\tFilterProvider: filters.WithAuthenticationAndAuthorization,\n": "",
    'metricsCertPath := "/etc/kueue/metrics/certs"\n': "metricsCertPath := cfg.Webhook.CertDir\n",
}
"""Edits of full Kueue: the harness reads metrics over http, and has no certificate for them in that folder."""


def limits(qps: int, burst: int) -> dict[str, str]:
    """Edits of minimal Kueue: other client limits."""
    changes = zip(("QPS", "Burst"), HARNESS_LIMITS, (qps, burst), strict=True)
    return {f"kubeConfig.{field} = {old}\n": f"kubeConfig.{field} = {new}\n" for field, old, new in changes}


REBUILT: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    LIMITS: (MINIMAL, limits(300, 500)),
    NEW_LIMITS: (MINIMAL, limits(1000, 1000)),
    FAIR_KUEUE: (FULL, PLAIN_METRICS),
}
"""The package and the edits of each Kueue that is rebuilt. The limits are the defaults of Kueue's Configuration, until
0.19 and from 0.20 on."""


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


def patched(source: str, edits: Mapping[str, str], file: str) -> str:
    """A file of Kueue's with other lines."""
    for old, new in edits.items():
        if source.count(old) != 1:
            raise ValueError(f"{file}: holds {old.strip()!r} {source.count(old)} times, not once; see REBUILT")
        source = source.replace(old, new)
    return source


def rebuilt(tree: Path, name: str) -> Path:
    """The Kueue of this contender, rebuilt with its edits; the source tree is unchanged."""
    package, edits = REBUILT[name]
    made = WORK / "bin" / f"{tree.name}-{name}" / Path(package).name
    if not made.exists():
        print(f"building {TITLES[name]}", flush=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        main = tree / package / "main.go"
        scratch = made.parent / "main.go"
        scratch.write_text(patched(main.read_text(), edits, f"{package}/main.go"))
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
            f"./{package}",
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


def certificates() -> Path:
    """A folder with a new certificate for Kueue's webhooks, and its key."""
    folder = WORK / "certificates"
    folder.mkdir(parents=True, exist_ok=True)
    bundle = renewed(None, ("localhost",), SystemClock().now())
    (folder / "tls.crt").write_bytes(bundle.certificate)
    (folder / "tls.key").touch(mode=0o600)
    (folder / "tls.key").write_bytes(bundle.key)
    return folder


def wrapper(name: str, tree: Path, profile: bool) -> Path:
    """An executable that the harness starts as minimal Kueue, and that executes the manager of this contender."""
    module = '-m bench.race.sample "$folder/profile.txt"' if profile else "-m pykueue"
    command = f"{shlex.quote(sys.executable)} {module} manager"
    configuration, options = CONFIGURATION, OUR_OPTIONS
    if name in FAIR:
        configuration, options = fair(yaml.safe_load((tree / SHIPPED).read_text()), certificates()), OUR_FULL_OPTIONS
    if name == FAIR_KUEUE:
        command, options = shlex.quote(str(rebuilt(tree, name))), KUEUE_OPTIONS
    path = WORK / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script(ROOT, configuration, command, options))
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
        elif name in (LIMITS, NEW_LIMITS):
            found.append(Contender(name, str(rebuilt(tree, name)), theirs))
        else:
            crds = str(our_crds()) if name in (OURS, FAIR_OURS) else theirs
            found.append(Contender(name, str(wrapper(name, tree, profile)), crds))
    for each in found:
        assert os.access(each.executable, os.X_OK), f"{each.executable}: is not there; run controlplane/build kueue"
    return found
