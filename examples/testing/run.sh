#!/bin/sh
# Run these tests. Set PYTHON to an interpreter that has pykueue and pytest installed.
cd "$(dirname "$0")" && ${PYTHON:-python3} -m pytest -q -p no:cacheprovider . | sed 's/ in [0-9.]*s$//'
