"""The error of a question that cannot be answered as it is put."""


class RefusedError(Exception):
    """Says what is wrong with the question."""
