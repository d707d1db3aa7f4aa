"""The exit code of `iolab verify-shaper`, and that it reads the stored data of a run."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.analysis.paced_flows import STOLEN, TEXT, sent
from tests.unit.report.builder import quickstart

from iolab.analysis.shaper_check import SCALES_NS
from iolab.cli.shaper import print_judged
from iolab.errors import ExitCode
from iolab.experiment import parse
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.results.trial import Status, TrialResult
from iolab.store.records import SAMPLES, SERIES
from iolab.store.series import encode_series


@pytest.mark.parametrize(
    ("mean_bps", "most_bps", "warnings", "code"),
    [
        (60e6, 60e6, (), ExitCode.DONE),
        (60e6, 9e9, (), ExitCode.TRIALS_FAILED),
        (60e6, 9e9, (STOLEN,), ExitCode.HOST_CANNOT),
        (70e6, 9e9, (STOLEN,), ExitCode.TRIALS_FAILED),
    ],
    ids=["passed", "failed", "inconclusive", "failed despite warnings"],
)
def test_verify_shaper_exit_code_distinguishes_passed_failed_and_inconclusive(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    mean_bps: float,
    most_bps: float,
    warnings: tuple[TrialWarning, ...],
    code: ExitCode,
) -> None:
    """Include the lines of the classes, from the stored series of the trial."""
    experiment = parse(TEXT.replace("QDISC", "pacer").replace("CEIL", "ceil: 60Mbit,"), "file.yaml")
    metrics = Metrics(
        Metric(name, "bit/s", value, Dimensions(direction="->far.eth0", window_ns=scale))
        for scale in SCALES_NS
        for name, value in (("window_rate_max_bps", most_bps), ("window_rate_mean_bps", mean_bps))
    )
    run, _ = quickstart(1)
    result = TrialResult(
        status=Status.OK, metrics=metrics, warnings=warnings, begin_ns=0, end_ns=1, measured_ns=1
    )
    record = replace(run.trials[0], measure="tcp", cell={}, key="abc", result=result)
    (tmp_path / SAMPLES).mkdir()
    series = [sent("a", 40e6, (0, 1))[2], sent("b", 20e6, (0, 1))[2]]
    (tmp_path / SAMPLES / f"abc{SERIES}").write_bytes(encode_series(series))
    assert print_judged(experiment, replace(run, folder=tmp_path, trials=(record,))) is code
    said = capsys.readouterr().out
    assert said.count("  class ") == 2
    assert ("inconclusive: " in said) == bool(warnings)
