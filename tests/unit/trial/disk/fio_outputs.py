"""Measures with fio, and fio's output, for tests."""

from typing import Any

from iolab.experiment.model.measures import DiskMeasure


def measure(**more: object) -> DiskMeasure:
    """Return a measure with fio."""
    return DiskMeasure.model_validate({"kind": "disk", "on": "pc2", "program": "fio", **more})


def direction(operations: int, bins: dict[str, int], runtime_ms: int = 1000) -> dict[str, Any]:
    """Return fio's figures of reads, or of writes."""
    latency = {"max": 90_000, "mean": 20_000.0, "bins": bins}
    return {"io_bytes": operations * 4096, "total_ios": operations, "runtime": runtime_ms, "lat_ns": latency}
