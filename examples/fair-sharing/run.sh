#!/bin/sh
# Simulate this example. Set PYKUEUE if pykueue is not in PATH.
cd "$(dirname "$0")" && exec ${PYKUEUE:-pykueue} simulate --timeline ./*.yaml
