"""Frames with configured headers, and recorded frames: the sent frames."""

import struct
from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.lab.packets.measures import measure
from tests.unit.trial.load_trials import lab

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.files import FileBytes
from iolab.experiment.model.packets import Latency
from iolab.lab.packets.frames import ENTRY, Sent, check_fit, given_fps, is_stamped, sent_of, sizes_of
from iolab.lab.packets.placement import ways
from iolab.lab.topology import make_topology


def fit(east: dict[str, object], **keys: object) -> None:
    """Check a measure in a lab whose second link has these keys."""
    made = lab()
    links = {**made.links, "east": made.links["east"].model_copy(update=east)}
    changed, wanted = Lab(made.machines, links, {}), measure(**keys)
    check_fit(wanted, changed, ways(changed, make_topology(changed), wanted))


@pytest.mark.parametrize(
    ("east", "keys"),
    [
        ({}, {"frame_size": 1518}),
        ({}, {"frame_size": "imix"}),
        ({}, {"frame_size": 1522, "vlan": 100}),
        ({"mtu": 1496}, {"frame_size": 1514}),
    ],
)
def test_frames_of_at_most_mtu_plus_header_and_checksum_fit(
    east: dict[str, object], keys: dict[str, object]
) -> None:
    """Allow a tag on top, because Linux does not count the first one."""
    fit(east, **keys)


@pytest.mark.parametrize(
    ("east", "keys", "words"),
    [
        ({}, {"frame_size": 1519}, ("link west", "link east", "at most 1518", "an mtu of at least 1501")),
        (
            {"mtu": 576},
            {"frame_size": "imix"},
            ("1518 bytes on link east", "at most 594", "an mtu of at least 1500"),
        ),
        ({}, {"frame_size": 1523, "vlan": 100}, ("at most 1522",)),
    ],
)
def test_link_with_a_too_small_mtu_is_reported_with_its_frame_size(
    east: dict[str, object], keys: dict[str, object], words: tuple[str, ...]
) -> None:
    """Report every such link at once."""
    with pytest.raises(InputError) as caught:
        fit(east, **keys)
    told = " ".join(str(problem) for problem in caught.value.problems)
    assert all(word in told for word in words), told


@pytest.mark.parametrize(
    ("keys", "bytes_", "stamped"),
    [
        ({}, 64, True),
        ({"protocol": "icmp"}, 64, True),
        ({"protocol": "tcp"}, 75, False),
        ({"protocol": "tcp"}, 76, True),
        ({"tunnel": "gre"}, 87, False),
        ({"tunnel": "gre"}, 88, True),
        ({"tunnel": "vxlan"}, 113, False),
        ({"tunnel": "vxlan"}, 114, True),
        ({"tunnel": "vxlan", "tunnel_ip": 6, "ip": 6, "protocol": "tcp", "vlan": 7}, 170, True),
        ({"tunnel": "vxlan", "tunnel_ip": 6, "ip": 6, "protocol": "tcp", "vlan": 7}, 169, False),
    ],
)
def test_frames_are_stamped_if_the_payload_has_room(
    keys: dict[str, object], bytes_: int, stamped: bool
) -> None:
    """Place it after Ethernet, tag, tunnel, IP and transport, before the checksum."""
    made = lab()
    wanted = measure(frame_size=bytes_, **keys)
    assert is_stamped(wanted, made, ways(made, make_topology(made), wanted)) is stamped


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"tunnel": "vxlan", "frame_size": 95}, "a frame_size of at least 96"),
        (
            {"protocol": "tcp", "frame_size": 64},
            "a frame_size of at least 76 bytes, with room for the 18-byte stamp",
        ),
    ],
)
def test_headers_that_leave_no_room_in_the_frame_are_refused(keys: dict[str, object], words: str) -> None:
    """Allow unstamped frames, without latency."""
    with pytest.raises(InputError) as caught:
        fit({}, **keys)
    assert words in str(caught.value.problems[0])


IP = bytes.fromhex("4500001c0000000040110000") + bytes([10, 0, 0, 1, 10, 1, 0, 1]) + bytes(8)
MACS = b"\x02" * 12
PLAIN = MACS + b"\x08\x00" + IP
TAGGED = MACS + b"\x81\x00\x00\x05\x08\x00" + IP
ARP = MACS + b"\x08\x06" + bytes(28)
SOLICITATION = MACS + b"\x86\xdd" + bytes(6) + b"\x3a\xff" + bytes(32) + b"\x87" + bytes(23)


