#!/bin/sh
# Run these tests; from anywhere, with the Python that pykueue and pytest are installed in.
cd "$(dirname "$0")" && ${PYTHON:-python3} -m pytest -q -p no:cacheprovider . | sed 's/ in [0-9.]*s$//'
