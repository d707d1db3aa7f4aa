"""Volumes of guests: their place, the effects of a level change, and refused or unsupported ones."""

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from tests.unit.lab.conftest import needs
from tests.wording import in_words

from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.model.machines import Machine
from iolab.experiment.model.volumes import Volume
from iolab.lab.actions import Command, Run, StartGuest, extract
from iolab.lab.compose import compose
from iolab.lab.guests.guest import Guest, GuestDisk
from iolab.lab.guests.qemu import Boot, Place, qemu_argv
from iolab.lab.readback.disks import BlockDevice
from iolab.lab.readback.values import value_shown
from iolab.lab.resources import Resource, difference
from iolab.lab.volumes import resources as volumes
from iolab.lab.volumes.scripts import REFUSE_EXISTING
from iolab.messages.unmet import UnmetRequirement

SEEN = """\
vda 279281664 virtio_blk -
vdc 16777216 virtio_blk scratch
nvme0n1 29360128 nvme vda
sda 33554432 vmw_pvscsi e
xvdc 8388608 vbd -
"""
"""Output of guests (Linux 6.1): an image disk, a virtio disk, one with another's name, and others."""


def lab_of(disks: list[dict[str, object]], sizes: Mapping[str, str], **dut: object) -> Lab:
    """Return a lab with one guest, and volumes of the local host."""
    machine = TypeAdapter[Machine](Machine).validate_python({"kind": "vm", "disks": disks} | dut)
    return Lab(
        {"dut": machine}, {}, {name: Volume.model_validate({"size": size}) for name, size in sizes.items()}
    )


def made(lab: Lab) -> dict[str, Resource]:
    """Return the resources of a lab by key."""
    return {resource.key: resource for resource in compose(lab, cpus=2)}


def guest(lab: Lab) -> Guest:
    """Return the guest of the start action."""
    (action,) = made(lab)["vm:dut"].actions
    assert isinstance(action, StartGuest)
    return action.guest


def scratch(bus: str = "virtio-blk", size: str = "16M", **dut: object) -> Lab:
    """Return a guest with one disk."""
    return lab_of([{"volume": "scratch", "bus": bus}], {"scratch": size}, **dut)


FOREIGN: dict[str, Callable[[Path, Path], None]] = {
    "file": lambda path, target: path.touch(),
    "link": lambda path, target: path.symlink_to(target),
    "lost": lambda path, target: path.symlink_to(target / "nowhere"),
    "folder": lambda path, target: path.mkdir(),
}
"""Foreign objects at a path where a lab creates something."""
LATER = "not yet supported by this version of iolab"


def built(lab: Lab) -> list[str]:
    """Return the refusals of a lab."""
    return [in_words(each) for each in needs(Setup(lab, {})) if isinstance(each, UnmetRequirement)]


# Created ---------------------------------------------------------------------------------------------------


def test_volume_file_is_created_on_the_parent_before_the_guest_and_removed_after_it() -> None:
    """Check the file first, without an undo: a foreign file stays."""
    lab = made(scratch())
    volume = lab["volume:scratch"]
    look, make, fill = volume.actions
    assert isinstance(fill, Run)
    assert (fill.undo, fill.do.argv[-3:]) == (None, (fill.do.argv[-3], "0", str(1 << 30)))
    assert isinstance(look, Run)
    assert isinstance(make, Run)
    assert look.undo is None
    assert make.do.argv[-2:] == ("/var/tmp/iolab-scratch", "16777216")
    assert make.undo == Command(("rm", "-f", "/var/tmp/iolab-scratch", "/var/tmp/iolab-scratch.made"))
    assert (volume.kernel, lab["vm:dut"].kernel) == ("", "")
    assert "volume:scratch" in lab["vm:dut"].needs
    assert guest(scratch()).disks == (GuestDisk("/var/tmp/iolab-scratch", "scratch"),)


def test_size_and_controller_of_each_guest_disk_are_read_back_and_the_disk_gets_a_stable_name() -> None:
    """Name it independently of the kernel's discovery order."""
    disks = made(scratch("nvme"))["disks:dut"]
    expected = {one.what: (one.reading.how, one.expected) for one in disks.expect}
    assert expected == {
        "size of volume scratch in dut": (BlockDevice("scratch", "size"), "16777216"),
        "driver of volume scratch in dut": (BlockDevice("scratch", "driver"), "nvme"),
    }
    link = disks.actions[-1]
    assert isinstance(link, Run)
    assert link.do.argv == ("ln", "-s", "-f", "-n", "-T", "{found}", "/dev/iolab-scratch")
    assert link.find is not None
    assert extract(link.find, SEEN) == "/dev/vdc"
    assert disks.kernel == "dut"


@pytest.mark.parametrize("bus", ["ide", "virtio-scsi", "pvscsi"])
def test_scsi_and_sata_disks_load_the_sd_mod_driver(bus: str) -> None:
    """Load it, because only the controllers' drivers are loaded automatically."""
    first = made(scratch(bus))["disks:dut"].actions[0]
    assert first == Run(Command(("modprobe", "sd_mod")))
    assert made(scratch("nvme"))["disks:dut"].actions[0] != first


