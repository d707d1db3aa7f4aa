"""Processors of a host: frequencies, sleep states, and the calibration of its ports."""

from pathlib import Path

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome, Programs
from tests.unit.run.lab.fake_labs import standing
from tests.unit.trial.load_trials import simulated
from tests.wording import in_words

from iolab.agent.client import Agent
from iolab.agent.messages import Json
from iolab.clock import VirtualClock
from iolab.errors import LabError
from iolab.lab.actions import Expectation, ProcessorState, Reading, TuneProcessors
from iolab.lab.readback.values import Value
from iolab.lab.resources import Resource
from iolab.run.calibration import calibrate, figures
from iolab.run.folder_work import decode_calibration, host_of
from iolab.run.hosts.host_facts import changed_facts, changed_readiness, store_calibration, stored_calibration
from iolab.trial.search.simulated import Device

CPU = "/sys/devices/system/cpu"
GOVERNORS = [f"{CPU}/cpufreq/policy{number}/scaling_governor" for number in (0, 1)]
NO_TURBO, BOOST = f"{CPU}/intel_pstate/no_turbo", f"{CPU}/cpufreq/boost"


def kernel(*files: str) -> Programs:
    """Return the programs of a host that has some files."""

    def run(argv: tuple[str, ...], _netns: str | None) -> Outcome:
        wanted = [path for path in files if argv[0] == "sh" and _matches(argv[2], path)]
        return Outcome(stdout="\n".join(wanted))

    return run


def _matches(script: str, path: str) -> bool:
    return path in script or ("policy*" in script and "/policy" in path)


def tuned(what: str, value: str) -> Resource:
    """Return a processor setting."""
    assert what in ("governor", "turbo")
    action = TuneProcessors("governor" if what == "governor" else "turbo", value)
    expected = Expectation(Reading(ProcessorState(action.what), Value()), value, f"{what} of pc")
    return Resource(key=f"{what}:pc", machine="pc", actions=(action,), expect=(expected,), held=True)


def test_every_cpufreq_policy_gets_the_governor_and_is_restored() -> None:
    """Keep the first original over two levels; detect a foreign change."""
    host = FakeHost(settings={(None, GOVERNORS[0]): "powersave", (None, GOVERNORS[1]): "schedutil"})
    lab, log = standing(host, kernel(*GOVERNORS))
    lab.change_to((tuned("governor", "performance"),))
    assert [host.settings[None, path] for path in GOVERNORS] == ["performance"] * 2
    assert lab.mismatches() == []
    host.settings[None, GOVERNORS[1]] = "powersave"
    (changed,) = lab.mismatches()
    assert (
        in_words(changed)
        == "governor of pc was set to performance, but was read back as performance powersave"
    )
    lab.change_to(())
    assert [host.settings[None, path] for path in GOVERNORS] == ["powersave", "schedutil"]
    assert "echo powersave > " in log[-1].argv[-1]


@pytest.mark.parametrize(("path", "before", "off"), [(NO_TURBO, "0", "1"), (BOOST, "1", "0")])
def test_turbo_is_set_through_the_file_of_the_cpufreq_driver(path: str, before: str, off: str) -> None:
    """Invert the value for intel_pstate."""
    host = FakeHost(settings={(None, path): before})
    lab, _ = standing(host, kernel(path))
    lab.change_to((tuned("turbo", "off"),))
    assert host.settings[None, path] == off
    assert lab.mismatches() == []
    lab.change_to(())
    assert host.settings[None, path] == before


def test_kernel_without_frequency_control_is_reported() -> None:
    """Report a virtual machine, which has no such file."""
    lab, _ = standing(FakeHost(), kernel())
    with pytest.raises(
        LabError, match="cannot set governor to performance because this kernel has no such setting"
    ):
        lab.change_to((tuned("governor", "performance"),))


def test_host_with_a_changed_governor_counts_as_different_and_changed_daemons_give_a_note() -> None:
    """Do not mix trials with different frequencies; ignore facts missing from older runs."""
    then = {
        "processors": {"governors": {"powersave": "0-3"}, "turbo": True, "smt": False},
        "daemons": [],
        "interfaces": [{"name": "eth0", "firmware": "1.0", "pause": {"rx": True}}],
    }
    now = {
        "processors": {"governors": {"performance": "0-3"}, "turbo": True, "smt": False},
        "daemons": ["irqbalance"],
        "interfaces": [{"name": "eth0", "firmware": "1.1", "pause": {"rx": True}}],
    }
    assert [*map(str, changed_facts(then, now))] == [
        "governors of the processors was {'powersave': '0-3'} and is now {'performance': '0-3'}"
    ]
    assert [*map(str, changed_readiness(then, now))] == [
        "daemons was [] and is now ['irqbalance']",
        "firmware of eth0 was 1.0 and is now 1.1",
    ]
    assert [*map(str, changed_facts({}, now))] == []
    assert [*map(str, changed_readiness({}, now))] == []


