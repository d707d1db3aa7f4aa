"""The command line of QEMU and the configuration of a Xen domain, from a guest and its parent's place."""

import shutil
import subprocess
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import pytest

from iolab.lab.guests.guest import (
    FunctionBackend,
    Guest,
    GuestDisk,
    GuestNic,
    MacvtapBackend,
    TapBackend,
    VhostUserBackend,
    passed_files,
)
from iolab.lab.guests.qemu import PARENTS_DISKS, Boot, Place, qemu_argv
from iolab.lab.guests.start import OwnUser, own_user_of, switch_argv, switched
from iolab.lab.guests.xen import xl_config
from iolab.registry.nics import NICS

BOOT = Boot("/i/vmlinux", "/i/initrd", "/i/root.squashfs", "/i/modules.squashfs")
PLACE = Place(boot=BOOT, folder="/run/iolab/f/dut", accel="tcg", program=("/usr/bin/qemu-system-x86_64",))
TAP = TapBackend("iolab-t", "p0")


def guest(*nics: GuestNic, **more: Any) -> Guest:
    """Return a guest with these NICs."""
    plain = Guest(
        name="dut", engine="qemu", image="linux", memory_bytes=512 << 20, cpus=2, accel="auto", nics=nics
    )
    return replace(plain, **more)


def after(argv: tuple[str, ...], option: str) -> list[str]:
    """Return the values of every occurrence of an option."""
    return [value for word, value in pairwise(argv) if word == option]


def test_qemu_boots_a_guest_from_its_image_through_pvh() -> None:
    """Use the kernel options that were measured to boot fast; root and modules are the first two disks."""
    argv = qemu_argv(guest(), PLACE)
    assert argv[:3] == ("/usr/bin/qemu-system-x86_64", "-name", "dut,debug-threads=on")
    assert (after(argv, "-kernel"), after(argv, "-initrd")) == (["/i/vmlinux"], ["/i/initrd"])
    (words,) = after(argv, "-append")
    assert words.startswith("console=ttyS0 quiet panic=-1 nokaslr mitigations=off cryptomgr.notests ")
    assert words.endswith("net.ifnames=0 iolab.root=/dev/vda iolab.modules=/dev/vdb iolab.name=dut")
    drives = after(argv, "-drive")
    assert [drive.split(",")[2] for drive in drives] == ["file=/i/root.squashfs", "file=/i/modules.squashfs"]
    assert all("readonly=on" in drive for drive in drives)
    assert (after(argv, "-m"), after(argv, "-smp"), after(argv, "-accel")) == (["512M"], ["2"], ["tcg"])


def test_guest_channel_console_and_monitor_are_sockets_in_its_folder() -> None:
    """Name the channel port of the agent; let no socket wait for a reader."""
    argv = qemu_argv(guest(), PLACE)
    sockets = [value for value in after(argv, "-chardev") if "path=" in value]
    assert sockets == [
        f"socket,id={name},path=/run/iolab/f/dut/{name},server=on,wait=off" for name in ("console", "agent")
    ]
    assert after(argv, "-qmp") == ["unix:/run/iolab/f/dut/monitor,server=on,wait=off"]
    ports = [device for device in after(argv, "-device") if device.startswith("virtserialport")]
    assert ports == ["virtserialport,bus=serial0.0,chardev=agent,name=org.iolab.agent"]


def test_guest_nic_consists_of_a_passed_tap_and_a_qemu_device() -> None:
    """Pass the file's number to QEMU; e1000 has neither queues nor rings."""
    card = GuestNic("eth0", "02:00:00:00:00:01", "e1000", TAP)
    other = GuestNic("eth1", "02:00:00:00:00:02", "e1000", MacvtapBackend("iolab-link-x", "m1"))
    argv = qemu_argv(guest(card, other), PLACE)
    assert after(argv, "-netdev") == ["tap,id=net0,fd=10", "tap,id=net1,fd=11"]
    assert after(argv, "-device")[-1] == "e1000,netdev=net1,mac=02:00:00:00:00:02"
    assert [asdict(one) for one in passed_files(guest(card, other))] == [
        {"fd": 10, "open": {"kind": "tap", "netns": "iolab-t", "name": "p0",
                            "vnet_header": True, "multi_queue": False}},
        {"fd": 11, "open": {"kind": "macvtap", "netns": "iolab-link-x", "interface": "m1"}},
    ]  # fmt: skip


