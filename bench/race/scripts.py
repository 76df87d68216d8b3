"""Shell scripts that the harness starts as minimal Kueue, and that become another manager with its Configuration."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

SHIPPED: Final = "config/components/manager/controller_manager_config.yaml"
"""The Configuration in Kueue's tree that its manifests install."""

# The harness passes minimalkueue's flags; other managers get the relevant ones as a Configuration, in which the shell
# puts the port.
SCRIPT: Final = """\
#!/bin/sh
# Takes the flags that Kueue's harness gives its minimal manager, and becomes another one.
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
{configuration}END
exec {command} --kubeconfig "$kubeconfig" --config "$folder/configuration.yaml" \\
    {options} >"$folder/manager.log" 2>&1
"""
CONFIGURATION: Final[Mapping[str, Any]] = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "leaderElection": {
        "leaderElect": True,
        "resourceName": "c1f6bfd2.kueue.x-k8s.io",
        "resourceNamespace": "default",
    },
    "metrics": {"bindAddress": "127.0.0.1:$port"},
    "health": {"healthProbeBindAddress": "0"},
}
OUR_OPTIONS: Final = "--controllers '*,-jobs,-webhooks' --no-metrics-secure --log-level warning"
OUR_FULL_OPTIONS: Final = "--controllers '*,-webhooks' --no-metrics-secure --log-level warning"
KUEUE_OPTIONS: Final = "--zap-log-level error"


def fair(shipped: Mapping[str, Any], certificates: Path) -> dict[str, Any]:
    """A full manager's Configuration with fair sharing: the shipped one, as far as the harness's cluster allows it.

    Its webhooks receive no requests, but Kueue serves them anyway: on the metrics port, at another loopback address.
    """
    strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
    return {
        **shipped,
        **CONFIGURATION,
        "webhook": {"host": "127.0.0.2", "port": "$port", "certDir": str(certificates)},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False},
        "fairSharing": {"preemptionStrategies": strategies},
    }


def script(root: Path, configuration: Mapping[str, Any], command: str, options: str) -> str:
    """A script that executes a command with a Configuration and options, in a folder."""
    text = yaml.safe_dump(dict(configuration), sort_keys=False)
    return SCRIPT.format(root=shlex.quote(str(root)), configuration=text, command=command, options=options)
