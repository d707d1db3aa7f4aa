"""Frame sizes: what a link carries."""

import pytest
from tests.unit.lab.packets.measures import measure
from tests.unit.trial.load_trials import lab

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.lab.packets.frames import check_fit, is_stamped
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
def test_frames_of_mtu_header_and_checksum_fit(east: dict[str, object], keys: dict[str, object]) -> None:
    """A tag comes on top: Linux does not count the first one."""
    fit(east, **keys)


@pytest.mark.parametrize(
    ("east", "keys", "words"),
    [
        ({}, {"frame_size": 1519}, ("link west", "link east", "at most 1518", "an mtu of 1501")),
        ({"mtu": 576}, {"frame_size": "imix"}, ("1518 bytes, on link east", "at most 594", "an mtu of 1500")),
        ({}, {"frame_size": 1523, "vlan": 100}, ("at most 1522",)),
    ],
)
def test_a_link_that_is_too_small_is_told_with_what_it_carries(
    east: dict[str, object], keys: dict[str, object], words: tuple[str, ...]
) -> None:
    """Every such link at once."""
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
def test_frames_have_a_stamp_where_there_is_room(keys: dict[str, object], bytes_: int, stamped: bool) -> None:
    """Behind Ethernet, tag, tunnel, IP and transport, before the checksum."""
    made = lab()
    wanted = measure(frame_size=bytes_, **keys)
    assert is_stamped(wanted, made, ways(made, make_topology(made), wanted)) is stamped


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"tunnel": "vxlan", "frame_size": 95}, "frame_size: 96 or more"),
        ({"protocol": "tcp", "frame_size": 64}, "frame_size: 76 or more: the time of sending"),
    ],
)
def test_headers_without_room_are_refused(keys: dict[str, object], words: str) -> None:
    """Frames without a stamp can be counted; latency cannot be told of them."""
    with pytest.raises(InputError) as caught:
        fit({}, **keys)
    assert words in str(caught.value.problems[0])