def test_volume_on_a_guest_is_stored_in_the_guests_memory() -> None:
    """Create it by the guest's kernel, within the memory limit."""
    machines = TypeAdapter(dict[str, Machine]).validate_python(
        {
            "outer": {"kind": "vm", "memory": "1G"},
            "dut": {"kind": "vm", "on": "outer", "memory": "256M", "disks": [{"volume": "v"}]},
        }
    )
    lab = Lab(machines, {}, {"v": Volume.model_validate({"size": "8M", "on": "outer"})})
    volume = made(lab)["volume:v"]
    assert (volume.kernel, volume.needs) == ("outer", ("ipv6:outer",))
    assert guest(lab).disks[0].in_memory
    assert ",cache=writeback" in " ".join(argv(guest(lab)))
    assert ",cache=none" in " ".join(argv(guest(scratch())))


def argv(guest: Guest) -> tuple[str, ...]:
    """Return the command that starts a guest."""
    return qemu_argv(guest, Place(boot=Boot("k", "i", "r", "m"), folder="/f", accel="tcg"))


def test_disks_of_a_xen_domain_are_identified_by_number() -> None:
    """Count after two image disks, because Xen disks have no serial numbers."""
    lab = lab_of([{"volume": "a"}, {"volume": "b"}], {"a": "8M", "b": "8M"}, engine="xen")
    expected = [one.reading.how for one in made(lab)["disks:dut"].expect]
    assert [how.known_by for how in expected if isinstance(how, BlockDevice)] == [
        "xvdc",
        "xvdc",
        "xvdd",
        "xvdd",
    ]


def test_disks_are_counted_per_bus_and_serial_numbers_are_limited_to_20_characters() -> None:
    """Shorten a long name, and keep it unique."""
    long = "a-volume-with-a-very-long-name"
    disks: list[dict[str, object]] = [{"volume": "a"}]
    disks += [{"volume": name, "bus": "ide"} for name in ("b", long)]
    words = argv(guest(lab_of(disks, {"a": "4K", "b": "4K", long: "4K"})))
    assert "ide-hd,bus=ide.0,drive=disk1,serial=b" in words
    serial = volumes.serial_of(long)
    assert f"ide-hd,bus=ide.1,drive=disk2,serial={serial}" in words
    assert len(serial) == 20
    assert serial != volumes.serial_of(f"{long}2")


# Changed ---------------------------------------------------------------------------------------------------


def changed(old: Lab, new: Lab) -> set[str]:
    """Return the keys of the undone resources between two labs."""
    return {one.key for one in difference(compose(old, cpus=2), compose(new, cpus=2)).undo}


def test_bus_change_restarts_the_guest_and_keeps_the_volume() -> None:
    """Keep the file, and start a different guest."""
    gone = changed(scratch("nvme"), scratch("ide"))
    assert {"vm:dut", "disks:dut"} <= gone
    assert "volume:scratch" not in gone


def test_size_change_recreates_volume_and_guest() -> None:
    """Recreate both, because a running guest cannot get a different file."""
    assert {"volume:scratch", "vm:dut", "disks:dut"} <= changed(scratch(), scratch(size="32M"))


def test_kernel_setting_change_restarts_neither_guest_nor_volume() -> None:
    """Change it at run time."""
    gone = changed(scratch(), scratch(settings={"net.ipv4.tcp_sack": "0"}))
    assert gone.isdisjoint({"vm:dut", "volume:scratch", "disks:dut"})


# Read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known_by", "node", "size", "driver"),
    [
        ("scratch", "/dev/vdc", "16777216", "virtio_blk"),
        ("vda", "/dev/nvme0n1", "29360128", "nvme"),
        ("xvdc", "/dev/xvdc", "8388608", "vbd"),
        ("lost", None, None, None),
    ],
)
def test_disk_is_found_by_serial_number_before_name(
    known_by: str, node: str | None, size: str | None, driver: str | None
) -> None:
    """Prefer the disk with the serial number if it is the name of a different disk."""
    found = [value_shown(BlockDevice(known_by, field), SEEN) for field in ("node", "size", "driver")]
    assert found == [node, size, driver]


# Commands --------------------------------------------------------------------------------------------------


