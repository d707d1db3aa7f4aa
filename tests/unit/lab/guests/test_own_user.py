"""What a guest's hypervisor reads and writes as a user of its own."""

from iolab.lab.guests.guest import FunctionBackend, Guest, GuestDisk, GuestNic, VhostUserBackend
from iolab.lab.guests.qemu import Boot, Place
from iolab.lab.guests.start import OwnUser, own_user_of

BOOT = Boot("/i/vmlinux", "/i/initrd", "/i/root", "/i/modules")


def guest(*nics: GuestNic, disks: tuple[GuestDisk, ...] = ()) -> Guest:
    """Return a guest with these cards and disks."""
    return Guest(
        name="dut", engine="qemu", image="linux", memory_bytes=1 << 29, cpus=1, accel="auto", nics=nics,
        disks=disks,
    )  # fmt: skip


def test_it_reads_its_image_and_writes_its_folder_its_disks_and_kvm() -> None:
    """A disk that it reaches through the network is no file."""
    place = Place(boot=BOOT, folder="/f", accel="kvm", program_files=("/q",))
    disks = (GuestDisk("/v/a", "a"), GuestDisk("", "b"))
    assert own_user_of(guest(disks=disks), place) == OwnUser(
        reads=("/i/vmlinux", "/i/initrd", "/i/root", "/i/modules", "/q"), writes=("/f", "/v/a", "/dev/kvm")
    )


def test_it_owns_the_socket_of_its_switch() -> None:
    """The switch is root, and makes it first."""
    card = GuestNic("p0", "02:00:00:00:00:01", "vhost-user", VhostUserBackend(None, "t0", "switch0"))
    found = own_user_of(guest(card), Place(boot=BOOT, folder="/f", accel="tcg"))
    assert found is not None
    assert found.writes == ("/f", "/f/switch0")


def test_a_card_that_is_passed_through_needs_root() -> None:
    """It pins the guest's memory."""
    card = GuestNic("p0", "02:00:00:00:00:01", "sr-iov", FunctionBackend("eth0", 0))
    assert own_user_of(guest(card), Place(boot=BOOT, folder="/f", accel="kvm")) is None
