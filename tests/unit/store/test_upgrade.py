"""Records of older schemas come out as today's types; what they did not have is unknown."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.store.examples import record

from iolab.errors import StoreError
from iolab.record.dimensions import Dimensions, Quantity
from iolab.record.encoding import Malformed
from iolab.record.trial import Status
from iolab.statements.failures import OtherFailure
from iolab.statements.in_words import WarningInWords
from iolab.statements.warnings import Emulated
from iolab.store.codec import TrialReader, decode_packets, encode_trial
from iolab.store.records import TRIAL_SCHEMA

LINE_1: dict[str, Any] = {
    "schema": 1,
    "key": "566f9d978d1c50bf8e90b3d5b56d5607",
    "measure": "tcp",
    "block": 1,
    "cell": {"mtu": "1500"},
    "wall": "2026-11-21T01:22:40.529+00:00",
    "status": "ok",
    "reason": None,
    "begin_ns": 1,
    "end_ns": 3,
    "measured_ns": 2,
    "metrics": {"received_bps": {"value": 26168675304.99538, "unit": "bit/s"}},
    "warnings": [],
}


def read(**changed: Any) -> Any:
    """Return the record of a line of schema 1 with some keys changed."""
    return TrialReader().read(json.dumps({**LINE_1, **changed}))


def test_a_line_of_schema_1_is_read_with_its_figures_to_the_digit() -> None:
    """Kind, direction and the digest without the direction were not recorded then."""
    record = read()
    metric = record.result.metrics["received_bps"]
    assert (metric.value, metric.unit) == (26168675304.99538, "bit/s")
    assert (record.kind, record.direction, record.rest) == ("", "", "")


@pytest.mark.parametrize(
    ("labelled", "quantity"),
    [
        ("loss_ratio", Quantity("loss_ratio")),
        ("loss_ratio[50 %]", Quantity("loss_ratio", Dimensions(load_ratio=0.5))),
        ("received_bps[near->far#2]", Quantity("received_bps", Dimensions(flow="near->far#2"))),
        ("host_cpu_ratio[guest]", Quantity("host_cpu_ratio", Dimensions(machine="guest"))),
        ("queue_ratio[fw.left rx 3]", Quantity("queue_ratio", Dimensions(port="fw.left", queue=3))),
        ("cpu_busy_ratio[110 % cpu1]", Quantity("cpu_busy_ratio", Dimensions(load_ratio=1.1, cpu=1))),
        ("thread_cpu_ratio[generator]", Quantity("thread_cpu_ratio", Dimensions(role="generator"))),
        (
            "thread_cpu_ratio[50 % napi far.eth0]",
            Quantity("thread_cpu_ratio", Dimensions(load_ratio=0.5, role="napi", port="far.eth0")),
        ),
        (
            "thread_cpu_ratio[fw.left]",
            Quantity("thread_cpu_ratio", Dimensions(role="device", port="fw.left")),
        ),
        (
            "thread_cpu_ratio[guest CPU 0/KVM]",
            Quantity("thread_cpu_ratio", Dimensions(role="guest", machine="guest", thread="CPU 0/KVM")),
        ),
        (
            "thread_cpu_ratio[fw ksoftirqd/1]",
            Quantity("thread_cpu_ratio", Dimensions(role="kernel", machine="fw", thread="ksoftirqd/1")),
        ),
        ("cpu_busy_ratio[all of them]", Quantity("cpu_busy_ratio", Dimensions(part="all of them"))),
    ],
)
def test_the_label_in_the_name_of_an_old_metric_becomes_its_dimensions(
    labelled: str, quantity: Quantity
) -> None:
    """A label that is none of those that were written is kept whole."""
    (metric,) = read(metrics={labelled: {"value": 0.25, "unit": "ratio"}}).result.metrics
    assert metric.quantity == quantity


def test_frames_per_second_have_the_unit_of_today_and_bounds_stay_bounds() -> None:
    """The unit was called pps."""
    (metric,) = read(
        metrics={"forwarded_fps": {"value": 1.5e6, "unit": "pps", "limited_by": "line"}}
    ).result.metrics
    assert (metric.unit, metric.value, metric.limited_by) == ("frame/s", 1.5e6, "line")


def test_reasons_and_warnings_in_words_are_quoted() -> None:
    """Only that machines were emulated is looked for by analysis."""
    record = read(
        status="failed",
        reason="iperf3 ended with 1",
        warnings=[
            {"code": "sender-short", "text": "near sent 1 of 2 Gbit/s", "advice": "lower the rate"},
            {
                "code": "emulated",
                "text": "a, b ran under emulation: the figures are functional",
                "advice": "",
            },
        ],
    )
    assert record.result.status is Status.FAILED
    assert record.result.reason == OtherFailure(said="iperf3 ended with 1")
    assert record.result.warnings == (
        WarningInWords(was="sender-short", said="near sent 1 of 2 Gbit/s", advice="lower the rate"),
        Emulated(machines=("a", "b")),
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"measured_ns": "2"}, "measured_ns"),
        ({"metrics": {"received_bps": {"unit": "bit/s"}}}, "metrics.received_bps.value"),
        ({"warnings": [{"code": "x", "text": 3, "advice": ""}]}, "warnings.0.text"),
        ({"unheard": 1}, "unheard"),
        ({"status": "splendid"}, "status"),
    ],
)
def test_an_old_line_that_is_damaged_is_refused_by_the_key_that_is_wrong(changed: Any, named: str) -> None:
    """Missing, unknown and of another type."""
    with pytest.raises(Malformed, match=named):
        read(**changed)


def test_metrics_of_older_schemas_have_unknown_methods() -> None:
    """Of schema 1 and of schema 2, whose lines differ from those of today in nothing else."""
    (old,) = read().result.metrics
    today = encode_trial(record("k"))
    line = today.replace('"schema":3', '"schema":2')
    assert line != today
    found = [TrialReader().read(text).result for text in (today, line)]
    assert [metric.method for metric in (old, *found[0].metrics, *found[1].metrics)] == [None, 1, None]
    assert [metric.value for metric in found[0].metrics] == [metric.value for metric in found[1].metrics]
    assert replace(found[0], metrics=found[1].metrics) == found[1]


@pytest.mark.parametrize("method", [0, -1, "1", 1.5, True])
def test_a_method_that_is_no_version_is_refused(method: object) -> None:
    """In a line of today, and in an old one, where the key never was."""
    line = json.loads(encode_trial(record("k")))
    line["metrics"][0]["method"] = method
    for schema in (2, 3):
        with pytest.raises(Malformed, match="method"):
            TrialReader().read(json.dumps({**line, "schema": schema}))


@pytest.mark.parametrize("schema", [0, -1, TRIAL_SCHEMA + 1])
def test_a_schema_that_is_newer_or_never_was_is_refused_with_those_that_are_read(schema: int) -> None:
    """Whatever else is in the record."""
    with pytest.raises(StoreError, match=f"its schema is {schema}, this iolab reads 1 to {TRIAL_SCHEMA}"):
        read(schema=schema)
    with pytest.raises(StoreError, match=f"its schema is {schema}"):
        decode_packets(json.dumps({"packets": {}, "schema": schema}).encode())
