"""Link types, tunnels and bonds that the local kernel may lack, in a guest: read back, reachable, and encapsulated."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.guest.labs import LABS, PATIENCE_S, measured
from tests.netns.conftest import IOLAB
from tests.netns.runs import trials, value

KINDS = """
title: Every way in which two namespaces meet
lab:
  machines:
    box: {kind: vm, cpus: 2, accel: tcg, memory: 384M}
    a: {kind: netns, on: box}
    b: {kind: netns, on: box}
  links:
    lan: {ends: [a.eth0, b.eth0]}
    two: {ends: [a.eth1, b.eth1]}
measure:
  tcp: {kind: stream, from: a, to: b, duration: 1s, capture: [b.eth0]}
factors:
  network:
    wireguard: {links.over: {ends: [a.t0, b.t0], over: lan, tunnel: wireguard}}
    gre: {links.over: {ends: [a.t0, b.t0], over: lan, tunnel: gre, id: 7}}
    gretap: {links.over: {ends: [a.t0, b.t0], over: lan, tunnel: gretap}}
    vxlan over wireguard:
      links.over: {ends: [a.t0, b.t0], over: lan, tunnel: wireguard}
      links.more: {ends: [a.v0, b.v0], over: over, tunnel: vxlan}
    ipvlan: {links.lan.join: ipvlan}
    ipvlan l3: {links.lan.join: ipvlan, links.lan.mode: l3}
    round robin: {links.trunk: {ends: [a.b0, b.b0], over: [lan, two], bond: balance-rr}}
    lacp: {links.trunk: {ends: [a.b0, b.b0], over: [lan, two], bond: 802.3ad, hash: layer3+4}}
blocks: 1
seed: 1
"""


def dissected(file: Path, *fields: str) -> Counter[str]:
    """Return the count of each combination of fields in a capture."""
    words = [word for field in fields for word in ("-e", field)]
    argv = ["tshark", "-r", str(file), "-T", "fields", *words]
    return Counter(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines())


@pytest.mark.full
def test_every_link_type_is_read_back_and_carries_a_stream(tmp_path: Path, unchanged_host: None) -> None:
    """Check encryption, tunnel IDs and bonds on the underlay."""
    folder = measured(tmp_path, KINDS)
    found = {trial["cell"]["network"]: trial for trial in trials(folder)}
    assert {name: trial["status"] for name, trial in found.items()} == dict.fromkeys(found, "ok")
    assert len(found) == 8
    assert all(value(trial, "received_bps") > 1e6 for trial in found.values())

    def seen(network: str, *fields: str) -> Counter[str]:
        (file,) = (folder / "samples").glob(f"{found[network]['key']}.*.pcapng")
        return dissected(file, *fields)

    for network in ("wireguard", "vxlan over wireguard"):
        layers = {row for row in seen(network, "frame.protocols") if not row.endswith(":arp")}
        assert layers == {"eth:ethertype:ip:udp:wg"}, "nothing in plain text"
    keys = seen("gre", "gre.key")
    assert keys["0x00000007"] > 100
    assert set(keys) <= {"0x00000007", ""}, "but ARP, all has the key"
    assert any("gre:eth:ethertype:ip:tcp" in row for row in seen("gretap", "frame.protocols"))
    assert seen("round robin", "tcp.dstport")["5201"] > 100
    assert seen("lacp", "frame.protocols")["eth:ethertype:slow:lacp"] > 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "levels", "count"),
    [
        ("tunnels", "links.tunnel.tunnel=none|vxlan", 4),
        ("container-networks", "network=bridge|macvlan|vxlan", 6),
    ],
)
def test_shipped_lab_runs_with_a_selection_of_its_levels(
    tmp_path: Path, unchanged_host: None, name: str, levels: str, count: int
) -> None:
    """Run each lab in a guest, whose kernel supports all features, without the link types tested above."""
    done = subprocess.run(
        [IOLAB, "run", LABS / f"{name}.yaml", "--quick", "--only", levels],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / done.stdout.splitlines()[-1]
    assert [trial["status"] for trial in trials(folder)] == ["ok"] * count
