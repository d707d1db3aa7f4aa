"""What limited the streams of a cell: the limit of most of its trials."""

from iolab.analysis.analyse import commonest
from iolab.messages.caveats import CauseUnsure
from iolab.messages.places import AtMachine, OnPath
from iolab.results.verdict import Limit, Verdict


def test_the_limit_of_most_trials_stands_for_the_cell() -> None:
    """With the figures of a trial that had no doubt, and in how many trials it was."""
    path = Verdict(Limit.PATH, place=OnPath(source="a", target="b"))
    found = commonest(
        [
            path,
            Verdict(
                Limit.PATH, place=OnPath(source="a", target="b"), doubt=CauseUnsure(code="place-unknown")
            ),
            Verdict(Limit.THREAD, place=AtMachine(machine="a")),
        ]
    )
    assert (found.limit, found.place, found.doubt) == (Limit.PATH, OnPath(source="a", target="b"), None)
    assert (found.count, found.total) == (2, 3)
