"""What does the data folder hold? The names of its files, and how much of what has ended is kept there."""

from typing import Final

DATABASE: Final = "pykueue.db"
KUBECONFIG: Final = "kubeconfig"
"""Of whoever started the server."""
USERS: Final = "users.json"
CERTIFICATES: Final = "tls"
"""A folder, with these files in it."""
CERTIFICATE_FILES: Final = ("ca.crt", "ca.key", "server.crt", "server.key")
JOBS_KEPT: Final = 100_000
"""So many finished Jobs are kept; the oldest beyond them are deleted."""
PODS_KEPT: Final = 12_500
"""So many ended pods are kept, as a controller manager of Kubernetes does."""