def test_vhost_nic_with_queues_has_a_tap_and_a_vhost_device_per_queue() -> None:
    """Count one interrupt per direction of a queue, one for control and one for changes."""
    tap = TapBackend(None, "p0", vhost=True)
    card = GuestNic("eth0", "02:00:00:00:00:01", "vhost-net", tap, queues=2, rx_ring=512, tx_ring=256)
    argv = qemu_argv(guest(card), replace(PLACE, first_fd=30))
    assert after(argv, "-netdev") == ["tap,id=net0,fds=30:31,vhost=on,vhostfds=32:33"]
    assert after(argv, "-device")[-1] == (
        "virtio-net-pci,netdev=net0,mac=02:00:00:00:00:01,mq=on,vectors=6,rx_queue_size=512,tx_queue_size=256"
    )
    opened = [one.open for one in passed_files(guest(card), 30)]
    assert [one.kind for one in opened] == ["tap", "tap", "device", "device"]
    single = qemu_argv(guest(replace(card, queues=1)), PLACE)
    assert after(single, "-netdev") == ["tap,id=net0,fd=10,vhost=on,vhostfd=11"]


def test_nested_guest_boots_from_the_disks_of_its_parent() -> None:
    """Pass the CPU model through with hardware virtualisation."""
    argv = qemu_argv(guest(), Place(boot=PARENTS_DISKS, folder="/f", accel="kvm"))
    assert after(argv, "-kernel") == ["/lib/modules/boot/vmlinux"]
    assert [drive.split(",")[2] for drive in after(argv, "-drive")] == ["file=/dev/vda", "file=/dev/vdb"]
    assert after(argv, "-cpu") == ["host"]


def test_xen_gives_dom0_the_memory_that_is_not_assigned_to_domains() -> None:
    """Load kernel and initramfs as modules of the hypervisor; emulated SMAP would kill Dom0."""
    boot = replace(BOOT, xen="/i/xen", initrd="/i/a,b")
    dom0 = guest(memory_bytes=1536 << 20, domains_bytes=256 << 20, domains_cpus=1)
    argv = qemu_argv(dom0, replace(PLACE, boot=boot))
    assert after(argv, "-kernel") == ["/i/xen"]
    assert "dom0_mem=1088M,max:1088M dom0_max_vcpus=2 dom0_vcpus_pin" in after(argv, "-append")[0]
    assert after(argv, "-smp") == ["3"]
    kernel, initrd = after(argv, "-initrd")[0].split(",", 1)
    assert kernel.startswith("/i/vmlinux console=hvc0 quiet ")
    assert initrd == "/i/a,,b"
    assert after(argv, "-cpu") == ["max,-smap,-rdtscp"]


def test_guest_disks_are_on_the_requested_bus() -> None:
    """List them after the image's own; add a controller once."""
    disks = (GuestDisk("/d/0", "a"), GuestDisk("/d/1", "b", "pvscsi"), GuestDisk("/d/2", "c", "pvscsi"))
    devices = after(qemu_argv(guest(disks=disks), PLACE), "-device")
    assert devices[-4:] == [
        "pvscsi,id=pvscsi", "virtio-blk-pci,drive=disk0,serial=a",
        "scsi-hd,bus=pvscsi.0,drive=disk1,serial=b", "scsi-hd,bus=pvscsi.0,drive=disk2,serial=c",
    ]  # fmt: skip


def test_xen_domain_is_paravirtual_and_uses_its_console_as_channel() -> None:
    """Use its parent's kernel and disks read-only; do not restart it after any end."""
    card = GuestNic("eth0", "02:00:00:00:00:01", "virtio-net", TapBackend(None, "d.eth0"))
    domain = guest(card, name="d", engine="xen", memory_bytes=256 << 20, cpus=1, own_cpus=(2,))
    lines = dict(line.split(" = ", 1) for line in xl_config(domain, "/f", PARENTS_DISKS).splitlines())
    assert (lines["name"], lines["type"], lines["memory"], lines["vcpus"]) == ('"d"', '"pv"', "256", "1")
    assert lines["cpus"] == '[ "2" ]'
    disks = [f"vdev=xvd{letter},access=ro,script=/f/disk,target=/dev/vd{letter}" for letter in "ab"]
    assert lines["disk"] == f'[ "{disks[0]}", "{disks[1]}" ]'
    assert lines["vif"] == '[ "mac=02:00:00:00:00:01,vifname=d.eth0,script=/f/vif" ]'
    assert lines["extra"].startswith('"console=hvc0 ')
    assert (
        "iolab.root=/dev/xvda iolab.modules=/dev/xvdb iolab.name=d iolab.channel=/dev/hvc0" in lines["extra"]
    )
    assert [lines[f"on_{event}"] for event in ("poweroff", "reboot", "crash")] == ['"destroy"'] * 3


