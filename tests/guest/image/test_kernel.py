"""Kernel features and tools of the image that a host may lack: each is used in one guest, and its effect is checked."""

import json
import re
from collections.abc import Iterator

import pytest
from tests.guest.image.conftest import Guest

WIRE = """
ip netns add far
ip link add near0 type veth peer name far0 netns far
ip addr add 198.18.20.1/24 dev near0; ip link set near0 up
ip -n far addr add 198.18.20.2/24 dev far0; ip -n far link set far0 up; ip -n far link set lo up
"""
VLAN = """
ip link add link near0 name near0.10 type vlan id 10
ip addr add 198.18.10.1/24 dev near0.10; ip link set near0.10 up
ip -n far link add link far0 name far0.10 type vlan id 10
ip -n far addr add 198.18.10.2/24 dev far0.10; ip -n far link set far0.10 up
timeout 100 tcpdump -c 2 -l -e -n -i near0 vlan 10 and icmp 2>/tmp/said >/tmp/seen &
until grep -q listening /tmp/said; do sleep 0.1; done
ping -c 3 -i 0.2 -W 5 198.18.10.2
wait; cat /tmp/seen
ip link del near0.10; ip -n far link del far0.10
"""
NETEM = """
tc qdisc replace dev near0 root netem delay 100ms
ping -c 8 -i 0.2 198.18.20.2
tc qdisc del dev near0 root
"""
STREAM = """
ip netns exec far iperf3 --server --one-off --daemon
until ip netns exec far ss -Hltn sport = :5201 | grep -q .; do sleep 0.1; done
iperf3 --client 198.18.20.2 --time 2 --json
"""
PKTGEN = """
modprobe pktgen; cd /proc/net/pktgen
echo rem_device_all >kpktgend_0; echo add_device near0 >kpktgend_0
mac=$(ip netns exec far cat /sys/class/net/far0/address)
for word in 'count 20000' 'pkt_size 60' 'delay 0' 'dst 198.18.20.2' "dst_mac $mac"; do echo "$word" >near0; done
timeout 100 sh -c 'echo start >pgctrl'
cat near0; echo rem_device_all >kpktgend_0
"""
TARGET = """
modprobe -a sd_mod iscsi_tcp target_core_mod iscsi_target_mod target_core_file
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/target; name=iqn.2024-01.lab.t:d0; portal=198.18.20.2
truncate -s 16M /tmp/disk
mkdir -p core/fileio_0/d0
test "$(cat core/fileio_0/d0/enable)" = 1 || echo fd_dev_name=/tmp/disk,fd_dev_size=16777216 >core/fileio_0/d0/control
test "$(cat core/fileio_0/d0/enable)" = 1 || echo 1 >core/fileio_0/d0/enable
group=iscsi/$name/tpgt_1; mkdir -p iscsi/$name $group/lun/lun_0
nsenter --net=/run/netns/far mkdir -p $group/np/$portal:3260  # LIO listens where this is made
test -L $group/lun/lun_0/x || ln -s $PWD/core/fileio_0/d0 $group/lun/lun_0/x
for attribute in authentication=0 generate_node_acls=1 demo_mode_write_protect=0; do
    echo ${attribute#*=} >$group/attrib/${attribute%=*}
done
echo 1 >$group/enable
"""
INITIATOR = """
mkdir -p /run/lock/iscsi; test -s /etc/iscsi/initiatorname.iscsi ||
    echo InitiatorName=iqn.2024-01.lab.i:guest >/etc/iscsi/initiatorname.iscsi
pidof iscsid || iscsid
# A guest that waits for a CPU is slow to listen, to answer and to log in.
again() { for _ in $(seq 20); do "$@" && return; sleep 1; done; false; }
again iscsiadm -m discovery -t sendtargets -p 198.18.20.2
again eval 'iscsiadm -m session || iscsiadm -m node -T iqn.2024-01.lab.t:d0 -p 198.18.20.2 --login'
disk() { ls /sys/class/iscsi_session/*/device/target*/*/block 2>/dev/null; }
for _ in $(seq 600); do disk >/tmp/disks && break; sleep 0.1; done
disk=$(cat /tmp/disks)
test -b /dev/$disk
dd if=/dev/urandom of=/tmp/written bs=1M count=8
dd if=/tmp/written of=/dev/$disk bs=1M oflag=direct
dd if=/dev/$disk bs=1M count=8 iflag=direct | md5sum; head -c 8M /tmp/disk | md5sum; md5sum </tmp/written
iscsiadm -m node -T iqn.2024-01.lab.t:d0 -p 198.18.20.2 --logout
kill $(pidof iscsid)
"""
VHOST = """
modprobe vhost_net
perl -e 'open(F, "+<", "/dev/vhost-net") or die $!; ioctl(F, 0xAF01, 0) or die $!;
  system("ps -e -o comm"); print "vhost-$$"'
"""
"""VHOST_SET_OWNER creates the vhost thread; its name has the PID of the calling process."""


