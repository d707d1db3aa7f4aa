"""Guests that do not come up on a real hypervisor, and one whose threads are moved; each said in words."""

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
    """Return guests of this computer that are started from something else than they should be."""
    hypervisors = Hypervisors(agents, lambda guest: change(find_here(guest)), emulator)
    return Guests(agents, hypervisors, boot_deadline_s=deadline_s)


@pytest.mark.full
def test_a_guest_that_never_boots_is_given_up_at_the_deadline_with_what_its_console_says(
    agents: Agents,
) -> None:
    """Its firmware waits for a key."""
    waits = ("-boot", "menu=on,splash-time=60000", "-machine", "graphics=off")

    def waiting(guest: Guest) -> Emulator:
        return replace(find_emulator(guest), arguments=waits)

    with pytest.raises(
        LabError,
        match=r"(?s)starting guest dut failed: the agent in the guest sent nothing for 10 s.*Press ESC for boot menu",
    ):
        guests(agents, emulator=waiting, deadline_s=10).start(GUEST, "").result(PATIENCE_S)


@pytest.mark.full
def test_a_first_stage_that_is_none_is_told_by_the_kernels_panic(agents: Agents, tmp_path: Path) -> None:
    """Nobody waits for a deadline; the console's words are the reason."""
    rubbish = tmp_path / "initrd"
    rubbish.write_bytes(bytes(4096))

    def without(source: Source) -> Source:
        return replace(source, boot=replace(source.boot, initrd=str(rubbish)))

    with pytest.raises(LabError, match=r"starting guest dut failed: .*Kernel panic - not syncing"):
        guests(agents, without).start(GUEST, "").result(PATIENCE_S)


def test_a_kernel_that_is_none_is_told_in_the_hypervisors_words(agents: Agents, tmp_path: Path) -> None:
    """QEMU's own sentence."""
    rubbish = tmp_path / "vmlinux"
    rubbish.write_bytes(b"no kernel" * 500)

    def other(source: Source) -> Source:
        return replace(source, boot=replace(source.boot, kernel=str(rubbish)))

    with pytest.raises(
        LabError, match=r"starting guest dut failed: the hypervisor exited with status 1: .*kernel"
    ):
        guests(agents, other).start(GUEST, "").result(PATIENCE_S)


@pytest.mark.full
def test_modules_of_another_kernel_are_told_by_the_guests_agent(
    agents: Agents, image: Image, tmp_path: Path
) -> None:
    """The kernel takes none of them, so no disk is found; the guest ends at once and says why."""

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


def test_more_memory_than_there_is_is_told_with_advice(agents: Agents) -> None:
    """The kernel gives no 1024 TiB."""
    with pytest.raises(
        LabError, match=r"(?s)starting guest dut failed: the hypervisor exited with status 1: .*memory"
    ):
        guests(agents).start(replace(GUEST, memory_bytes=1 << 50), "").result(PATIENCE_S)


@pytest.fixture(scope="module")
def pair(lasting_agents: Agents) -> Iterator[Guests]:
    """Two guests that came up, `one` and `other`."""
    made = guests(lasting_agents)
    starting = [made.start(replace(GUEST, name=name), "") for name in ("one", "other")]
    for each in starting:
        each.result(PATIENCE_S)
    yield made
    made.stop([name for name in ("one", "other") if made.started(name)])


def test_virtual_cpus_are_where_they_were_put(pair: Guests) -> None:
    """Read from /proc by nobody of ours: the two threads may run on CPU 0 and on CPU 1, and nowhere else."""
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


def test_a_hypervisor_is_a_user_of_its_own_without_any_rights(pair: Guests) -> None:
    """Read from /proc by nobody of ours; another guest is another user."""
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


def test_what_a_guest_cannot_undo_is_told_before_it_ends(pair: Guests, lasting_agents: Agents) -> None:
    """In the words of the command that failed there; the guest ends all the same, and what could be undone was."""
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