def test_host_setting_that_older_facts_lack_does_not_count_as_changed() -> None:
    """Report a different value, and a new setting of the kernel."""
    rmem, known = "/proc/sys/net/core/rmem_max", "/proc/sys/net/ipv4/tcp_available_congestion_control"
    now = {"hostname": "a", "settings": {rmem: "9", known: "reno bbr"}}
    assert [*map(str, changed_facts({"hostname": "a", "settings": {rmem: "9"}}, now))] == []
    assert [*map(str, changed_facts({"settings": {rmem: "8"}}, now))] == [f"{rmem} was 8 and is now 9"]
    assert [*map(str, changed_facts({"settings": {known: None}}, now))] == [
        f"{known} was None and is now reno bbr"
    ]


HOST: dict[str, Json] = {
    "hostname": "h",
    "kernel": "6.1",
    "architecture": "x86_64",
    "cpu_model": "c",
    "cpus": 4,
}


def programs(argv: tuple[str, ...], _netns: str | None) -> Outcome:
    """Accept every command; return offloads when they are read."""
    names = {
        "tso": "tx-tcp-segmentation",
        "gso": "generic-segmentation-offload",
        "gro": "generic-receive-offload",
    }
    if argv[:3] == ("ethtool", "--json", "-k"):
        rows = ", ".join(f'"{name}": {{"active": true}}' for name in names.values())
        return Outcome(stdout=f'[{{"ifname": "{argv[3]}", {rows}}}]')
    return Outcome()


@pytest.fixture(scope="module")
def measured() -> dict[str, Json]:
    """Return the calibration with a sender limit of 900 kpps and a receiver limit of 400 kpps."""
    device = Device(capacity_fps=400_000, queue_frames=0, generator_fps=900_000)
    agent = Agent(FakeAgent(programs=programs, forwards=simulated(device), clock=VirtualClock(now=1)))
    return calibrate(agent, HOST, lambda _: None)


@pytest.fixture
def found(measured: dict[str, Json], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Json]:
    """Return the same calibration, with a temporary cache to store it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return measured


def test_calibration_finds_the_maximum_rates_of_sender_and_receiver(found: dict[str, Json]) -> None:
    """Check both paths; the receiver's is exact to 1/256 of the sender's."""
    for one in found["paths"].values():
        assert one["generator_fps"]["64"] == pytest.approx(900_000, rel=0.001)
        assert one["receiver_fps"] == pytest.approx(400_000, abs=900_000 / 256 + 1)
        assert one["receiver_fps"] <= 400_000
        assert one["pacing_error_ratio"] == 0
        assert one["latency_p50_ns"] == 20_000
        assert len(list(figures(one))) == 13


def test_calibration_contains_the_lateness_of_single_frames_on_both_paths(found: dict[str, Json]) -> None:
    """Measure at half of AF_XDP's rate, for `path: auto`."""
    known = decode_calibration(found)
    assert known is not None
    assert known.alone is not None
    assert known.alone.load_fps == pytest.approx(450_000, rel=0.001)
    assert (known.alone.af_xdp_late_ns, known.alone.live_late_ns) == (100, 100)
    older = decode_calibration({name: value for name, value in found.items() if name != "alone"})
    assert older is not None
    assert older.alone is None


def test_calibration_is_used_only_on_the_same_host_and_kernel(found: dict[str, Json]) -> None:
    """Ignore it after a kernel change."""
    store_calibration(found)
    assert stored_calibration(HOST) == found
    assert stored_calibration({**HOST, "kernel": "6.2"}) is None


def test_each_host_has_a_separate_calibration(found: dict[str, Json]) -> None:
    """Do not replace the local host's by a remote one."""
    other = {**found, "host": {**found["host"], "hostname": "pc6"}}
    assert store_calibration(found) != store_calibration(other)
    assert stored_calibration(HOST) == found
    assert stored_calibration({**HOST, "hostname": "pc6"}) == other


def test_calibration_of_a_remote_sender_is_used(found: dict[str, Json]) -> None:
    """Use it for each measured host of a run."""
    facts = {**HOST, "hosts": {"tester": {**HOST, "calibration": found}, "pc1": HOST}}
    known = host_of(facts).calibrations
    assert set(known) == {"tester"}
    assert known["tester"].ceiling_fps("auto", 64) == found["paths"]["af_xdp"]["generator_fps"]["64"]


def test_damaged_calibration_file_is_ignored(found: dict[str, Json]) -> None:
    """Measure again without an error."""
    store_calibration(found).write_text("{")
    assert stored_calibration(HOST) is None


def test_maximum_rate_of_a_frame_size_is_that_of_the_next_smaller_measured_size(
    found: dict[str, Json],
) -> None:
    """Never assume a higher rate for a larger frame."""
    calibration = decode_calibration(found)
    assert calibration is not None
    assert calibration.ceiling_fps("auto", 600) == found["paths"]["af_xdp"]["generator_fps"]["512"]
    assert calibration.ceiling_fps("af_packet", 9000) == found["paths"]["af_packet"]["generator_fps"]["1518"]
    assert decode_calibration(None) is None
