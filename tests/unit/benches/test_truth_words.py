"""The words by which benches judge verdicts are those that they print."""

import re

from benches.faults.stream_cases import STREAM_FAULTS
from benches.harness.truth_words import named

from iolab.messages.places import AtMachine, AtPort
from iolab.results.verdict import Limit


def test_verdicts_are_named_as_the_cases_expect_them() -> None:
    """A limit and a port or a machine, no types and no quotes."""
    expected = {word for fault in STREAM_FAULTS for word in fault.verdict}
    assert named(Limit.SHAPER, AtPort(port="a.eth1")) in expected
    assert named(Limit.WINDOW, AtMachine(machine="far")) in expected
    assert all(re.fullmatch(r"[a-z]+ [a-z]+(\.[a-z0-9]+)?", word) for word in expected)
