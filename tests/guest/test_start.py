"""Guests that fail to start on a real hypervisor, and one whose threads are moved; each with an error message."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.guest.labs import PATIENCE_S

from iolab.errors import LabError
from iolab.image import Image
from iolab.image.emulator import Emulator
from iolab.lab.actions import PinGuest
from iolab.lab.guests.guest import Guest
from iolab.run.agents import Agents
from iolab.run.guests.boot import Source, find_here
from iolab.run.guests.guests import BOOT_DEADLINE_S, Guests
from iolab.run.guests.hypervisors import FindEmulator, Hypervisors, find_emulator

GUEST = Guest(name="dut", engine="qemu", image="linux", memory_bytes=512 << 20, cpus=2, accel="tcg", nics=())


def guests(
    agents: Agents,
    change: Callable[[Source], Source] = lambda s: s,
    emulator: FindEmulator = find_emulator,
    deadline_s: float = BOOT_DEADLINE_S,
) -> Guests:
    """Return guests of the local host that start with a wrong image, kernel or option."""
    hypervisors = Hypervisors(agents, lambda guest: change(find_here(guest)), emulator)
    return Guests(agents, hypervisors, boot_deadline_s=deadline_s)


@pytest.mark.full
def test_guest_that_never_boots_is_reported_with_its_console_at_the_deadline(
    agents: Agents,
) -> None:
    """Let the guest's firmware wait for a key."""
    waits = ("-boot", "menu=on,splash-time=60000", "-machine", "graphics=off")

    def waiting(guest: Guest) -> Emulator:
        return replace(find_emulator(guest), arguments=waits)

    with pytest.raises(
        LabError,
        match=r"(?s)starting guest dut failed: the agent in the guest sent nothing for 10 s.*Press ESC for boot menu",
    ):
        guests(agents, emulator=waiting, deadline_s=10).start(GUEST, "").result(PATIENCE_S)


@pytest.mark.full
def test_invalid_initrd_is_reported_with_the_kernel_panic_of_the_guest(
    agents: Agents, tmp_path: Path
) -> None:
    """Report the panic without waiting for the deadline."""
    rubbish = tmp_path / "initrd"
    rubbish.write_bytes(bytes(4096))

    def without(source: Source) -> Source:
        return replace(source, boot=replace(source.boot, initrd=str(rubbish)))

    with pytest.raises(LabError, match=r"starting guest dut failed: .*Kernel panic - not syncing"):
        guests(agents, without).start(GUEST, "").result(PATIENCE_S)


def test_invalid_kernel_is_reported_with_the_hypervisors_error_message(
    agents: Agents, tmp_path: Path
) -> None:
    """Quote QEMU's error message."""
    rubbish = tmp_path / "vmlinux"
    rubbish.write_bytes(b"no kernel" * 500)

    def other(source: Source) -> Source:
        return replace(source, boot=replace(source.boot, kernel=str(rubbish)))

    with pytest.raises(
        LabError, match=r"starting guest dut failed: the hypervisor exited with status 1: .*kernel"
    ):
        guests(agents, other).start(GUEST, "").result(PATIENCE_S)


@pytest.mark.full
def test_modules_of_a_different_kernel_are_reported_by_the_guests_agent(
    agents: Agents, image: Image, tmp_path: Path
) -> None:
    """Report that no disk is found, and the guest's end."""

    def other(source: Source) -> Source:
        own, signed = (
            f"vermagic={image.manifest.kernel_release} SMP ".encode(),
            b"~Module signature appended~",
        )
        content = image.initrd.read_bytes()
        assert own in content
        initrd = tmp_path / "initrd"
        initrd.write_bytes(content.replace(own, own[:-4] + b"UP  ").replace(signed, signed.swapcase()))
        return replace(source, boot=replace(source.boot, initrd=str(initrd)))

    with pytest.raises(
        LabError, match=r"(?s)starting guest dut failed: .*virtio_blk.ko': Exec format error.*powering off"
    ):
        guests(agents, other).start(GUEST, "").result(PATIENCE_S)


def test_too_much_guest_memory_is_reported_with_advice(agents: Agents) -> None:
    """Request 1024 TiB."""
    with pytest.raises(
        LabError, match=r"(?s)starting guest dut failed: the hypervisor exited with status 1: .*memory"
    ):
        guests(agents).start(replace(GUEST, memory_bytes=1 << 50), "").result(PATIENCE_S)


@pytest.fixture(scope="module")
def pair(lasting_agents: Agents) -> Iterator[Guests]:
    """Provide two running guests, `one` and `other`."""
    made = guests(lasting_agents)
    starting = [made.start(replace(GUEST, name=name), "") for name in ("one", "other")]
    for each in starting:
        each.result(PATIENCE_S)
    yield made
    made.stop([name for name in ("one", "other") if made.started(name)])


def test_vcpu_threads_run_on_their_pinned_cpus(pair: Guests) -> None:
    """Read /proc independently of iolab: one thread on CPU 0, one on CPU 1."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    pair.pin(PinGuest("one", (cpus[0], cpus[-1]))).result(PATIENCE_S)
    running = pair.started("one")
    assert running is not None
    seen = {}
    for task in Path(f"/proc/{running.pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        if name.startswith("CPU "):
            seen[name.split("/")[0]] = os.sched_getaffinity(int(task.name))
    assert seen == {"CPU 0": {cpus[0]}, "CPU 1": {cpus[-1]}}


def test_each_hypervisor_runs_as_a_separate_unprivileged_user(pair: Guests) -> None:
    """Read /proc independently of iolab, for two guests."""
    pids = []
    for name in ("one", "other"):
        running = pair.started(name)
        assert running is not None
        pids.append(running.pid)
    users = set()
    for pid in pids:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = {word: rest.split() for word, _, rest in (line.partition(":") for line in lines)}
        assert (status["Groups"], status["CapEff"], status["CapPrm"]) == ([], ["0" * 16], ["0" * 16])
        assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"])
        users |= {*status["Uid"], *status["Gid"]}
    assert len(users) == 2
    assert "0" not in users


def test_change_that_a_guest_cannot_undo_is_reported_before_the_guest_stops(
    pair: Guests, lasting_agents: Agents
) -> None:
    """Quote the failed command; stop the guest, and undo the rest."""
    for key, argv in (("lasting", ["ls", "/nowhere"]), ("passing", ["true"])):
        undo = {"kind": "command", "argv": argv, "netns": None}
        assert lasting_agents.of("other").run(["true"], undo=undo, undo_key=key).succeeded
    pair.stop(["other"])
    (told,) = map(str, pair.troubles)
    assert (
        "guest other could not undo these changes before it was stopped: lasting: running 'ls /nowhere'"
        in told
    )
    assert "passing" not in told
    assert "other" not in lasting_agents
