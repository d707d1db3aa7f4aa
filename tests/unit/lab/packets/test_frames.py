"""Frame sizes: what a link carries."""

import pytest
from tests.unit.lab.packets.measures import measure
from tests.unit.trial.packets import lab

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.lab.packets.frames import check_fit
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
