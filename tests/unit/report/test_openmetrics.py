"""OpenMetrics text is valid for the parser of prometheus_client, and has every estimate."""

import math
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families
from tests.unit.report.conftest import Made

from iolab.analysis.types import Estimates
from iolab.plan.types import PlannedFactor
from iolab.report import openmetrics


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the values of all samples, by name and labels."""
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for each in family.samples
    }


def test_openmetrics_text_has_every_estimate_of_a_run(made: Made) -> None:
    """Compare each mean and interval with the analysis, bit by bit, after parsing."""
    run, analysis, _ = made
    found = samples(openmetrics.text(run, analysis, "1.2.3"))
    means = [value for (_, labels), value in found.items() if ("statistic", "mean") in labels]
    lows = [value for (_, labels), value in found.items() if ("statistic", "ci_low") in labels]
    assert sorted(means) == sorted(each.mean for each in analysis.estimates if math.isfinite(each.mean))
    assert sorted(lows) == sorted(each.ci.low for each in analysis.estimates if each.ci is not None)
    numbers = [value for (name, _), value in found.items() if name == "iolab_estimate_trials"]
    assert sorted(numbers) == sorted(each.n for each in analysis.estimates)


def test_sample_has_the_run_measure_and_cell_as_labels(made: Made) -> None:
    """Select one cell as a query would."""
    run, analysis, _ = made
    wanted = {
        "run": run.name, "measure": "tcp", "statistic": "mean", "factor_links_lan_mtu": "9000",
        "factor_links_lan_offload": "off", "factor_direction": "one-way",
    }  # fmt: skip
    found = samples(openmetrics.text(run, analysis, "1.2.3"))
    cells = [
        labels
        for name, labels in found
        if name == "iolab_received_bps" and wanted.items() <= dict(labels).items()
    ]
    assert len(cells) == 1


def test_trials_are_counted_by_status(made: Made) -> None:
    """Show invalid trials, which no estimate includes."""
    run, analysis, _ = made
    found = samples(openmetrics.text(run, analysis, "1.2.3"))
    counts = {
        dict(labels)["status"]: value for (name, labels), value in found.items() if name == "iolab_trials"
    }
    assert sum(counts.values()) == len({each.key for each in run.trials})
    assert counts["invalid"] >= 1


def test_text_is_also_valid_for_the_textfile_collector(made: Made) -> None:
    """Parse it in the older format of Prometheus, without timestamps."""
    run, analysis, _ = made
    families = list(prometheus_families(openmetrics.text(run, analysis, "1.2.3")))
    assert all(each.timestamp is None for family in families for each in family.samples)
    assert any(family.name == "iolab_received_bps" for family in families)


@pytest.mark.parametrize("label", ['a "quoted" \\ label', "two\nlines", "日本"])
def test_labels_are_escaped(made: Made, label: str) -> None:
    """Read the same title back."""
    run, analysis, _ = made
    run = replace(run, plan=replace(run.plan, title=label))
    found = samples(openmetrics.text(run, analysis, "1.2.3"))
    assert [dict(labels)["title"] for name, labels in found if name == "iolab_run_info"] == [label]


def test_factors_with_equal_label_names_get_different_labels(made: Made) -> None:
    """Keep both levels of a cell."""
    run, analysis, _ = made
    factors = (*run.plan.factors, PlannedFactor("links.lan_mtu", ("x",)))
    text = openmetrics.text(replace(run, plan=replace(run.plan, factors=factors)), analysis, "1")
    assert samples(text)
    assert openmetrics._label_names(["a.b", "a_b", "日"]) == {
        "a.b": "factor_a_b", "a_b": "factor_a_b_2", "日": "factor_",
    }  # fmt: skip


def test_run_without_trials_is_valid(made: Made) -> None:
    """Print only the run."""
    run, analysis, _ = made
    text = openmetrics.text(replace(run, trials=()), replace(analysis, estimates=Estimates({})), "1.2.3")
    assert [name for name, _ in samples(text)] == ["iolab_run_info"]
