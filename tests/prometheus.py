"""The samples of a page of metrics, as the parser of `prometheus_client` reads them."""

from collections.abc import Generator, Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def samples(text: str) -> list[Sample]:
    """All samples, in order."""
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def rendered(text: bytes = b"") -> Generator[None, None, list[bytes]]:
    """A page that is rendered in two steps, in two pieces."""
    yield
    return [text[:3], text[3:]]


class Page(Mapping[str, float]):
    """The value of each series, which is written as in the text format with the labels in any order."""

    def __init__(self, text: str) -> None:
        found = samples(text)
        self.values_of = {series(sample): sample.value for sample in found}
        assert len(self.values_of) == len(found), "a series occurs twice"

    def __getitem__(self, name: str) -> float:
        return self.values_of[series(samples(f"{name} 0")[0])]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_of)

    def __len__(self) -> int:
        return len(self.values_of)


def series(sample: Sample) -> str:
    """The name of a sample with its labels in alphabetical order."""
    labels = ",".join(f'{label}="{value}"' for label, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}" if labels else sample.name