@pytest.fixture(scope="module")
def wired(guest: Guest) -> Iterator[Guest]:
    """Provide the guest with a namespace `far` and a link to it."""
    guest.shell(WIRE)
    yield guest
    guest.shell("ip netns del far")


def received(guest: Guest) -> tuple[int, int]:
    """Return the number of frames and bytes received at the far end."""
    (shown,) = json.loads(guest.shell("ip -n far -j -s link show far0"))
    return shown["stats64"]["rx"]["packets"], shown["stats64"]["rx"]["bytes"]


def rate_bps(guest: Guest) -> float:
    """Return the rate of a TCP stream to the far end."""
    return float(json.loads(guest.shell(STREAM))["end"]["sum_received"]["bits_per_second"])


def test_vlan_frames_are_tagged_and_answered(wired: Guest) -> None:
    """Check the tag of requests and replies with tcpdump."""
    said = wired.shell(VLAN)
    assert "3 received, 0% packet loss" in said
    tagged = [line for line in said.splitlines() if "vlan 10," in line]
    assert [word in line for word, line in zip(("request", "reply"), tagged, strict=True)] == [True, True]


def test_netem_delays_every_packet(wired: Guest) -> None:
    """Expect at least 100 ms, and not much more."""
    said = wired.shell(NETEM)
    least_ms = float(re.findall(r"min/avg/max/mdev = ([\d.]+)/", said)[0])
    assert "8 received" in said
    assert 100 <= least_ms < 150


def test_fq_qdisc_limits_a_stream_to_the_configured_maximum_rate(wired: Guest) -> None:
    """Expect at most 10 Mbit/s, and much more without fq."""
    free_bps = rate_bps(wired)
    wired.shell("tc qdisc replace dev near0 root fq maxrate 10mbit")
    shaped_bps = rate_bps(wired)
    wired.shell("tc qdisc del dev near0 root")
    assert 1e6 < shaped_bps < 10.4e6  # an emulated guest that waits for a CPU reaches less
    assert shaped_bps < free_bps / 2


def test_frames_sent_by_pktgen_are_counted_by_the_receiver(wired: Guest) -> None:
    """Count 20 000 frames; allow a few frames that the kernel itself sends."""
    before, _ = received(wired)
    said = wired.shell(PKTGEN)
    after, _ = received(wired)
    assert "pkts-sofar: 20000" in said
    assert 20_000 <= after - before < 20_020


def test_lio_disk_is_written_and_read_over_iscsi(wired: Guest) -> None:
    """Compare the data of dd in the target's file, and the bytes on the link."""
    wired.shell(TARGET)
    _, before = received(wired)
    sums = [line for line in wired.shell(INITIATOR).splitlines() if line.endswith(" -")]
    _, after = received(wired)
    assert len(sums) == 3
    assert len(set(sums)) == 1
    assert after - before > 8 << 20


def test_vhost_net_creates_its_kernel_thread(wired: Guest) -> None:
    """Set the owner of the vhost device as a hypervisor does."""
    *running, wanted = wired.shell(VHOST).split()
    assert wanted in running
