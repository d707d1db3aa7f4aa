"""Frames of the user's own kinds on real namespaces: other headers, many flows, a device that filters or rewrites."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.netns.runs import answers, packets_of

from iolab.store.read import load_run
from iolab.store.records import TrialRecord

pytestmark = pytest.mark.netns
Iolab = Callable[..., subprocess.CompletedProcess[str]]

WAY = "from: tester.p0, to: tester.p1"
ROUTER = """
  machines:
    tester: {kind: netns}
    dut: {kind: netns, forward: route, RUN}
  links:
    west: {ends: [tester.p0, dut.eth0]}
    east: {ends: [tester.p1, dut.eth1]}
"""
KINDS = {
    "tcp": "protocol: tcp, frame_size: 128, payload: zeros",
    "icmp": "protocol: icmp, flows: 7",
    "vxlan": "tunnel: vxlan, frame_size: 1518, flows: 9, payload: 'random:3'",
    "gre": "tunnel: gre, ip: 6, frame_size: 128, flows: 9",
    "drawn": "flows: 900, flow_rules: {source_port: 1-1000, order: random}",
}


def records(
    iolab: Iolab, path: Path, lab: str, measures: dict[str, str]
) -> tuple[Path, dict[str, TrialRecord]]:
    """Run measures in one lab; return the run folder and the records by measure."""
    lines = [f"  {name}: {{{WAY}, {keys}}}" for name, keys in measures.items()]
    path.write_text("\n".join(["title: Traffic", f"lab: {lab}", "measure:", *lines, ""]))
    done = iolab("run", path)
    assert done.returncode == 0, done.stderr + done.stdout
    folder = path.parent / done.stdout.splitlines()[-1]
    return folder, {record.measure: record for record in load_run(folder).trials}


def value(record: TrialRecord, name: str) -> float:
    """Return a figure of a trial."""
    return next(one.value for one in record.result.metrics if one.name == name and one.dimensions.whole)


def test_a_router_passes_every_kind_of_headers(iolab: Iolab, tmp_path: Path) -> None:
    """With a latency where the stamp has room; where it has none frames are counted, and the record says so."""
    measures = {name: f"kind: latency, rate: 2kpps, duration: 300ms, {keys}" for name, keys in KINDS.items()}
    bare = "kind: load-curve, rate: 2kpps, trial: 300ms, steps: [1], protocol: tcp, frame_size: 64"
    folder, found = records(
        iolab, tmp_path / "x.yaml", ROUTER.replace(", RUN", ""), {**measures, "bare": bare}
    )
    for name in KINDS:
        assert value(found[name], "forwarded_fps") > 1900, name
        assert value(found[name], "latency_p50_ns") > 0, name
        assert not [one for one in found[name].result.warnings if one.code == "unstamped"]
    (load,) = packets_of(folder, found["bare"]).load_trials
    assert load.latency is None
    assert load.result.forwarded_frames == load.result.offered_frames == load.unstamped_frames
    assert "unstamped" in [one.code for one in found["bare"].result.warnings]


def test_what_a_filter_drops_is_counted_by_flow(iolab: Iolab, tmp_path: Path) -> None:
    """A rule of the device drops ten of a hundred flows, and it rewrites the addresses of all: the stamp tells them."""
    rules = (
        "run: {nft: {do: [nft, 'add table ip t; add chain ip t f { type filter hook forward priority 0; }; "
        "add rule ip t f udp sport 2000-2009 drop; add chain ip t n { type nat hook postrouting priority 100; }; "
        "add rule ip t n oifname eth1 masquerade'], undo: [nft, delete, table, ip, t]}}"
    )
    flows = "flows: 100, flow_rules: {source_port: 2000-2099}"
    measures = {"it": f"kind: latency, rate: 2kpps, duration: 500ms, {flows}"}
    folder, found = records(iolab, tmp_path / "x.yaml", ROUTER.replace("RUN", rules), measures)
    (answer,) = answers(folder.parents[0], found["it"])
    seen = answer["receivers"][0]["flows"]
    assert (seen["count"], seen["with_loss"]) == (100, 10)
    assert {(one["sent_frames"], one["received_frames"]) for one in seen["worst"]} == {(10, 0)}
    assert answer["receivers"][0]["received_frames"] == 900


def test_a_million_flows_are_each_sent_and_counted(iolab: Iolab, tmp_path: Path) -> None:
    """One frame of each, or so."""
    measures = {"it": "kind: latency, rate: 500kpps, duration: 2s, flows: 1000000, max_burst: 64"}
    folder, found = records(iolab, tmp_path / "x.yaml", ROUTER.replace(", RUN", ""), measures)
    (answer,) = answers(folder.parents[0], found["it"])
    (received,) = answer["receivers"]
    assert received["flows"]["count"] == 1_000_000
    assert received["unknown_flow_frames"] == received["corrupted_frames"] == received["surplus_frames"] == 0
    assert received["received_frames"] > 100_000, json.dumps(received["socket"])
