"""The guest image on an emulated computer: it starts, has what it promises, and nothing of its builder."""

import hashlib
import json
import platform
from pathlib import Path

from tests.guest.image.conftest import Guest

from iolab.image import Image

COMMANDS = {
    "link:veth": "ip link add v0 type veth peer name v1",
    "link:bridge": "ip link add b0 type bridge",
    "link:vlan": "ip link add link b0 name b0.5 type vlan id 5",
    "link:macvtap": "ip link add link v0 name m0 type macvtap",
    "link:ifb": "ip link add i0 type ifb",
    "link:tun": "modprobe tun && ip tuntap add t0 mode tap",
    "link:vxlan": "ip link add x0 type vxlan id 7 dstport 4789",
    "qdisc:htb": "tc qdisc replace dev v0 root handle 1: htb",
    "filter:u32": "tc filter add dev v0 parent 1: protocol ip u32 match ip dst 198.18.0.1/32 flowid 1:1",
    "qdisc:tbf": "tc qdisc replace dev v1 root tbf rate 1mbit burst 10kb latency 10ms",
    "qdisc:netem": "tc qdisc replace dev v1 root netem delay 1ms",
    "qdisc:fq": "tc qdisc replace dev v1 root fq",
    "qdisc:etf": "tc qdisc replace dev v1 root etf clockid CLOCK_TAI delta 100000",
    "device:vhost-net": "modprobe vhost_net && test -c /dev/vhost-net",
    "device:kvm": "modprobe kvm_amd && test -c /dev/kvm",
    "generator:pktgen": "modprobe pktgen && test -e /proc/net/pktgen/pgctrl",
    "target:iscsi": "modprobe -a iscsi_target_mod target_core_file && mkdir -p /sys/kernel/config/target/iscsi",
    "initiator:iscsi": "modprobe iscsi_tcp",
}
"""A feature that a manifest promises, and how it shows."""


def test_the_agent_answers_as_the_guests_first_process(guest: Guest, image: Image) -> None:
    """It greets, and it is the one that was built in."""
    params = guest.hello["params"]
    assert guest.hello["method"] == "hello"
    assert params["build"] == f"sha256:{image.manifest.agent_sha256}"
    assert "machine" in params["capabilities"]


def test_the_kernel_is_the_one_of_the_manifest(guest: Guest, image: Image) -> None:
    """Kernel, release of Debian and modules fit together."""
    assert guest.shell("uname -r").strip() == image.manifest.kernel_release
    assert f"VERSION_CODENAME={image.manifest.suite}" in guest.shell("cat /etc/os-release")


def test_looking_for_what_the_kernel_can_make_leaves_no_interface(guest: Guest) -> None:
    """A module that the kernel loads by itself makes some of its own, outside the namespace of the trial."""
    before = guest.shell("ls -d /sys/class/net/*/")
    assert guest.call("facts.read", programs=[], settings=[])["features"]["link:ifb"]
    assert guest.shell("ls -d /sys/class/net/*/") == before


def test_promised_features_can_be_made(guest: Guest, image: Image) -> None:
    """What the manifest says of the kernel without starting it is so when it is started."""
    assert set(COMMANDS) <= set(image.manifest.features)
    script = "".join(f"({command}) >/tmp/said 2>&1 || echo {name}\n" for name, command in COMMANDS.items())
    assert guest.shell(script).split() == []


def test_the_measuring_programs_run(guest: Guest) -> None:
    """iperf3 measures over the loopback; the others tell their version."""
    said = guest.shell(
        "iperf3 --server --one-off --daemon; until ss -Hltn sport = :5201 | grep -q .; do sleep 0.1; done; "
        "iperf3 --client 127.0.0.1 --time 1 --json"
    )
    assert json.loads(said)["end"]["sum_received"]["bits_per_second"] > 1e6
    told = guest.shell("fio --version; hdparm -V; ethtool --version; ip -V; command -v bonnie++ tgtd iscsid")
    assert [word for word in ("fio-", "hdparm v", "ethtool version", "bonnie++") if word not in told] == []


def test_a_guest_can_start_guests_from_its_own_disks(guest: Guest, image: Image) -> None:
    """Kernel and first stage lie on its second disk, as they are outside."""
    sums = guest.shell("cd /lib/modules/boot && md5sum vmlinux initrd").split()[::2]
    assert sums == [hashlib.md5(path.read_bytes()).hexdigest() for path in (image.vmlinux, image.initrd)]


def test_its_packages_are_those_of_the_list(guest: Guest, image: Image) -> None:
    """dpkg's own list, and the kernel."""
    inside = guest.shell("dpkg-query -W -f '${Package}=${Version}\\n'").split()
    extra = set(image.packages) - set(inside)
    assert set(inside) <= set(image.packages)
    assert [line.partition("=")[0] for line in extra] == [f"linux-image-{image.manifest.kernel_release}"]


def test_nothing_of_this_machine_is_in_it(guest: Guest) -> None:
    """No address of an archive, no host name, no identity, no keys."""
    assert guest.shell("ls /etc/apt/sources.list.d").strip() == ""
    assert guest.shell("grep -rl '^deb \\|^URIs' /etc/apt || true").strip() == ""
    names = "/etc/hosts /etc/mailname /etc/iscsi /etc/tgt /etc/default"
    assert guest.shell(f"grep -rlw '{platform.node()}' {names} 2>/dev/null || true").strip() == ""
    assert guest.shell("cat /etc/hostname /etc/resolv.conf /etc/machine-id 2>/dev/null || true").strip() == ""
    assert guest.shell("find /etc/ssh /root /home -type f -name '*key*'  2>/dev/null || true").strip() == ""


def test_what_a_guest_writes_goes_to_memory(guest: Guest, image: Image) -> None:
    """The image's files stay as they are."""
    before = image.root.stat().st_mtime_ns
    guest.shell("echo hello > /etc/written; rm -r /usr/share/perl*; sync; test -s /etc/written")
    assert image.root.stat().st_mtime_ns == before


def test_an_image_is_small(image: Image) -> None:
    """It is copied to other hosts and kept in a cache."""
    assert image.size_bytes <= 500_000_000
    assert image.size_bytes == sum(
        path.stat().st_size
        for path in image.folder.iterdir()
        if path.name not in ("image.json", "facts.json")
    )
    assert Path(image.folder).name == image.manifest.digest
