"""Guests on the fake agent: started, pinned, read back, stopped; and errors of guests that fail to start."""

import json
import time
from pathlib import Path

import pytest
from tests.fake_agent.agent import FakeAgent, FakeHost, Outcome
from tests.netns.runs import until
from tests.unit.run.guests.fake_guests import FIRST_VCPU, QEMU_PID, VHOST, Line, Threads, guest, parent

from iolab.agent.client import Agent, AgentLost
from iolab.agent.messages import PROTOCOL
from iolab.errors import LabError
from iolab.lab.actions import GuestState as State
from iolab.lab.actions import PinGuest, Reading
from iolab.lab.guests.guest import GuestNic, TapBackend
from iolab.lab.readback.values import GuestThreads, value_shown
from iolab.messages.commands import GuestThread, OpenDevice, OpenQueueIn, RunsAsOwnUser, VcpuThread
from iolab.messages.warnings import AcceleratorUnknown
from iolab.report.locale import EN
from iolab.trial.host_warnings import guest_warnings

PATIENCE_S = 60.0
SPOKEN = ".".join(map(str, PROTOCOL))
HELLO = {"protocol": SPOKEN, "version": "0", "build": "x", "pid": 1, "uid": 0, "rootless": False,
         "state_dir": "/run/iolab", "capabilities": ["machine"]}  # fmt: skip


def test_started_guest_becomes_a_kernel_of_the_lab() -> None:
    """Check that its agent answers under its name, and its start parameters."""
    guests, agents, host = parent()
    folder, record = guests.start(guest(), "").result(PATIENCE_S)
    assert folder.argv[0] == "mkdir"
    assert record.argv[0] == "qemu"
    assert record.undo == ("iolab-agent", "process.stop", "guest:dut")
    assert agents.of("dut").run(("true",)).succeeded
    assert host.folders == {"dut"}
    use = guests.use("dut")
    assert use is not None
    assert (use.accel, use.emulated, use.hypervisor, use.image) == ("tcg", True, "7.2", "digest")


def test_hypervisor_command_is_recorded_with_its_open_files() -> None:
    """Explain the file descriptors in its arguments."""
    card = GuestNic("eth0", "02:00:00:00:00:01", "vhost-net", TapBackend("iolab-t", "p0", vhost=True))
    guests, _, _ = parent()
    *_, record = guests.start(guest(nics=(card,)), "").result(PATIENCE_S)
    assert record.notes == (
        RunsAsOwnUser(),
        OpenQueueIn(code="open-tap-in", fd=10, interface="p0", netns="iolab-t"),
        OpenDevice(fd=11, path="/dev/vhost-net"),
    )
    assert "fd=10" in " ".join(record.argv)


def test_stopped_guest_is_no_longer_a_kernel_of_the_lab_and_leaves_no_folder() -> None:
    """Raise the loss of that guest by name."""
    guests, agents, host = parent()
    guests.start(guest(), "").result(PATIENCE_S)
    guests.stop(["dut"])
    assert host.folders == set()
    with pytest.raises(AgentLost, match="the agent of dut is not running"):
        agents.of("dut")


def test_change_that_a_guest_could_not_undo_is_reported_when_the_guest_stops() -> None:
    """Report it, because it is unknown afterwards; undo the rest."""
    inner = FakeHost(lasting={"disk": "target is busy"})
    guests, agents, host = parent(agent=lambda: FakeAgent(inner, machine=True))
    guests.start(guest(), "").result(PATIENCE_S)
    for key in ("disk", "link"):
        undo = {"kind": "command", "argv": ["unmake", key], "netns": None}
        agents.of("dut").run(("make", key), undo=undo, undo_key=key)
    guests.stop(["dut"])
    assert [*map(str, guests.troubles)] == [
        "guest dut could not undo these changes before it was stopped: disk: target is busy"
    ]
    assert (("unmake", "link"), None) in inner.ran
    assert host.folders == set()


