#!/bin/sh
# Start a server with the queue and the check in a temporary directory, request a GPU twice, and clean up. Needs kubectl.
cd "$(dirname "$0")" || exit 1
PYKUEUE="${PYKUEUE:-pykueue}"
data=$(mktemp -d) || exit 1
trap 'kill "$controller"; $PYKUEUE down --data "$data" >/dev/null; rm -rf "$data" "$data-scratch"' EXIT
export KUBECONFIG="$data/kubeconfig"

# Print the Workload of a Job as soon as it exists.
workload_of() {
    until kubectl get workloads -o name | grep "/job-$1-"; do sleep 0.1; done
}

# Print the state and message of the check of a Workload as soon as there is a message.
said() {
    text='{.status.admissionChecks[0].state}: {.status.admissionChecks[0].message}{"\n"}'
    until kubectl get "$1" -o "jsonpath=$text" | grep ': .'; do sleep 0.1; done
}

$PYKUEUE up --detach --data "$data" --port 0 --cpus 4 --gpus 2 --on-stop terminate --apply check.yaml >/dev/null || exit 1
${PYTHON:-python3} approval.py &
controller=$!
kubectl wait --for=condition=Active admissioncheck/approval clusterqueue/research --timeout=20s

echo
$PYKUEUE run --data "$data" -q research --name plain -- echo "no GPU, no approval" 2>/dev/null

echo
kubectl apply -f job.yaml
workload=$(workload_of train)
said "$workload" | sed "s|${workload#*/}|WORKLOAD|" | fold -s -w 100 | sed 's/ $//'
kubectl annotate "$workload" approval.example.com/decision=approved approval.example.com/by=alice >/dev/null
kubectl wait --for=condition=Complete job/train --timeout=20s
said "$workload"
kubectl logs job/train

echo
sed 's/name: train/name: mine/' job.yaml | kubectl apply -f -
workload=$(workload_of mine)
kubectl annotate "$workload" approval.example.com/decision=denied approval.example.com/by=alice >/dev/null
kubectl wait --for=condition=Evicted "$workload" --timeout=20s >/dev/null
kubectl get "$workload" -o 'jsonpath={.status.conditions[?(@.type=="Evicted")].message}{"\n"}'
