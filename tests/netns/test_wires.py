"""A link with `wire:` on a kernel: its effect on packets, its change while it runs, and cleanup."""

import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tests.netns.runs import Iolab, Measured, netns_of, until

from iolab.agent.traffic import close_watch, start_watch, stop_watch
from iolab.analysis.shaper_check import HELD_UP
from iolab.experiment import Resolver, cells, parse
from iolab.lab.compose import compose
from iolab.results.packets import LoadRecord
from iolab.results.trial import Status
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.lab.standing_lab import StandingLab
from iolab.store.read import load_run, read_packets

pytestmark = pytest.mark.netns

EXPERIMENT = """
title: A wire
lab:
  machines:
    left: {kind: netns}
    right: {kind: netns}
  links:
    west: {ends: [left.eth0, right.eth0], wire: {rate: 20Mbit}}
measure:
  udp: {kind: stream, protocol: udp, from: left, to: right, rate: 10Mbit, duration: 1s}
factors:
  links.west.wire:
    whole: {rate: 20Mbit, delay: 2ms}
    losing: {lose_every: 4, delay: 1ms}
"""


def test_loss_on_an_emulated_link_matches_its_setting_and_can_change_while_the_link_runs(
    measured: Measured,
) -> None:
    """Lose a quarter or none; create the taps once."""
    folder = measured(EXPERIMENT)
    lost: dict[str, float] = {}
    for record in load_run(folder).trials:
        assert record.result.status is Status.OK, record.result.reason
        found = {metric.name: metric.value for metric in record.result.metrics if metric.dimensions.whole}
        lost[str(record.cell["links.west.wire"])] = found["loss_ratio"]
    assert lost["whole"] == 0
    assert lost["losing"] == pytest.approx(0.25, abs=0.01)
    (log,) = folder.glob("**/commands.jsonl")
    assert (log.read_text().count("wire.start"), log.read_text().count('"wire.change"')) == (1, 2)


FORWARDING = """
title: Frames over a wire
lab:
  machines:
    left: {kind: netns}
    right: {kind: netns}
  links:
    west: {ends: [left.eth0, right.eth0], wire: {delay: 20ms}}
measure:
  lat: {kind: latency, from: left.eth0, to: right.eth0, frame_size: 128, rate: 20kpps, duration: 1s}
factors:
  links.west.wire:
    whole: {delay: 20ms}
    losing: {delay: 20ms, loss: 10%, corrupt: 1%, duplicate: 5%}
    slow: {delay: 20ms, rate: 5kpps, burst: 1, queue_frames: 100}
"""


@pytest.mark.parametrize("offload", ["{}", "{tso: off}"], ids=["taps", "veth pairs"])
def test_emulated_link_is_a_hop_in_the_balance_sheet(measured: Measured, offload: str) -> None:
    """Name the impairment of every lost frame, and the link's delay."""
    folder = measured(FORWARDING.replace("eth0], wire", f"eth0], offload: {offload}, wire"))
    seen: dict[str, LoadRecord] = {}
    for record in load_run(folder).trials:
        assert record.result.status is Status.OK, record.result.reason
        packets = read_packets(folder, record.key)
        assert packets is not None
        seen[str(record.cell["links.west.wire"])] = packets.load_trials[-1]
    for label, load in seen.items():
        (balance,) = load.balances
        assert balance.unexplained_frames == 0, (label, balance)
        assert balance.offered_frames > 10_000
        assert load.latency is not None
    reasons = {label: {drop.reason.code for drop in load.balances[0].drops} for label, load in seen.items()}
    assert reasons["whole"] == set()
    assert {"by-loss", "damaged"} <= reasons["losing"]
    assert "in-line-queue" in reasons["slow"]


KNOWN = """
title: A known path
lab:
  machines:
    left: {kind: netns}
    right: {kind: netns}
  links:
    west: {ends: [left.eth0, right.eth0], wire: {delay: 20ms, rate: 50Mbit, loss: 2%, queue_frames: 500}}
measure:
  udp: {kind: stream, protocol: udp, from: left, to: right, rate: 20Mbit, duration: 3s}
  full: {kind: stream, protocol: udp, from: left, to: right, rate: 80Mbit, length: 1400, duration: 3s}
  lat: {kind: latency, from: left.eth0, to: right.eth0, frame_size: 128, rate: 2kpps, duration: 2s}
"""


@pytest.mark.full
def test_configured_loss_rate_and_delay_are_measured(measured: Measured) -> None:
    """Compare iperf3's and iolab's figures; exclude stalls of a busy host.

    A wrong rate or delay is accepted only if the trial reports a stall of the host.
    """
    folder = measured(KNOWN)
    found: dict[tuple[str, str], float] = {}
    held_up = set()
    for record in load_run(folder).trials:
        assert record.result.status is Status.OK, record.result.reason
        held_up |= {record.measure for one in record.result.warnings if isinstance(one, HELD_UP)}
        for metric in record.result.metrics:
            found.setdefault((record.measure, metric.name), metric.value)
    datagrams = 20e6 * 3 / 8 / 1448
    assert found["udp", "loss_ratio"] == pytest.approx(0.02, abs=4 * (0.02 * 0.98 / datagrams) ** 0.5)
    assert "full" in held_up or found["full", "received_bps"] == pytest.approx(50e6 * 1400 / 1446, rel=0.02)
    assert "lat" in held_up or found["lat", "latency_p50_ns"] == pytest.approx(20e6, abs=100_000)