def test_vhost_user_nic_shares_all_guest_memory() -> None:
    """Use the settings that work with QEMU 10 and testpmd: shared memory, and the NIC behind a socket."""
    card = GuestNic("eth0", "02:00:00:00:00:01", "vhost-user", VhostUserBackend("iolab-t", "p0", "eth0.sock"))
    argv = qemu_argv(guest(card), PLACE)
    assert after(argv, "-object") == ["memory-backend-memfd,id=mem0,size=512M,share=on"]
    assert after(argv, "-numa") == ["node,memdev=mem0"]
    assert "socket,id=switch0,path=/run/iolab/f/dut/eth0.sock" in after(argv, "-chardev")
    assert after(argv, "-netdev") == ["vhost-user,id=net0,chardev=switch0,queues=1"]
    (device,) = (one for one in after(argv, "-device") if one.startswith("virtio-net-pci"))
    assert device.startswith(
        "virtio-net-pci,netdev=net0,mac=02:00:00:00:00:01,csum=off,gso=off,host_tso4=off"
    )
    assert passed_files(guest(card)) == ()


def test_user_space_switch_connects_the_nic_socket_with_a_dedicated_tap() -> None:
    """Serve QEMU's socket without an input, on any CPU of its agent."""
    backend = VhostUserBackend("iolab-t", "p0", "eth0.sock")
    card = GuestNic("eth0", "02:00:00:00:00:01", "vhost-user", backend, queues=2)
    assert switched(guest(card)) == ((card, backend),)
    argv = switch_argv(card, backend, "/run/iolab/f/dut", "0,2-3")
    assert argv[0] == "dpdk-testpmd"
    own, its = argv[1 : argv.index("--")], argv[argv.index("--") + 1 :]
    assert [word for word in own if word.startswith("--vdev")] == [
        "--vdev=net_vhost0,iface=/run/iolab/f/dut/eth0.sock,queues=2",
        "--vdev=net_tap0,iface=p0",
    ]
    assert {"--no-huge", "--no-pci", "--lcores=(0-1)@(0,2-3)"} <= set(own)
    assert {"--rxq=2", "--txq=2", "--forward-mode=io", "--auto-start", "--stats-period=86400"} <= set(its)


@pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="QEMU is not installed")
def test_installed_qemu_supports_every_device_that_iolab_uses() -> None:
    """Query the program itself."""
    shown = subprocess.run(
        ("qemu-system-x86_64", "-device", "help"), capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 0
    newer = {"igb"}  # from version 8; Debian's backport is checked by the test with guests
    cards = {row.device for row in NICS.values() if row.device is not None}
    named = {*cards, "pcie-root-port", "intel-iommu", "virtio-blk-pci", "virtio-serial-pci",
             "virtserialport", "virtio-scsi-pci", "pvscsi", "nvme", "ide-hd", "scsi-hd", "vfio-pci"}  # fmt: skip
    assert [name for name in sorted(named - newer) if f'name "{name}"' not in shown.stdout] == []


def guest_of_user(*nics: GuestNic, disks: tuple[GuestDisk, ...] = ()) -> Guest:
    """Return a guest with these NICs and disks."""
    return Guest(
        name="dut", engine="qemu", image="linux", memory_bytes=1 << 29, cpus=1, accel="auto", nics=nics,
        disks=disks,
    )  # fmt: skip


def test_unprivileged_guest_may_access_only_its_image_folder_disks_and_kvm() -> None:
    """Exclude a disk that it reaches through the network."""
    place = Place(boot=BOOT, folder="/f", accel="kvm", program_files=("/q",))
    disks = (GuestDisk("/v/a", "a"), GuestDisk("", "b"))
    assert own_user_of(guest_of_user(disks=disks), place) == OwnUser(
        reads=("/i/vmlinux", "/i/initrd", "/i/root.squashfs", "/i/modules.squashfs", "/q"),
        writes=("/f", "/v/a", "/dev/kvm"),
    )


def test_unprivileged_guest_owns_the_socket_of_its_vhost_user_switch() -> None:
    """Create the socket first, by the switch as root."""
    card = GuestNic("p0", "02:00:00:00:00:01", "vhost-user", VhostUserBackend(None, "t0", "switch0"))
    found = own_user_of(guest_of_user(card), Place(boot=BOOT, folder="/f", accel="tcg"))
    assert found is not None
    assert found.writes == ("/f", "/f/switch0")


def test_guest_with_a_passed_through_nic_needs_root() -> None:
    """Require root, because it pins the guest's memory."""
    card = GuestNic("p0", "02:00:00:00:00:01", "sr-iov", FunctionBackend("eth0", 0))
    assert own_user_of(guest_of_user(card), Place(boot=BOOT, folder="/f", accel="kvm")) is None
