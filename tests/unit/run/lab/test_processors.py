"""Governor and turbo: their files found, written, read back, and put back; what has changed since a run began."""

import pytest
from tests.fake_agent.agent import FakeHost, Outcome, Programs
from tests.unit.run.lab.fake_labs import standing
from tests.wording import in_words

from iolab.errors import LabError
from iolab.lab.actions import Expectation, ProcessorState, Reading, TuneProcessors
from iolab.lab.readback.values import Value
from iolab.lab.resources import Resource
from iolab.run.hosts.host_facts import changed_facts, changed_readiness

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
    """Return processors that run so."""
    assert what in ("governor", "turbo")
    action = TuneProcessors("governor" if what == "governor" else "turbo", value)
    expected = Expectation(Reading(ProcessorState(action.what), Value()), value, f"{what} of pc")
    return Resource(key=f"{what}:pc", machine="pc", actions=(action,), expect=(expected,), held=True)


def test_every_policy_gets_the_governor_and_its_own_back() -> None:
    """The first original stays through two levels; a change behind our back is noticed."""
    host = FakeHost(settings={(None, GOVERNORS[0]): "powersave", (None, GOVERNORS[1]): "schedutil"})
    lab, log = standing(host, kernel(*GOVERNORS))
    lab.change_to((tuned("governor", "performance"),))
    assert [host.settings[None, path] for path in GOVERNORS] == ["performance"] * 2
    assert lab.mismatches() == []
    host.settings[None, GOVERNORS[1]] = "powersave"
    (changed,) = lab.mismatches()
    assert (
        in_words(changed)
        == "governor of pc was read back as performance powersave where performance was applied"
    )
    lab.change_to(())
    assert [host.settings[None, path] for path in GOVERNORS] == ["powersave", "schedutil"]
    assert "echo powersave > " in log[-1].argv[-1]


@pytest.mark.parametrize(("path", "before", "off"), [(NO_TURBO, "0", "1"), (BOOST, "1", "0")])
def test_turbo_is_switched_by_the_file_that_the_driver_has(path: str, before: str, off: str) -> None:
    """intel_pstate says the contrary."""
    host = FakeHost(settings={(None, path): before})
    lab, _ = standing(host, kernel(path))
    lab.change_to((tuned("turbo", "off"),))
    assert host.settings[None, path] == off
    assert lab.mismatches() == []
    lab.change_to(())
    assert host.settings[None, path] == before


def test_a_kernel_that_sets_no_frequency_says_so() -> None:
    """A virtual machine has no such file."""
    lab, _ = standing(FakeHost(), kernel())
    with pytest.raises(LabError, match="setting governor to performance: this kernel sets no such thing"):
        lab.change_to((tuned("governor", "performance"),))


def test_another_governor_makes_another_host_and_another_daemon_is_worth_a_word() -> None:
    """Trials with another frequency do not belong together; facts of older runs tell nothing of it."""
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
    assert changed_facts(then, now) == [
        "governors of the processors: then {'powersave': '0-3'}, now {'performance': '0-3'}"
    ]
    assert changed_readiness(then, now) == [
        "daemons: then [], now ['irqbalance']",
        "firmware of eth0: then 1.0, now 1.1",
    ]
    assert changed_facts({}, now) == []
    assert changed_readiness({}, now) == []


def test_a_setting_that_an_older_version_did_not_ask_for_says_nothing_against_a_host() -> None:
    """One that is there and differs does; so does one that the kernel did not have."""
    rmem, known = "/proc/sys/net/core/rmem_max", "/proc/sys/net/ipv4/tcp_available_congestion_control"
    now = {"hostname": "a", "settings": {rmem: "9", known: "reno bbr"}}
    assert changed_facts({"hostname": "a", "settings": {rmem: "9"}}, now) == []
    assert changed_facts({"settings": {rmem: "8"}}, now) == [f"{rmem}: then 8, now 9"]
    assert changed_facts({"settings": {known: None}}, now) == [f"{known}: then None, now reno bbr"]
