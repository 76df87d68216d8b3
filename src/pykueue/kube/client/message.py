"""HTTP/1.1 responses, parsed incrementally from pieces of any size; httptools does the parsing."""

from collections.abc import Callable
from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

HEAD_MAX: Final = 64 * 1024
"""The most bytes that may arrive before the head is complete."""


class MalformedError(Exception):
    """The bytes are not an HTTP/1.1 response."""


class Answer:
    """One response as far as it has arrived; `take` is called with each piece of the body.

    The parser calls the methods whose names begin with `on_`.
    """

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.on_body = take
        self.status = 0
        """The status code; 0 until the head is complete."""
        self.headers: dict[bytes, bytes] = {}
        """By name in lower case."""
        self.complete = False
        self.lasts = True
        """Whether the connection can be reused afterwards."""
        self.head_size = 0
        self.parser: HttpResponseParser | None = HttpResponseParser(self)
        """None once the response is complete."""

    def feed(self, data: bytes) -> None:
        """Parse more bytes."""
        if self.parser is None:
            # A response without a request.
            raise MalformedError(f"{len(data)} surplus bytes")
        try:
            self.parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            # The context is what one of the methods below raised.
            raise MalformedError(str(error.__context__ or error)) from None
        if not self.status:
            self.head_size += len(data)
            if self.head_size > HEAD_MAX:
                raise MalformedError("the head is too long")

    def finish(self) -> bool:
        """Handle the end of the connection; returns whether the response is complete."""
        if self.status and self.headers.keys().isdisjoint((b"content-length", b"transfer-encoding")):
            self.complete = True
        return self.complete

    def on_message_begin(self) -> None:
        """Reject a second response."""
        if self.complete:
            raise MalformedError("a response without a request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers are ignored."""
        if not self.status:
            self.headers[name.lower()] = value.strip()

    def on_headers_complete(self) -> None:
        """Keep the status, unless the response is an interim one."""
        assert self.parser is not None, "a response that is complete is not parsed"
        status = self.parser.get_status_code()
        if status // 100 == 1:
            self.headers.clear()
            self.head_size = 0
        else:
            self.status = status
            self.lasts = self.parser.should_keep_alive()

    def on_message_complete(self) -> None:
        """End the response, unless it is an interim one."""
        if self.status:
            self.complete = True
            # The parser refers to this object: without the cycle, both are freed at once.
            self.parser = None
