"""A page of metrics, read as Prometheus reads it; and `promtool`, Prometheus's own judge of pages and rules."""

import shutil
from collections import Counter
from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

PROMTOOL = shutil.which("promtool") or ""
judged = pytest.mark.skipif(
    not PROMTOOL, reason="no promtool: apt-get install prometheus, or take it out of that package"
)
"""For tests that ask promtool."""


def samples(page: str) -> list[Sample]:
    """All samples of a page in the text format."""
    return [sample for family in text_string_to_metric_families(page) for sample in family.samples]


def spelled(found: Iterable[Sample]) -> list[str]:
    """Samples as one writes them: `name{label="value"} 1`, whole numbers as such."""
    return [f"{each.name}{labels(each)} {each.value:.15g}" for each in found]


def labels(sample: Sample) -> str:
    """The labels of a sample, in braces; none where it has none."""
    inside = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
    return f"{{{inside}}}" if inside else ""


def sums(page: str) -> dict[str, float]:
    """Each metric of a page by its name: the sum of its samples."""
    found: Counter[str] = Counter()
    for each in samples(page):
        found[each.name] += each.value  # type: ignore[assignment]
    return dict(found)