def capture(*frames: tuple[int, bytes]) -> FileBytes:
    """Return a pcap file of frames at times [ns]."""
    out = struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)
    for time_ns, data in frames:
        out += struct.pack("<IIII", time_ns // 10**9, time_ns % 10**9, len(data), len(data)) + data
    return FileBytes.of("x.pcap", out)


def replayed(
    *frames: tuple[int, bytes], replay: Mapping[str, object] | None = None, **keys: object
) -> Latency:
    """Return a measure that replays them."""
    return measure(replay={"recording": capture(*frames), **(replay or {})}, **keys)


def entries(sent: Sent) -> list[tuple[int, bytes]]:
    """Return the frames of the request to the agent, with their times [ns]."""
    found, at = [], 0
    while at < len(sent.entries):
        time_ns, length = ENTRY.unpack_from(sent.entries, at)
        found.append((time_ns, sent.entries[at + ENTRY.size : at + ENTRY.size + length]))
        at += ENTRY.size + length
    return found


def test_replayed_ip_frames_get_the_vlan_tags_of_the_lab() -> None:
    """Remove recorded tags, add the link's, and pad short frames."""
    asked = replayed((5, PLAIN), (9, TAGGED))
    assert entries(sent_of(asked)) == [(0, PLAIN.ljust(60, b"\0")), (4, PLAIN.ljust(60, b"\0"))]
    (_, first), _ = entries(sent_of(asked, 7))
    assert first[12:18] == b"\x81\x00\x00\x07\x08\x00"
    kept = replayed((5, TAGGED), replay={"tags": "recorded"})
    assert entries(sent_of(kept, 7)) == [(0, TAGGED.ljust(60, b"\0"))]


def test_recorded_arp_and_neighbour_discovery_frames_are_not_replayed() -> None:
    """Skip them by default, because they would change the lab's tables."""
    frames = ((0, ARP), (1, SOLICITATION), (2, PLAIN))
    sent = sent_of(replayed(*frames))
    assert (sent.frames, sent.skipped, [time for time, _ in entries(sent)]) == (1, 2, [0])
    assert sent_of(replayed(*frames, replay={"others": "send"})).frames == 3
    with pytest.raises(InputError, match="only non-IP"):
        sent_of(replayed((0, ARP)))


def test_replayed_addresses_are_moved_to_other_networks() -> None:
    """Keep the bits after the prefix; keep other addresses."""
    move = [{"from": "10.0.0.0/16", "to": "198.18.0.0/16"}]
    ((_, sent),) = entries(sent_of(replayed((0, PLAIN), replay={"move": move})))
    assert (sent[26:30], sent[30:34]) == (bytes([198, 18, 0, 1]), bytes([10, 1, 0, 1]))


def test_recorded_times_that_decrease_are_clamped_and_counted() -> None:
    """Refuse a step back of more than a second."""
    asked = replayed((5000, PLAIN), (3000, PLAIN), (7000, PLAIN))
    assert [time for time, _ in entries(sent_of(asked))] == [0, 0, 2000]
    assert asked.replay is not None
    assert asked.replay.recording.back_frames == 1
    with pytest.raises(ValueError, match="frame 2 goes back"):
        replayed((2 * 10**9, PLAIN), (0, PLAIN))


def test_replay_without_a_rate_uses_the_recorded_mean_rate() -> None:
    """Compute it from 100 gaps between 101 frames in a second."""
    frames = tuple((number * 10**7, PLAIN) for number in range(101))
    asked = replayed(*frames, replay={"timing": "recorded"}).model_copy(update={"rate": None})
    assert given_fps(asked, asked.rate) == pytest.approx(100)
    with pytest.raises(InputError, match="add the key rate"):
        given_fps(replayed(*frames), None)


def test_recorded_frame_longer_than_the_mtu_is_refused() -> None:
    """Refuse frames that GRO merged."""
    asked, made = replayed((0, PLAIN), (1, PLAIN + bytes(3000))), lab()
    assert sizes_of(asked) == ((64, 1), (3046, 1))
    with pytest.raises(InputError) as caught:
        check_fit(asked, made, ways(made, make_topology(made), asked))
    assert "frames of 3046 bytes" in str(caught.value.problems[0])


@pytest.mark.parametrize(
    "keys", [{"direction": "both-ways"}, {"flows": 2}, {"senders": 2}, {"tunnel": "gre"}]
)
def test_settings_that_a_recording_determines_are_refused(keys: dict[str, Any]) -> None:
    """Name each conflicting key."""
    asked, made = replayed((0, PLAIN), **keys), lab()
    with pytest.raises(InputError, match=next(iter(keys))):
        check_fit(asked, made, ways(made, make_topology(made), asked))
