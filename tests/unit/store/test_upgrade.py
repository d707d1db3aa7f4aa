"""Records of every type as JSON and back; those of older schemas are read as current types."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.drawn import OTHERWISE, RECORDS, any_of
from tests.unit.store.examples import record

from iolab.errors import StoreError
from iolab.messages.failures import OtherFailure
from iolab.messages.in_words import InWords, WarningInWords
from iolab.messages.warnings import Emulated
from iolab.plan.types import PLAN_SCHEMA
from iolab.results.encoding import Encoding, Malformed
from iolab.results.metric import Dimensions, Quantity
from iolab.results.trial import Status, TrialResult
from iolab.store.codec import TrialReader, decode_command, decode_packets, encode_trial, packets_in
from iolab.store.records import TRIAL_SCHEMA, TrialRecord
from iolab.store.upgrade.steps import plan_text, stated, upgraded
from iolab.store.upgrade.trials import TRIAL_STEPS, lacks_only_methods

GOLDEN = Path(__file__).parents[2] / "golden"
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


def test_trial_of_schema_1_is_read_with_exact_figures() -> None:
    """Return no kind and no direction, which schema 1 lacks."""
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
        ("thread_cpu_ratio[arrivals]", Quantity("thread_cpu_ratio", Dimensions(role="napi"))),
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
        ("loss_ratio[1e-05 %]", Quantity("loss_ratio", Dimensions(load_ratio=1e-07))),
        ("loss_ratio[1.2.3 %]", Quantity("loss_ratio", Dimensions(part="1.2.3 %"))),
        ("cpu_busy_ratio[all of them]", Quantity("cpu_busy_ratio", Dimensions(part="all of them"))),
    ],
)
def test_label_in_an_old_metric_name_becomes_dimensions(labelled: str, quantity: Quantity) -> None:
    """Keep an unknown label whole."""
    (metric,) = read(metrics={labelled: {"value": 0.25, "unit": "ratio"}}).result.metrics
    assert metric.quantity == quantity


def test_unit_pps_is_read_as_frames_per_second_and_bounds_are_kept() -> None:
    """Convert the unit without changing the value."""
    (metric,) = read(
        metrics={"forwarded_fps": {"value": 1.5e6, "unit": "pps", "limited_by": "line"}}
    ).result.metrics
    assert (metric.unit, metric.value, metric.limited_by) == ("frame/s", 1.5e6, "line")


def test_old_reasons_and_warnings_in_words_are_kept_as_quotations() -> None:
    """Recognise only the statement that machines were emulated, which analysis uses."""
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
def test_damaged_old_trial_is_refused_and_the_wrong_key_is_named(changed: Any, named: str) -> None:
    """Check missing, unknown and mistyped keys."""
    with pytest.raises(Malformed, match=named):
        read(**changed)


def test_metrics_of_older_schemas_have_unknown_methods() -> None:
    """Check schema 1, and schema 2, which lacks nothing else."""
    (old,) = read().result.metrics
    today = encode_trial(record("k"))
    line = today.replace('"schema":3', '"schema":2')
    assert line != today
    found = [TrialReader().read(text).result for text in (today, line)]
    assert [metric.method for metric in (old, *found[0].metrics, *found[1].metrics)] == [None, 1, None]
    assert [metric.value for metric in found[0].metrics] == [metric.value for metric in found[1].metrics]
    assert replace(found[0], metrics=found[1].metrics) == found[1]


@pytest.mark.parametrize("method", [0, -1, "1", 1.5, True])
def test_invalid_method_version_is_refused(method: object) -> None:
    """Check a current line, and an old one, which never had the key."""
    line = json.loads(encode_trial(record("k")))
    line["metrics"][0]["method"] = method
    for schema in (2, 3):
        with pytest.raises(Malformed, match="method"):
            TrialReader().read(json.dumps({**line, "schema": schema}))


@pytest.mark.parametrize("schema", [0, -1, TRIAL_SCHEMA + 1])
def test_unknown_schema_is_refused_with_the_supported_schemas(schema: int) -> None:
    """Ignore the rest of the record."""
    with pytest.raises(StoreError, match=f"of schema {schema}: this iolab reads schemas 1 to {TRIAL_SCHEMA}"):
        read(schema=schema)
    with pytest.raises(StoreError, match=f"of schema {schema}"):
        decode_packets(json.dumps({"packets": {}, "schema": schema}).encode())


def quoted(words: str) -> dict[str, str]:
    """Return words as the statement that quotes them."""
    return {"code": "in-words", "said": words}


PORT = {"code": "at-port", "port": "fw.left"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"code": "lost-at", "frames": 3, "place": "fw.left", "reason": "ring full"},
            {"code": "lost-at", "frames": 3, "place": PORT, "reason": quoted("ring full")},
        ),
        ({"code": "others-dropped", "place": "cpu1"}, {"code": "others-dropped", "place": quoted("cpu1")}),
        ({"code": "limited", "limit": "path", "place": ""}, {"code": "limited", "limit": "path"}),
        ({"code": "limited", "limit": "path", "place": None}, {"code": "limited", "limit": "path"}),
        (
            {"code": "limited", "limit": "line", "place": "fw.left"},
            {"code": "limited-at", "limit": "line", "place": PORT},
        ),
        ({"code": "depth-held", "gain_ratio": 1.5}, {"code": "depth-held", "gain": 1.5}),
        (
            {"code": "paths-uncompared", "error": "no memory"},
            {"code": "paths-uncompared", "error": {"code": "other-failure", "said": "no memory"}},
        ),
        (
            {"code": "part-broke", "part": "p"},
            {"code": "part-broke", "part": "p", "function": "unknown", "package": "unknown"},
        ),
        ({"code": "wire-unbuilt", "stage": "delay"}, {"code": "wire-unbuilt"}),
        ({"code": "disk-program-unbuilt", "program": "fio"}, quoted("disk-program-unbuilt: program fio")),
        ({"code": "at-port", "port": "a.b"}, {"code": "at-port", "port": "a.b"}),
    ],
)
def test_parameters_renamed_within_schema_2_are_read_under_their_new_names(before: Any, after: Any) -> None:
    """Check them in nested statements."""
    assert stated([{"deep": [before]}]) == [{"deep": [after]}]


@pytest.mark.parametrize(
    "older",
    [
        {},
        {"kernel": "fw"},
        {"kernel": "fw", "notes": ["fd 10 is a tap"]},
        {"kernel": "fw", "undo_netns": "iolab-fw", "notes": ["fd 10 is a tap"]},
    ],
)
def test_old_command_records_with_fewer_keys_are_read(older: dict[str, Any]) -> None:
    """Detect the old form by its keys, because the file has no schema."""
    first = {"machine": "fw", "netns": None, "argv": ["ip"], "undo": None, "exit_status": 0, "duration_ns": 5}
    record = decode_command(json.dumps({**first, **older}))
    assert (record.kernel, record.undo_netns) == (older.get("kernel", ""), older.get("undo_netns"))
    assert record.notes == tuple(InWords(said=each) for each in older.get("notes", ()))


def test_damaged_command_record_is_refused_and_the_wrong_key_is_named() -> None:
    """Check an old form of the line."""
    with pytest.raises(Malformed, match="argv"):
        decode_command(
            '{"machine":"fw","netns":null,"argv":"ip","undo":null,"exit_status":0,"duration_ns":5}'
        )


def test_samples_without_a_packet_trial_are_read_as_none() -> None:
    """Accept samples of streams; refuse a damaged packet trial by its key."""
    assert packets_in(b'{"schema":1,"iperf3":[]}') is None
    with pytest.raises(Malformed, match="placement: Field required"):
        packets_in(b'{"schema":1,"load_trials":[],"directions":["a.b->c.d"],"sizes":[],"ports":[]}')


def test_plan_of_schema_1_has_no_cpu_counts_and_quotes_its_reasons() -> None:
    """Pass a newer plan, and text that is no plan, to the plan reader."""
    plan = {"schema": 1, "unsupported": [["tcp", {"mtu": "9000"}, "no such module"]]}
    newest = json.loads(plan_text(json.dumps(plan).encode()))
    assert newest["computers"] == {}
    assert newest["unsupported"] == [["tcp", {"mtu": "9000"}, quoted("no such module")]]
    assert newest["schema"] == PLAN_SCHEMA
    for other in ('{"schema":99}', "no plan"):
        assert plan_text(other.encode()) == other


def test_direct_read_of_a_schema_2_line_equals_its_upgrade() -> None:
    """Skip the upgrade step, which takes as long again, for lines that lack only methods."""
    lines = (GOLDEN / "schema-2-last-streams" / "trials.jsonl").read_bytes().splitlines()
    for line in lines:
        stepped = upgraded(line, 2, TRIAL_STEPS, TRIAL_SCHEMA, "a trial")
        assert lacks_only_methods(line, 2)
        assert TrialReader().read(line) == TrialReader().read(stepped)


ENCODED = [kind for kind in RECORDS if kind not in OTHERWISE]


@pytest.mark.parametrize("kind", ENCODED, ids=lambda kind: kind.__name__)
@settings(max_examples=5)
@given(st.data())
def test_any_record_is_read_back_as_written(kind: type, data: st.DataObject) -> None:
    """Draw records at random; keep numbers and texts exactly."""
    record = data.draw(any_of(kind))
    encoding: Encoding[Any] = Encoding(kind)
    assert encoding.decode(encoding.encode(record)) == record


@pytest.mark.parametrize("kind", ENCODED, ids=lambda kind: kind.__name__)
@settings(max_examples=1)
@given(st.data())
def test_missing_unknown_or_mistyped_field_is_refused_by_name(kind: type, data: st.DataObject) -> None:
    """Check fields with a default, too."""
    encoding: Encoding[Any] = Encoding(kind)
    document = json.loads(encoding.encode(data.draw(any_of(kind))))
    names = [field.name for field in dataclasses.fields(kind)]
    assert list(document) == names
    wrong = [{name: own for name, own in document.items() if name != left_out} for left_out in names]
    wrong += [{**document, name: {"no": ["such"]}} for name in names]
    for name, changed in zip((*names, *names), wrong, strict=True):
        with pytest.raises(Malformed, match=name):
            encoding.decode(json.dumps(changed))
    with pytest.raises(Malformed, match="colour"):
        encoding.decode(json.dumps({**document, "colour": 1}))


@settings(max_examples=50)
@given(st.data())
def test_any_trial_line_is_read_back_as_written(data: st.DataObject) -> None:
    """Draw failed and invalid trials with every kind of statement."""
    result = data.draw(any_of(TrialResult))
    record = TrialRecord(
        key="k", measure="it", kind="stream", direction="one-way", rest="r", block=1,
        cell=data.draw(any_of(dict[str, str])), wall="2026-01-01T00:00:00+00:00", result=result,
        sets_each_load=data.draw(st.booleans()),
    )  # fmt: skip
    assert TrialReader().read(encode_trial(record)) == record
