#!/bin/sh
# Start a server with these queues in a temporary directory, run a job in one of them, and clean up.
cd "$(dirname "$0")" || exit 1
export PYKUEUE="${PYKUEUE:-pykueue}"
data=$(mktemp -d) || exit 1
trap '$PYKUEUE down --data "$data" >/dev/null; rm -rf "$data" "$data-scratch"' EXIT
unset KUBECONFIG

$PYKUEUE up --detach --data "$data" --port 0 --cpus 16 --memory 64Gi --gpus 2 --on-stop terminate \
    --apply queues.yaml >/dev/null || exit 1
$PYKUEUE status --data "$data" | grep -v -e '^https' -e '^limits'
echo
# The first line names the port and the directory, which differ in each run.
{
    $PYKUEUE run --data "$data" -q vision --cpu 4 --gpu 1 --name train -- \
        sh -c 'echo "training on GPU $CUDA_VISIBLE_DEVICES"; exit 3' 2>&1
    echo "exit code $?"
} | grep -v '^pykueue: submitting to'
