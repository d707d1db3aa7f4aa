"""Check iolab's results against devices and faults of known truth, injected without its knowledge, for every search.

Usage: python -m benches.truth.truth [--list] [NAME ...]. A case runs if its name contains all words of one NAME, so
"tbf fast" selects all searches of that kind on token buckets; without a NAME all run, which takes an hour or more.
Needs root, two CPUs, tc, and for some devices nft (package nftables); a case whose program is missing is skipped with a
message. Prints for each case: the truth by the kernel's counters and settings, the figure, its error, its marks, and
the verdict. The last lines give the number of figures that are within 1 % or marked with the right reason, and the
number of wrong verdicts that were stated as certain.
"""

import shutil
from collections.abc import Sequence

from benches.harness.arguments import Argument, arguments
from benches.truth.truth_fault_cases import FaultCase, fault_cases
from benches.truth.truth_faults import run_fault
from benches.truth.truth_judged import Grade, Outcome, tally
from benches.truth.truth_rates import RateCase, rate_cases, run_rate
from benches.truth.truth_user_space import UserSpaceCase, run_user_space, user_space_cases

from iolab.agent.client import Agent
from iolab.errors import TrialFailed
from iolab.run.hosts.host_agent import open_agent

ARGUMENTS = (
    Argument("--list", False, "print the names of the cases, and run none"),
    Argument("name", (), "words of the cases that are run", several=True),
)
Case = FaultCase | UserSpaceCase | RateCase


def main() -> None:
    """Run every case, or those named."""
    asked = arguments(__doc__, *ARGUMENTS)
    cases: list[Case] = [*fault_cases(), *user_space_cases(), *rate_cases()]
    wanted = [case for case in cases if is_wanted(case.name, asked.name)]
    if asked.list:
        print("\n".join(case.name for case in wanted))
        return
    outcomes: list[Outcome] = []
    left_out: list[str] = []
    with open_agent() as agent:
        for case in wanted:
            if shutil.which(case.needs) is None:
                left_out.append(f"{case.name}: needs {case.needs}")
                continue
            outcomes.append(run(agent, case))
    show(outcomes, left_out)


def run(agent: Agent, case: Case) -> Outcome:
    """Run one case and print its lines."""
    try:
        match case:
            case FaultCase():
                outcome, line = run_fault(agent, case)
            case RateCase():
                outcome, line = run_rate(agent, case)
            case UserSpaceCase():
                outcome, line = run_user_space(agent, case)
    except TrialFailed as error:
        outcome, line = Outcome(case.name, Grade.WRONG, None, 0), f"WRONG  {case.name}: failed: {error}"
    print(line, flush=True)
    return outcome


def is_wanted(name: str, wanted: Sequence[str]) -> bool:
    """Return whether a case is selected: its name contains all words of one of the names."""
    words = set(name.replace(",", " ").split())
    return not wanted or any(words.issuperset(one.replace(",", " ").split()) for one in wanted)


def show(outcomes: Sequence[Outcome], left_out: Sequence[str]) -> None:
    """Print the totals."""
    for line in left_out:
        print(f"left out: {line}")
    sums = tally(outcomes)
    print(f"{sums.right} of {sums.cases} figures within 1 %, {sums.marked} marked with the right reason")
    for what, names in (
        ("figures wrong and not marked", sums.wrong_figures),
        ("wrong verdicts given without doubt", sums.wrong_verdicts),
    ):
        print(f"{len(names)} {what}{': ' if names else ''}{'; '.join(names)}")
    print(f"{sums.doubtful} verdicts name no cause; {sums.unexplained_frames} frames unexplained")


if __name__ == "__main__":
    main()
