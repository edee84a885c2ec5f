"""Meters in Prometheus' words. The one file that imports its client, which is an optional extra."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

import redis

from settings.errors import LongstreamError
from settings.model import Settings
from worker.seeing.fleet import look
from worker.seeing.fleet_gauges import filled
from worker.seeing.meters import Counter, Histogram, Meter
from worker.seeing.readiness import TIMEOUT_S
from worker.store.connections import connect

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

PREFIX = "longstream_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class NotInstalled(LongstreamError):
    """The optional extra is missing."""


def fleet_meters(settings: Settings) -> list[Meter]:
    """What the store knows of the fleet now; of a store that is away, that it is."""
    try:
        with connect(settings.store_url, TIMEOUT_S) as client:
            return filled(look(client, settings), settings).all()
    except (redis.RedisError, OSError):
        return filled(None, settings).all()


def exposed(meters: Iterable[Meter]) -> bytes:
    """The text format, with the metrics of the process itself. Raises NotInstalled."""
    try:
        from prometheus_client import PROCESS_COLLECTOR, CollectorRegistry, generate_latest
    except ImportError:
        raise NotInstalled(
            "metrics need prometheus-client: pip install 'longstream[metrics]'"
        ) from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(list(meters)))
    registry.register(PROCESS_COLLECTOR)
    return generate_latest(registry)


class _Collector:
    def __init__(self, meters: list[Meter]) -> None:
        self._meters = meters

    def collect(self) -> Iterator[Metric]:
        return map(_family, self._meters)


def _family(meter: Meter) -> Metric:
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    name = PREFIX + meter.name
    if isinstance(meter, Histogram):
        histogram = HistogramMetricFamily(name, meter.meaning, labels=meter.labels)
        for labels, found in list(meter.values.items()):
            counts = list(accumulate(found.counts))
            bounds = [*map(str, map(float, found.bounds)), "+Inf"]
            buckets = list(zip(bounds, counts, strict=True))
            histogram.add_metric(labels, buckets, found.total[0])
        return histogram
    kind = CounterMetricFamily if isinstance(meter, Counter) else GaugeMetricFamily
    family = kind(name, meter.meaning, labels=meter.labels)
    for labels, value in list(meter.values.items()):
        family.add_metric(labels, value)
    return family
