"""Is the event of a job posted to a URL, and to nothing else?"""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from pykueue.node.notifypost import main


def test_an_event_is_posted() -> None:
    received: list[object] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        told = {"PYKUEUE_EVENT": "ended", "PYKUEUE_JOB": "train", "PYKUEUE_NAMESPACE": "lab", "PYKUEUE_EXIT_CODE": "3"}
        url = f"http://127.0.0.1:{server.server_port}/hook"
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pykueue.node.notifypost", url], env=told, timeout=60, check=False
        )
        thread.join()
    assert done.returncode == 0
    assert received == [{"event": "ended", "job": "train", "namespace": "lab", "exitCode": 3}]


@pytest.mark.parametrize(
    ("url", "code"), [("file:///etc/passwd", 2), ("ftp://127.0.0.1/x", 2), ("http://127.0.0.1:1/", 1), ("http://[", 1)]
)
def test_what_cannot_be_posted(url: str, code: int) -> None:
    assert main(url) == code
