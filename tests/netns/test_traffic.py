"""Custom frames on real namespaces: other headers, many flows, a device that filters or rewrites."""

import json
import struct
from pathlib import Path

import pytest
from tests.netns.runs import Iolab, answers, packets_of

from iolab.store.read import load_run
from iolab.store.records import TrialRecord

pytestmark = pytest.mark.netns

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


def test_router_forwards_frames_with_every_header_type(iolab: Iolab, tmp_path: Path) -> None:
    """Measure latency if the stamp has room; otherwise count frames and record it."""
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


def test_frames_dropped_by_a_filter_are_counted_per_flow(iolab: Iolab, tmp_path: Path) -> None:
    """Drop ten of a hundred flows, and rewrite all addresses."""
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


@pytest.mark.full
def test_one_million_flows_are_sent_and_counted(iolab: Iolab, tmp_path: Path) -> None:
    """Send about one frame of each."""
    measures = {"it": "kind: latency, rate: 500kpps, duration: 2s, flows: 1000000, max_burst: 64"}
    folder, found = records(iolab, tmp_path / "x.yaml", ROUTER.replace(", RUN", ""), measures)
    (answer,) = answers(folder.parents[0], found["it"])
    (received,) = answer["receivers"]
    assert received["flows"]["count"] == 1_000_000
    assert received["unknown_flow_frames"] == received["corrupted_frames"] == received["surplus_frames"] == 0
    assert received["received_frames"] > 100_000, json.dumps(received["socket"])


def capture_file(path: Path, count: int) -> None:
    """Write a pcap file: of each eight frames six of UDP, one TCP acknowledgement, one ARP reply, 1 ms apart."""
    head = b"\x02" * 12
    addresses = bytes([10, 0, 0, 1, 10, 1, 0, 1])
    out = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    for number in range(count):
        udp = struct.pack(">HHHH", 5000 + number % 8, 53, 108, 0xBEEF) + bytes(100)
        tcp = struct.pack(">HHIIBBHHH", 6000, 80, 1, 1, 0x50, 0x10, 1000, 0xDEAD, 0)
        kind, protocol, rest = (0x0800, 17, udp) if number % 8 < 6 else (0x0800, 6, tcp)
        packet = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(rest), 7, 0, 64, protocol, 0) + addresses + rest
        if number % 8 == 7:
            kind, packet = 0x0806, b"\0\1\x08\0\6\4\0\2" + bytes(20)
        frame = head + struct.pack(">H", kind) + packet
        out += struct.pack("<IIII", number // 1000, number % 1000 * 1000, len(frame), len(frame)) + frame
    path.write_bytes(out)


def test_replayed_capture_accounts_for_every_frame(iolab: Iolab, tmp_path: Path) -> None:
    """Use flows if the stamp has room, otherwise numbers; report an early end."""
    capture_file(tmp_path / "trace.pcap", 400)
    move = "move: [{from: 10.0.0.0/16, to: 198.18.0.0/16}, {from: 10.1.0.0/24, to: 198.18.1.0/24}]"
    measures = {
        "it": f"kind: latency, duration: 1s, replay: {{recording: trace.pcap, timing: recorded, loops: 1, {move}}}"
    }
    folder, found = records(iolab, tmp_path / "x.yaml", ROUTER.replace(", RUN", ""), measures)
    (answer,) = answers(folder.parents[0], found["it"])
    (sent,), (received,) = answer["senders"], answer["receivers"]
    assert (sent["offered_frames"], sent["unstamped_frames"]) == (350, 50)
    assert received["flows"] == {"count": 6, "with_loss": 0, "worst": []}
    assert received["received_frames"] == 350
    assert received["latency_ns"]["count"] == 300
    codes = [one.code for one in found["it"].result.warnings]
    assert {"frames-left-out", "unstamped", "recording-ended"} <= set(codes)
    assert (folder / "files" / "trace.pcap").exists(), "it can be repeated without the original"