def shell(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script like an agent."""
    return subprocess.run(
        ["sh", "-c", script, *words], capture_output=True, text=True, timeout=30, check=False
    )


def test_volume_file_is_created_privately_and_never_through_a_link(tmp_path: Path) -> None:
    """Leave an existing file unchanged."""
    path = tmp_path / "v"
    assert shell(volumes.MAKE, str(path), "1048576").returncode == 0
    seen = path.stat()
    assert (seen.st_size, seen.st_mode & 0o777) == (1 << 20, 0o600)
    assert seen.st_blocks * 512 >= 1 << 20
    link, target = tmp_path / "l", tmp_path / "target"
    link.symlink_to(target)
    for there in (path, link):
        assert shell(volumes.MAKE, str(there), "4096").returncode != 0
    assert path.stat().st_size == 1 << 20
    assert not target.exists()


def test_volume_is_not_created_over_an_existing_file(tmp_path: Path) -> None:
    """Neither write nor replace a foreign file, link or folder."""
    own = tmp_path / "own"
    assert shell(volumes.MAKE, str(own), "4096").returncode == 0
    assert own.samefile(tmp_path / "own.made")
    target = tmp_path / "target"
    target.write_text("precious")
    for kind, make in FOREIGN.items():
        for name in (kind, f"mark-{kind}.made"):
            make(tmp_path / name, target)
            path = str(tmp_path / name).removesuffix(".made")
            refused = shell(volumes.LOOK, path, "4096")
            assert refused.returncode == 1
            assert f"{tmp_path / name} exists already (" in refused.stderr
            assert shell(volumes.MAKE, path, "4096").returncode != 0
    assert target.read_text() == "precious"


def test_existing_file_at_the_path_of_a_node_or_mount_is_refused_with_its_type_and_a_remedy(
    tmp_path: Path,
) -> None:
    """Detect a dangling link, too."""
    target = tmp_path / "target"
    target.write_text("precious")
    said = {}
    for kind, make in FOREIGN.items():
        make(tmp_path / kind, target)
        refused = shell(REFUSE_EXISTING, str(tmp_path / kind))
        said[kind] = (refused.returncode, refused.stderr.split(" exists already (")[1].split(" of user ")[0])
        assert "remove it if no lab does, or give the volume another name" in refused.stderr
    assert said == {
        "file": (1, "regular empty file"),
        "link": (1, "symbolic link"),
        "lost": (1, "symbolic link"),
        "folder": (1, "directory"),
    }
    assert shell(REFUSE_EXISTING, str(tmp_path / "free")).returncode == 0


def test_existing_file_and_lack_of_space_are_reported_before_creation(tmp_path: Path) -> None:
    """Report it before anything is created, with a remedy."""
    path = tmp_path / "v"
    path.touch()
    there = shell(volumes.LOOK, str(path), "4096")
    assert there.returncode == 1
    assert f"{path} exists already (regular empty file of user {os.getuid()})" in there.stderr
    assert "or give the volume another name" in there.stderr
    assert path.exists(), "younger than the computer's last start: somebody may use it"
    small = shell(volumes.LOOK, str(tmp_path / "w"), str(1 << 60))
    assert small.returncode == 1
    assert f"{1 << 40} MiB are wanted and " in small.stderr
    assert shell(volumes.LOOK, str(tmp_path / "w"), "4096").returncode == 0


def test_leftovers_from_before_a_reboot_are_removed_and_unmarked_files_are_kept(
    tmp_path: Path,
) -> None:
    """Simulate a host that was started tomorrow; keep links and folders."""
    clock = "$(sed -n 's/^btime //p' /proc/stat)"
    assert clock in volumes.LOOK
    later = volumes.LOOK.replace(clock, "99999999999")
    path, plain, link, folder = (tmp_path / name for name in ("v", "p", "l", "f"))
    assert shell(volumes.MAKE, str(path), "4096").returncode == 0
    plain.touch()
    link.symlink_to(tmp_path / "nowhere")
    folder.mkdir()
    there = (path, plain, link, folder)
    assert [shell(later, str(one), "4096").returncode for one in there] == [0, 1, 1, 1]
    assert [one.is_symlink() or one.exists() for one in there] == [False, True, True, True]


# Refused ---------------------------------------------------------------------------------------------------


def test_local_disks_of_a_guest_are_supported() -> None:
    """Refuse none of them."""
    assert built(scratch()) == []


def test_every_byte_of_a_volume_is_written_once(tmp_path: Path) -> None:
    """Write in parts of bounded time, the last one shorter; never create the file."""
    path = tmp_path / "volume"
    path.write_bytes(bytes(10 << 20))
    for at in range(0, 10 << 20, 4 << 20):
        words = ("sh", "-c", volumes.FILL, str(path), str(10 << 20), str(at), str(4 << 20))
        subprocess.run(words, check=True)
    data = path.read_bytes()
    assert len(data) == 10 << 20
    assert all(any(data[place : place + 4096]) for place in range(0, 10 << 20, 4096))
    gone = ("sh", "-c", volumes.FILL, str(tmp_path / "none"), "4096", "0", "4096")
    assert subprocess.run(gone, capture_output=True).returncode != 0
    assert not (tmp_path / "none").exists()


def test_disk_bus_on_a_xen_domain_and_a_seventh_sata_disk_are_refused() -> None:
    """Report the text to write for each."""
    domain = lab_of([{"volume": "v", "bus": "ide"}], {"v": "4K"}, engine="xen")
    assert "disk v of machine dut: the disk bus of a Xen domain cannot be chosen; remove `bus`" in built(
        domain
    )
    names = [f"v{number}" for number in range(7)]
    many = lab_of([{"volume": name, "bus": "ide"} for name in names], dict.fromkeys(names, "4K"))
    assert built(many) == [
        "disks of machine dut: the ide bus has only 6 ports; use a different bus for the other disks"
    ]
