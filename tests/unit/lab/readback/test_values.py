"""Values extracted from the output of real tools (iproute2 6.1, ethtool 6.1, kernel 6.18)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.lab.actions import Command, Expectation, Reading, extract, holds
from iolab.lab.readback.shaping import Filters, Qdisc, QdiscRate, ShaperClass
from iolab.lab.readback.values import (
    Driver,
    Features,
    Gateway,
    GuestThreads,
    HardwareSettings,
    HasAddress,
    How,
    Interface,
    InterfaceByMac,
    Value,
    value_shown,
)

ADDR = """[{"ifindex":3,"link":"eth1","ifname":"eth0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,
"qdisc":"noqueue","master":"br0","operstate":"UP","linkinfo":{"info_kind":"veth","info_slave_kind":"bridge","info_slave_data":{"state":"forwarding","priority":32}},"addr_info":[
{"family":"inet","local":"198.18.0.1","prefixlen":24,"scope":"global"},
{"family":"inet6","local":"fe80::74ca:dfff:fe69:f8b","prefixlen":64,"scope":"link"}]},
{"ifname":"eth0.100","flags":["BROADCAST"],"mtu":9000,"operstate":"DOWN",
"linkinfo":{"info_kind":"vlan","info_data":{"protocol":"802.1Q","id":100,"flags":["REORDER_HDR"]}},"addr_info":[]}]"""
QDISCS = """[{"kind":"htb","handle":"1:","dev":"out","root":true,"refcnt":3,"options":{"r2q":10,"default":"0x11",
"direct_packets_stat":1,"direct_qlen":1000}},{"kind":"pfifo","handle":"10:","dev":"out","parent":"1:10",
"options":{"limit":1000}},{"kind":"tbf","handle":"1:","dev":"eth0","root":true,"refcnt":3,
"options":{"rate":41666666,"burst":153374,"lat":20000}}]"""
CLASSES = """\
class htb 1:11 parent 1:1 prio 0 rate 123456Kbit ceil 123456Kbit burst 1574b cburst 1574b
class htb 1:10 parent 1:1 leaf 10: prio 0 rate 400Mbit ceil 600Mbit burst 100Kb cburst 102300b
class htb 1:1 root rate 600Mbit ceil 600Mbit burst 1500b cburst 1.00002e+06b
"""
FILTERS = """[{"protocol":"ip","pref":10,"kind":"u32","chain":0},{"protocol":"ip","pref":10,"kind":"u32","chain":0,
"options":{"fh":"800:","ht_divisor":1}},{"protocol":"ip","pref":11,"kind":"u32","chain":0,"options":{"fh":"801::800",
"order":2048,"key_ht":"801","bkt":"0","flowid":"1:11","not_in_hw":true,"match":{"value":"c6120001","mask":"ffffffff",
"offmask":"","off":12}}},{"protocol":"ip","pref":10,"kind":"u32","chain":0,"options":{"fh":"800::800","order":2048,
"key_ht":"800","bkt":"0","flowid":"1:10","not_in_hw":true,"match":{"value":"c6120001","mask":"ffffffff","offmask":"",
"off":12},"match":{"value":"c6120002","mask":"ffffffff","offmask":"","off":16}}}]"""
PATHS = (
    '[{"dst":"192.168.21.0/24","flags":[],"nexthops":[{"gateway":"198.18.0.1","dev":"eth1","weight":1,"flags":[]},'
    '{"gateway":"198.18.2.1","dev":"eth2","weight":1,"flags":[]}]}]'
)
ROUTES = """[{"dst":"198.18.0.0/24","dev":"eth0","protocol":"kernel","scope":"link","prefsrc":"198.18.0.1","flags":[]},
{"dst":"198.18.9.0/24","gateway":"198.18.0.2","dev":"eth0","flags":[]}]"""
FEATURES = json.dumps([{
    "ifname": "eth0",
    "tcp-segmentation-offload": {"active": True, "fixed": None, "requested": None},
    "tx-tcp-segmentation": {"active": False, "fixed": False, "requested": True},
    "generic-receive-offload": {"active": True, "fixed": False, "requested": True},
}])  # fmt: skip


DRIVER = "driver: virtio_net\nversion: 1.0.0\nfirmware-version: \nbus-info: 0000:00:03.0\n"
RINGS = """Ring parameters for eth0:
Pre-set maximums:
RX:\t\t4096
RX Mini:\tn/a
TX:\t\t4096
Current hardware settings:
RX:\t\t256
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\t512
RX Buf Len:\t\tn/a
TX Push:\toff
"""
CHANNELS = """Channel parameters for eth0:
Pre-set maximums:
RX:\t\tn/a
Combined:\t4
Current hardware settings:
RX:\t\tn/a
TX:\t\tn/a
Other:\t\tn/a
Combined:\t2
"""
GUEST = '{"status": "running", "vcpus": [[2], [1, 0]], "carriers": [[3, 0], [0, 3], [5]]}'
CARDS = """[{"ifname":"eth1","flags":[],"mtu":1500,"address":"02:00:00:00:00:01","addr_info":[
{"family":"inet","local":"198.18.0.1","prefixlen":24},{"family":"inet","local":"10.0.0.7","prefixlen":8}]},
{"ifname":"br0","address":"02:00:00:00:00:02","linkinfo":{"info_kind":"bridge"},"addr_info":[]},
{"ifname":"eth0","address":"02:00:00:00:00:02","addr_info":[]}]"""


@pytest.mark.parametrize(
    ("how", "text", "value"),
    [
        (Driver(), DRIVER, "virtio_net"),
        (HardwareSettings(("rx", "tx")), RINGS, "rx 256 tx 512"),
        (HardwareSettings(("tx",)), RINGS, "tx 512"),
        (HardwareSettings(("combined",)), CHANNELS, "combined 2"),
        (HardwareSettings(("rx",)), CHANNELS, None),
        (GuestThreads("status"), GUEST, "running"),
        (GuestThreads("vcpus"), GUEST, "2 0,1"),
        (GuestThreads("carriers"), GUEST, "0,3 5"),
        (GuestThreads("vcpus"), '{"status": "not answering"}', None),
        (InterfaceByMac("02:00:00:00:00:02"), CARDS, "eth0"),
        (InterfaceByMac("02:00:00:00:00:03"), CARDS, None),
        (HasAddress("eth1", "198.18.0.1/24"), CARDS, "198.18.0.1/24"),
        (HasAddress("eth1", "198.18.0.2/24"), CARDS, "10.0.0.7/8,198.18.0.1/24"),
        (HasAddress("eth0", "198.18.0.1/24"), CARDS, None),
        (Interface("eth0", "mtu"), ADDR, "1500"),
        (Interface("eth0", "bridging"), ADDR, "forwarding"),
        (Interface("eth0.100", "bridging"), ADDR, None),
        (Interface("eth0", "carrier"), ADDR, "up"),
        (Interface("eth0.100", "carrier"), ADDR, "down"),
        (Interface("eth0", "master"), ADDR, "br0"),
        (Interface("eth0.100", "master"), ADDR, ""),
        (Interface("eth0", "address"), ADDR, "198.18.0.1/24"),
        (Interface("eth0.100", "kind"), ADDR, "vlan"),
        (Interface("eth0.100", "vlan"), ADDR, "100"),
        (Interface("eth9", "mtu"), ADDR, None),
        (Features("eth0", ("tso", "gro")), FEATURES, "tso off gro on"),
        (Features("eth0", ("lro",)), FEATURES, None),
        (Gateway("198.18.9.0/24"), ROUTES, "198.18.0.2"),
        (Gateway("198.18.0.0/24"), ROUTES, None),
        (Gateway("192.168.21.0/24", "198.18.0.1"), PATHS, "198.18.0.1"),
        (Gateway("192.168.21.0/24", "198.18.9.9"), PATHS, "198.18.0.1, 198.18.2.1"),
        (Qdisc("out", "kind"), QDISCS, "htb"),
        (Qdisc("out", "default"), QDISCS, "17"),
        (QdiscRate("out", "rate"), QDISCS, None),
        (QdiscRate("eth0", "rate"), QDISCS, "333333328"),
        (Qdisc("eth0", "burst_bytes"), QDISCS, "153374"),
        (Qdisc("eth0", "latency_us"), QDISCS, "20000"),
        (ShaperClass("1:10", "rate_bps"), CLASSES, "400000000"),
        (ShaperClass("1:10", "ceil_bps"), CLASSES, "600000000"),
        (ShaperClass("1:10", "burst_bytes"), CLASSES, "102400"),
        (ShaperClass("1:10", "cburst_bytes"), CLASSES, "102300"),
        (ShaperClass("1:11", "rate_bps"), CLASSES, "123456000"),
        (ShaperClass("1:1", "cburst_bytes"), CLASSES, "1000020"),
        (ShaperClass("1:2", "rate_bps"), CLASSES, None),
        (Filters(), FILTERS, "198.18.0.1>198.18.0.2=1:10,198.18.0.1>*=1:11"),
        (Filters(), "[]", ""),
        (Value(), "4096\t131072\t6291456\n", "4096 131072 6291456"),
    ],
)
def test_value_is_extracted_from_tool_output(how: How, text: str, value: str | None) -> None:
    """Read each value from its place only; return None for a missing one."""
    assert value_shown(how, text) == value


@given(st.text(max_size=200) | st.just(ADDR[:-9]) | st.just('[{"ifname":"eth0"}]') | st.just("[[], 7, null]"))
def test_malformed_tool_output_gives_no_value_and_no_exception(text: str) -> None:
    """Return no value, and raise no exception."""
    hows: list[How] = [
        Interface("eth0", "vlan"),
        Features("eth0", ("tso",)),
        Qdisc("eth0", "kind"),
        Filters(),
    ]
    hows += [InterfaceByMac("02:"), HasAddress("eth0", "x"), HardwareSettings(("rx",)), GuestThreads("vcpus")]
    for how in hows:
        assert value_shown(how, text) in (None, "")
    assert value_shown(ShaperClass("1:1", "rate_bps"), text) is None


def test_tolerance_of_an_expectation_covers_only_rounding() -> None:
    """Require the exact text without a tolerance."""
    source = Reading(Command(("tc", "class", "show", "dev", "eth0")), ShaperClass("1:11", "rate_bps"))
    expectation = Expectation(source, "123456789", "rate", 123456)
    assert holds(expectation, extract(source, CLASSES))
    assert not holds(expectation, "123333332")
    assert not holds(expectation, None)
    assert not holds(expectation, "fast")
    assert not holds(Expectation(source, "123456789", "rate"), "123456788")
