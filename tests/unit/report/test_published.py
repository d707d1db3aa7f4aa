"""A run compared with published figures, as text."""

from iolab.analysis.published import PublishedComparison, PublishedRow
from iolab.report.side_by_side import beside_published_text
from iolab.results.metric import Quantity


def test_small_published_figure_is_not_written_as_zero() -> None:
    """Keep the published digits of losses of 0.02 and 7.1 percent in one table."""
    rows = [
        PublishedRow(
            measure="udp",
            metric=Quantity("loss_ratio"),
            statistic="mean",
            over="",
            cell={"pair": pair},
            unit="ratio",
            published=published,
            measured=measured,
            published_ratio=None,
            measured_ratio=None,
        )
        for pair, published, measured in (("a", 0.0002, 0.47), ("b", 0.071, 0.0), ("c", 0.0, 0.000234))
    ]
    text = beside_published_text(
        PublishedComparison(source="x.csv", run="run", rows=tuple(rows), factors=("pair",), without=())
    )
    cells = [
        line.replace("\u2007", "").split("|")
        for line in text.splitlines()
        if line.startswith(("| a", "| b", "| c"))
    ]
    assert [[cell.strip() for cell in row[3:5]] for row in cells] == [
        ["0.02", "47.0"],
        ["7.1", "0.0"],
        ["0.0", "0.0234"],
    ]


def test_published_change_without_a_figure_is_shown_with_the_change_of_the_run() -> None:
    """Divide by no missing figure; show both for others."""
    rows = [
        PublishedRow(
            measure="hdparm",
            metric=Quantity("buffered_read"),
            statistic="mean",
            over="",
            cell={"path": path},
            unit="byte/s",
            published=published,
            measured=measured_mib * 2**20,
            published_ratio=change,
            measured_ratio=measured_mib / 40,
        )
        for path, published, measured_mib, change in (
            ("iSCSI", 63.75 * 2**20, 50, 1.03),
            ("iSCSI in VM", None, 20, 0.67),
        )
    ]
    text = beside_published_text(
        PublishedComparison(
            source="x.csv",
            run="run",
            rows=tuple(rows),
            factors=("path",),
            without=(),
            reference={"path": "local"},
        )
    )
    assert 'The columns "/ baseline" divide each figure by that of the row with local' in text
    written = [
        [
            cell.strip()
            for cell in line.replace("\u2007", "")
            .replace("\u2013", "-")
            .replace("\xa0", " ")
            .split("|")[3:-1]
        ]
        for line in text.splitlines()
        if line.startswith("| iSCSI")
    ]
    assert written == [
        ["63.8", "50.0", "0.784 \u00d7", "103 %", "125 %"],
        ["-", "20.0", "-", "67 %", "50 %"],
    ]
