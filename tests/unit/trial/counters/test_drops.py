"""Reasons of the kernel are those of all its work: they explain frames of ours where their counts are ours."""

import re
from pathlib import Path

import pytest
from tests.wording import in_words

from iolab.messages.places import AtPort
from iolab.results.balance import Drop
from iolab.trial.counters.drops import LOST_BY, RING_FULL, Named, beyond, explain, share_out, without_copies

Sure = tuple[tuple[str, int], ...]


@pytest.mark.parametrize(
    ("reasons", "named"),
    [
        ({"NETFILTER_DROP": 400}, (("NETFILTER_DROP", 400),)),
        ({"NETFILTER_DROP": 409, "IP_LOCAL_SOURCE": 40_000, "FULL_RING": 7}, (("NETFILTER_DROP", 400),)),
        ({"IP_INNOROUTES": 300, "NETFILTER_DROP": 100}, (("IP_INNOROUTES", 300), ("NETFILTER_DROP", 100))),
        ({"NETFILTER_DROP": 400, "FULL_RING": 398}, ()),
        ({"NETFILTER_DROP": 4000, "FULL_RING": 900}, ()),
        ({"NETFILTER_DROP": 150}, ()),
        ({}, ()),
    ],
)
def test_a_reason_with_the_count_of_what_is_missing_is_its_own(reasons: dict[str, int], named: Sure) -> None:
    """400 are missing: one reason fits, or all together do; where several could be theirs none is named."""
    found = explain(400, reasons)
    assert found == tuple(Named(*one) for one in named)


@pytest.mark.parametrize(("count", "frames"), [(5000, 400), (450, 400), (300, 300)])
def test_a_reason_with_another_count_is_named_in_doubt(count: int, frames: int) -> None:
    """A rule of somebody else may have dropped as many."""
    (found,) = explain(400, {"NETFILTER_DROP": count, "FULL_RING": 60})
    assert (found.reason, found.frames) == ("NETFILTER_DROP", frames)
    assert f"dropped {count} frames in all for NETFILTER_DROP, and 400 are missing" in in_words(found.doubt)


def test_one_reason_may_be_that_of_two_directions() -> None:
    """A rule that drops both ways is counted once; rules of two directions differ by their counts."""
    assert share_out([389, 406], {"NETFILTER_DROP": 795, "OTHERHOST": 3000}) == (
        (Named("NETFILTER_DROP", 389),),
        (Named("NETFILTER_DROP", 406),),
    )
    assert share_out([400, 1000], {"NETFILTER_DROP": 400, "IP_INNOROUTES": 1000}) == (
        (Named("NETFILTER_DROP", 400),),
        (Named("IP_INNOROUTES", 1000),),
    )


def test_what_a_stack_got_beside_a_receiver_is_taken_from_the_reason_with_that_count() -> None:
    """A device that drops more than arrives has the most frequent reason; flows may have several in the stack."""
    seen = {"IP_INNOROUTES": 600, "IP_LOCAL_SOURCE": 401, "NETFILTER_DROP": 400}
    assert without_copies(seen, 400) == {"IP_INNOROUTES": 600, "IP_LOCAL_SOURCE": 1, "NETFILTER_DROP": 400}
    assert without_copies({"NO_SOCKET": 350, "IP_LOCAL_SOURCE": 50}, 400) == {
        "NO_SOCKET": 0,
        "IP_LOCAL_SOURCE": 0,
    }
    assert without_copies({"NETFILTER_DROP": 400}, 400) == {"NETFILTER_DROP": 400}


def test_a_full_ring_takes_no_frames_from_a_rule() -> None:
    """veth gives a full ring no reason of its own: what netfilter dropped beside it keeps its name, however much."""
    rings = [Drop(AtPort(port="dut.eth0"), RING_FULL, 100)]
    assert beyond({"": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 100}}, rings) == {
        "": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 0}
    }
    assert beyond({"": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 30}}, rings) == {
        "": {"NETFILTER_DROP": 200, "NOT_SPECIFIED": 0}
    }


STAGES = Path(__file__).parents[4] / "crates" / "protocol" / "src" / "impairment.rs"
LOSE_NOTHING = {"corrupt", "duplicate", "reorder", "delay", "stall"}


def test_every_kind_of_stage_of_the_agent_has_the_reason_of_its_losses() -> None:
    """A kind that is added there and forgotten here would fail every trial in which it loses a frame."""
    kinds = {"codel", *re.findall(r'Self::\w+ \{ \.\. \} => "(\w+)"', STAGES.read_text())}
    assert {"line", "pacer"} <= kinds
    assert LOST_BY.keys() == kinds - LOSE_NOTHING