def test_ping_measures_the_sum_of_the_delays_in_both_directions(unchanged_host: None) -> None:
    """Expect 20 ms and 5 ms, set by `sent_by`."""
    if shutil.which("ping") is None:
        pytest.skip("needs ping")
    text = KNOWN.replace(
        "delay: 20ms, rate: 50Mbit, loss: 2%, queue_frames: 500", "delay: 20ms, sent_by: BACK"
    )
    experiment = parse(text.replace("BACK", "{right.eth0: {delay: 5ms}}"), "known.yaml")
    wanted = compose(Resolver(experiment).setup(next(cells(experiment))).lab)
    with open_agent() as agent:
        lab = StandingLab(Agents(agent), lambda _: None)
        try:
            lab.change_to(wanted)
            shown = agent.run(("ip", "-br", "-4", "addr", "show", "eth0"), netns="iolab-right").stdout
            address = shown.split()[2].partition("/")[0]
            said = agent.run(("ping", "-q", "-c", "20", "-i", "0.05", address), netns="iolab-left").stdout
        finally:
            lab.take_down()
    assert " 0% packet loss" in said
    least_ms = float(said.splitlines()[-1].split("=")[1].split("/")[0])
    assert least_ms == pytest.approx(25.0, abs=0.3)


def test_watch_on_an_emulated_link_uses_kernel_timestamps(
    unchanged_host: None,
) -> None:
    """Do not use the times at which a different CPU processes the frames."""
    text = KNOWN.replace("eth0], wire", "eth0], offload: {tso: off}, wire")
    experiment = parse(text, "known.yaml")
    point = {"netns": "iolab-left", "interface": "eth0", "hook": "ingress"}
    params = {
        "id": "watch", "points": [point], "windows_ns": [100_000], "train_gap_ns": 5000, "rates_bps": [10**9],
        "kept_bytes": 1_000_000,
    }  # fmt: skip
    with open_agent() as agent:
        lab = StandingLab(Agents(agent), lambda _: None)
        try:
            lab.change_to(compose(Resolver(experiment).setup(next(cells(experiment))).lab))
            start_watch(agent, params)
            agent.run(("ping", "-q", "-c", "3", "-i", "0.05", "198.18.0.2"), netns="iolab-left")
            (seen,) = stop_watch(agent, "watch").points
            close_watch(agent, "watch")
        finally:
            lab.take_down()
    assert seen.unstamped_frames == 0


ENDING = """
title: A wire that ends
lab:
  machines:
    left: {kind: netns}
    right: {kind: netns}
  links:
    west: {ends: [left.eth0, right.eth0], wire: {delay: 1ms}}
measure:
  udp: {kind: stream, protocol: udp, from: left, to: right, rate: 1Mbit, duration: 3s}
blocks: 2
"""


@pytest.mark.full
def test_emulated_link_that_ends_fails_the_trial_and_is_recreated(iolab: Iolab, tmp_path: Path) -> None:
    """Delete its interface: the trial fails with that reason, and the next is valid."""
    path = tmp_path / "ending.yaml"
    path.write_text(ENDING)

    def cut() -> None:
        link = ("link", "show", "dev", "eth0")
        until(
            lambda: (
                not subprocess.run(
                    ("ip", "-n", netns_of("left") or "", *link), capture_output=True
                ).returncode
            )
        )
        time.sleep(1.5)
        subprocess.run(("ip", "-n", netns_of("left") or "", "link", "del", "dev", "eth0"), check=True)

    cutting = threading.Thread(target=cut)
    cutting.start()
    done = iolab("run", path)
    cutting.join()
    folder = tmp_path / done.stdout.splitlines()[-1]
    first, second = load_run(folder).trials
    assert first.result.status is not Status.OK
    assert "wire of link west" in str(first.result.reason) or "wire:west" in str(first.result.reason)
    assert second.result.status is Status.OK, second.result.reason


def test_emulated_link_works_without_root(measured_by_user: Measured) -> None:
    """Create taps in private namespaces; lose a quarter of the datagrams."""
    text = EXPERIMENT.replace("eth0], wire", "eth0], offload: {tso: off}, wire")
    folder = measured_by_user(text, writes="/dev/net/tun")
    lost = {}
    for record in load_run(folder).trials:
        assert record.result.status is Status.OK, record.result.reason
        said = {one.code for one in record.result.warnings}
        assert {"wire-by-taps", "wire-unstamped"} <= said
        found = {metric.name: metric.value for metric in record.result.metrics if metric.dimensions.whole}
        lost[str(record.cell["links.west.wire"])] = found["loss_ratio"]
    assert lost == {"whole": 0, "losing": pytest.approx(0.25, abs=0.01)}