@pytest.mark.parametrize("gone", [True, False])
def test_dead_guest_is_stopped_without_waiting_for_its_undo(
    gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Skip the wait for a dead guest, and bound it for a silent one."""
    monkeypatch.setattr("iolab.run.guests.guests.ALIVE_DEADLINE_S", PATIENCE_S if gone else 0.1)
    line = Line(json.dumps({"jsonrpc": "2.0", "method": "hello", "params": HELLO}))
    guests, agents, host = parent(agent=lambda: line)
    guests.start(guest(), "").result(PATIENCE_S)
    if gone:
        line.say(None)
        until(lambda: agents.of("dut").gone)
    begin_s = time.monotonic()
    guests.stop(["dut"])
    assert time.monotonic() - begin_s < PATIENCE_S / 2
    assert (guests.troubles, host.folders, "dut" in agents) == ([], set(), False)


def test_guest_threads_are_pinned_and_read_back() -> None:
    """Pin each virtual CPU, and the frame-carrying threads, but no foreign thread."""
    threads = Threads()
    guests, _, _ = parent(programs=threads)
    guests.start(guest(), "").result(PATIENCE_S)
    commands = guests.pin(PinGuest("dut", (2, 3), (1,))).result(PATIENCE_S)
    told = {(one.argv[3], one.notes) for one in commands}
    assert ("3", (VcpuThread(thread=str(FIRST_VCPU + 1), number=1, guest="dut"),)) in told
    assert ("1", (GuestThread(thread=str(VHOST), called=f"vhost-{QEMU_PID}", guest="dut"),)) in told
    wanted = {FIRST_VCPU: "2", FIRST_VCPU + 1: "3", QEMU_PID: "1", VHOST: "1"}
    assert threads.cpus == wanted
    text = guests.state("dut").result(PATIENCE_S) or ""
    assert json.loads(text) == {"status": "running", "vcpus": [[2], [3]], "carriers": [[1], [1]]}
    reading = Reading(State("dut"), GuestThreads("vcpus"))
    assert value_shown(reading.how, text) == "2 3"


def test_guest_without_pins_may_run_on_any_cpu() -> None:
    """Apply a level without pins like any change."""
    guests, _, _ = parent()
    guests.start(guest(), "").result(PATIENCE_S)
    guests.pin(PinGuest("dut", (1, 1))).result(PATIENCE_S)
    guests.pin(PinGuest("dut", ())).result(PATIENCE_S)
    found = json.loads(guests.state("dut").result(PATIENCE_S) or "")
    assert found["vcpus"] == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_guest_that_never_boots_is_reported_with_its_last_console_lines() -> None:
    """Include the deadline."""
    console = Line("SeaBIOS", "Booting from ROM...")
    guests, agents, host = parent(console=lambda: console, agent=Line, deadline_s=1)
    with pytest.raises(
        LabError,
        match=r"(?s)starting guest dut failed: the agent in the guest sent nothing .*Booting from ROM",
    ):
        guests.start(guest(), "").result(PATIENCE_S)
    assert "dut" not in agents
    assert host.folders == set()


def test_broken_kvm_is_refused_before_the_guest_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Show the error of the boot probe, and the allowed values, although the node exists."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def programs(argv: tuple[str, ...], netns: str | None) -> Outcome:
        kvm = argv[0] == "qemu" and "-accel" in argv
        return Outcome(exit_status=1, stderr="KVM internal error") if kvm else Threads()(argv, netns)

    guests, _, host = parent(programs=programs)
    with pytest.raises(
        LabError,
        match=r"no kernel boots with KVM on this host \(KVM internal error\)\. Use `accel: auto` or `accel: tcg`",
    ):
        guests.start(guest(accel="kvm"), "").result(PATIENCE_S)
    assert host.folders == set()


@pytest.mark.parametrize("hangs", ["test", "qemu"])
def test_kvm_probe_that_times_out_is_not_remembered(
    hangs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Try the requested accelerator."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def programs(argv: tuple[str, ...], netns: str | None) -> Outcome:
        asked = argv[0] == hangs and (hangs == "test" or "-accel" in argv)
        return Outcome(duration_ns=10**15) if asked else Threads()(argv, netns)

    guests, _, _ = parent(programs=programs)
    guests.start(guest(accel="kvm"), "").result(PATIENCE_S)
    assert guests.use("dut") is not None
    assert not (tmp_path / "iolab" / "accelerators.json").exists()


def test_kvm_probe_that_times_out_is_repeated_with_a_longer_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attribute the timeout to concurrent load, not to KVM."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    boots = iter([Outcome(duration_ns=10**15), Outcome(stdout="VFS: Unable to mount root fs")])

    def programs(argv: tuple[str, ...], netns: str | None) -> Outcome:
        return next(boots) if argv[0] == "qemu" and "stdio" in argv else Threads()(argv, netns)

    guests, _, _ = parent(programs=programs)
    guests.start(guest(accel="auto"), "").result(PATIENCE_S)
    use = guests.use("dut")
    assert use is not None
    assert (use.accel, use.untold) == ("kvm", "")


def test_guest_that_is_emulated_after_a_probe_timeout_has_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Do not report that KVM fails; probe again at the next start."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    boots = []

    def programs(argv: tuple[str, ...], netns: str | None) -> Outcome:
        if argv[0] == "qemu" and "stdio" in argv:
            boots.append(argv)
            return Outcome(duration_ns=10**15)
        return Threads()(argv, netns)

    guests, _, _ = parent(programs=programs)
    for times in (1, 2):
        guests.start(guest(accel="auto"), "").result(PATIENCE_S)
        assert len(boots) == 2 * times
        use = guests.use("dut")
        assert use is not None
        assert (use.accel, use.untold) == ("tcg", "the boot did not finish within 60 s")
        told = next(one for one in guest_warnings({"dut": use}) if isinstance(one, AcceleratorUnknown))
        assert "did not finish within" in EN.said.say(told)
        guests.stop(["dut"])


def test_kvm_permission_is_probed_again_on_each_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Detect that the user was given access to the node."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    answers = [Outcome(exit_status=1, stderr="Could not access KVM kernel module: Permission denied")] * 2
    answers.append(Outcome(stdout="VFS: Unable to mount root fs"))

    def programs(argv: tuple[str, ...], netns: str | None) -> Outcome:
        return answers.pop(0) if argv[0] == "qemu" and "stdio" in argv else Threads()(argv, netns)

    guests, _, _ = parent(programs=programs)
    with pytest.raises(LabError, match="Permission denied"):
        guests.start(guest(accel="kvm"), "").result(PATIENCE_S)
    guests.start(guest(accel="kvm"), "").result(PATIENCE_S)
    assert guests.use("dut") is not None


def test_kvm_probe_that_fails_once_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow for a busy host."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    boots = iter([Outcome(exit_status=1, stderr="kvm: no"), Outcome(stdout="VFS: Unable to mount root fs")])

    def programs(argv: tuple[str, ...], netns: str | None) -> Outcome:
        return next(boots, Outcome()) if argv[0] == "qemu" and "-accel" in argv else Threads()(argv, netns)

    guests, _, _ = parent(programs=programs)
    guests.start(guest(accel="kvm"), "").result(PATIENCE_S)
    assert next(boots, None) is None


def test_guest_that_failed_to_start_three_times_is_not_started_again() -> None:
    """End a study of a hundred trials after minutes."""
    guests, _, _ = parent(agent=Line, deadline_s=0.1)
    for _ in range(3):
        with pytest.raises(
            LabError, match="the agent in the guest sent nothing for 0 s; the guest console is empty"
        ):
            guests.start(guest(), "").result(PATIENCE_S)
    with pytest.raises(LabError, match="failed to start 3 times in a row; iolab does not start it again"):
        guests.start(guest(), "").result(PATIENCE_S)


def test_silent_guest_with_kvm_is_reported_with_emulation_as_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mention that a host's KVM may hang silently."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def programs(argv: tuple[str, ...], netns: str | None) -> Outcome:
        boots = argv[0] == "qemu" and "-accel" in argv
        return Outcome(stdout="VFS: Unable to mount root fs") if boots else Threads()(argv, netns)

    guests, _, _ = parent(agent=Line, programs=programs, deadline_s=0.1)
    with pytest.raises(
        LabError,
        match=r"console is empty\. KVM may be unable to run a kernel on this host; to emulate .*, set `accel: tcg`",
    ):
        guests.start(guest(accel="kvm"), "").result(PATIENCE_S)


def test_loss_of_the_parent_does_not_count_as_a_failed_start() -> None:
    """Start the guest on the next parent."""

    def dies(argv: tuple[str, ...], netns: str | None) -> Outcome:
        parents[-1].kill()
        return Threads()(argv, netns)

    guests, agents, host = parent(programs=dies)
    parents: list[FakeAgent] = []
    for _ in range(4):
        parents.append(FakeAgent(host, dies))
        agents.drop("pc6")
        agents.add("pc6", Agent(parents[-1], name="pc6"))
        with pytest.raises(AgentLost, match="pc6"):
            guests.start(guest(), "pc6").result(PATIENCE_S)


def test_kernel_panic_at_boot_is_reported_at_once() -> None:
    """Do not wait for the deadline."""
    console = Line("Kernel panic - not syncing: Attempted to kill init!")
    guests, _, _ = parent(console=lambda: console, agent=Line, deadline_s=60)
    with pytest.raises(LabError, match="Attempted to kill init"):
        guests.start(guest(), "").result(PATIENCE_S)


def test_hypervisor_without_enough_memory_is_reported_with_its_error_message() -> None:
    """Quote QEMU's error, with a remedy."""
    refused = Outcome(stderr="cannot set up guest memory 'pc.ram': Cannot allocate memory", exit_status=1)

    def programs(argv: tuple[str, ...], netns: str | None) -> Outcome | None:
        return refused if argv[0] == "qemu" else Threads()(argv, netns)

    guests, _, host = parent(name="other", programs=programs)
    with pytest.raises(LabError, match=r"status 1: cannot set up guest memory .*give the guest less memory"):
        guests.start(guest(), "").result(PATIENCE_S)
    assert host.folders == set()


def test_kernel_panic_during_a_trial_is_reported_to_pending_requests() -> None:
    """Name the guest, and quote its console."""
    console = Line()
    silent: list[Line] = []

    def channel() -> Line:
        hello = {"protocol": SPOKEN, "version": "0", "build": "x", "pid": 1, "uid": 0, "rootless": False}
        more = {"state_dir": "/run/iolab", "capabilities": ["machine"]}
        silent.append(Line(json.dumps({"jsonrpc": "2.0", "method": "hello", "params": hello | more})))
        return silent[0]

    guests, agents, _ = parent(console=lambda: console, agent=channel)
    guests.start(guest(), "").result(PATIENCE_S)
    pending = agents.of("dut").begin("command.run", {"argv": ["sleep", "60"]})
    console.say("Kernel panic - not syncing: sysrq triggered crash")
    with pytest.raises(AgentLost, match="sysrq triggered crash") as caught:
        pending.result(PATIENCE_S)
    assert caught.value.name == "dut"
