"""The guest image on an emulated computer: it starts, has its manifest's features, and no data of its build host."""

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
"""A feature of a manifest, and the command that shows it."""


def test_agent_runs_as_the_first_process_of_the_guest(guest: Guest, image: Image) -> None:
    """Compare the agent's build with the build in the image's manifest."""
    params = guest.hello["params"]
    assert guest.hello["method"] == "hello"
    assert params["build"] == f"sha256:{image.manifest.agent_sha256}"
    assert "machine" in params["capabilities"]


def test_kernel_and_release_match_the_manifest(guest: Guest, image: Image) -> None:
    """Compare kernel, Debian release and modules."""
    assert guest.shell("uname -r").strip() == image.manifest.kernel_release
    assert f"VERSION_CODENAME={image.manifest.suite}" in guest.shell("cat /etc/os-release")


def test_kernel_feature_probes_leave_no_network_interface_behind(guest: Guest) -> None:
    """Check modules that create interfaces when they are loaded."""
    before = guest.shell("ls -d /sys/class/net/*/")
    assert guest.call("facts.read", programs=[], settings=[])["features"]["link:ifb"]
    assert guest.shell("ls -d /sys/class/net/*/") == before


def test_features_in_the_manifest_work_in_the_guest(guest: Guest, image: Image) -> None:
    """Run a command for each feature."""
    assert set(COMMANDS) <= set(image.manifest.features)
    script = "".join(f"({command}) >/tmp/said 2>&1 || echo {name}\n" for name, command in COMMANDS.items())
    assert guest.shell(script).split() == []


def test_measurement_programs_run_in_the_guest(guest: Guest) -> None:
    """Measure over the loopback with iperf3; print the versions of the other programs."""
    said = guest.shell(
        "iperf3 --server --one-off --daemon; until ss -Hltn sport = :5201 | grep -q .; do sleep 0.1; done; "
        "iperf3 --client 127.0.0.1 --time 1 --json"
    )
    assert json.loads(said)["end"]["sum_received"]["bits_per_second"] > 1e6
    told = guest.shell("fio --version; hdparm -V; ethtool --version; ip -V; command -v bonnie++ tgtd iscsid")
    assert [word for word in ("fio-", "hdparm v", "ethtool version", "bonnie++") if word not in told] == []


def test_image_contains_kernel_and_initrd_for_nested_guests(guest: Guest, image: Image) -> None:
    """Compare the copies on the guest's second disk with the originals."""
    sums = guest.shell("cd /lib/modules/boot && md5sum vmlinux initrd").split()[::2]
    assert sums == [hashlib.md5(path.read_bytes()).hexdigest() for path in (image.vmlinux, image.initrd)]


def test_installed_packages_match_the_image_manifest(guest: Guest, image: Image) -> None:
    """Compare dpkg's list, and the kernel."""
    inside = guest.shell("dpkg-query -W -f '${Package}=${Version}\\n'").split()
    extra = set(image.packages) - set(inside)
    assert set(inside) <= set(image.packages)
    assert [line.partition("=")[0] for line in extra] == [f"linux-image-{image.manifest.kernel_release}"]


def test_image_contains_no_data_of_the_build_host(guest: Guest) -> None:
    """Check archive addresses, host name, machine ID and keys."""
    assert guest.shell("ls /etc/apt/sources.list.d").strip() == ""
    assert guest.shell("grep -rl '^deb \\|^URIs' /etc/apt || true").strip() == ""
    names = "/etc/hosts /etc/mailname /etc/iscsi /etc/tgt /etc/default"
    assert guest.shell(f"grep -rlw '{platform.node()}' {names} 2>/dev/null || true").strip() == ""
    assert guest.shell("cat /etc/hostname /etc/resolv.conf /etc/machine-id 2>/dev/null || true").strip() == ""
    assert guest.shell("find /etc/ssh /root /home -type f -name '*key*'  2>/dev/null || true").strip() == ""


def test_guest_writes_go_to_memory_and_not_to_the_image(guest: Guest, image: Image) -> None:
    """Write and remove files in the guest."""
    before = image.root.stat().st_mtime_ns
    guest.shell("echo hello > /etc/written; rm -r /usr/share/perl*; sync; test -s /etc/written")
    assert image.root.stat().st_mtime_ns == before


def test_image_is_smaller_than_500_mb(image: Image) -> None:
    """Keep the image small enough to copy it to other hosts and to keep several images in the cache."""
    assert image.size_bytes <= 500_000_000
    assert image.size_bytes == sum(
        path.stat().st_size
        for path in image.folder.iterdir()
        if path.name not in ("image.json", "facts.json")
    )
    assert Path(image.folder).name == image.manifest.digest
