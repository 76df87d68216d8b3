"""Post the event of a job to a URL: `python -m pykueue.node.notifypost URL`, run as a notification command of the job.

It imports the standard library alone, since it starts twice per job.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from typing import Final

SECONDS: Final = 10
SCHEMES: Final = ("http://", "https://")
FIELDS: Final = {
    "event": "PYKUEUE_EVENT",
    "job": "PYKUEUE_JOB",
    "namespace": "PYKUEUE_NAMESPACE",
    "exitCode": "PYKUEUE_EXIT_CODE",
}


def main(url: str) -> int:
    """Post the event; returns the exit code."""
    if not url.lower().startswith(SCHEMES):
        return 2
    said: dict[str, object] = {name: os.environ.get(variable, "") for name, variable in FIELDS.items()}
    code = str(said["exitCode"])
    said["exitCode"] = int(code) if code.isdecimal() else None
    body = json.dumps(said).encode()
    try:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS):
            return 0
    except (OSError, ValueError, urllib.error.URLError):
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
