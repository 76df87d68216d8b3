#!/bin/sh
# Simulate this example; from anywhere, with pykueue on the PATH or named in PYKUEUE.
cd "$(dirname "$0")" && exec ${PYKUEUE:-pykueue} simulate ./*.yaml
