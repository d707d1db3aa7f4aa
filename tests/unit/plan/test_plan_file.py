"""plan.json: written, read back, and refused with a message if it is not a written plan."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iolab.errors import StoreError
from iolab.experiment.experiment import Experiment, LevelRatio, Summary
from iolab.experiment.factors.summaries import STATISTICS
from iolab.lab.hosts.facts import Facts
from iolab.messages.places import ForMeasure
from iolab.messages.unmet import ImageAbsent, KindUnsupported, SiteRefuses
from iolab.plan.plan_file import decode_plan, encode_plan
from iolab.plan.planning import make_plan
from iolab.plan.types import PLAN_SCHEMA, Plan, PlannedFactor, Step, Unsupported

words = st.text(max_size=8)
lacks = st.one_of(
    st.builds(ImageAbsent, image=words),
    st.builds(SiteRefuses, site=words, problems=st.lists(words).map(tuple)),
    st.builds(
        KindUnsupported,
        code=st.just("instrument-unbuilt"),
        purpose=st.builds(ForMeasure, measure=words),
        kind=words,
    ),
)
labels = st.dictionaries(words, words, max_size=3)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Generate any plan."""
    factors = draw(
        st.lists(st.builds(PlannedFactor, words, st.lists(words, max_size=3).map(tuple)), max_size=3)
    )
    measures = draw(st.lists(words, unique=True, min_size=1, max_size=3))
    levels = st.tuples(*(st.integers(-1, len(factor.labels) - 1) for factor in factors))
    step = st.builds(Step, words, st.sampled_from(measures), st.integers(1, 9), st.integers(0, 9), levels)
    selectors = st.dictionaries(words, st.lists(words).map(tuple), max_size=2)
    ratio = st.builds(LevelRatio, words, words, words)
    summary = st.builds(
        Summary,
        words,
        st.lists(st.sampled_from(STATISTICS)).map(tuple),
        st.lists(ratio, max_size=2).map(tuple),
    )
    return Plan(
        title=draw(words),
        factors=tuple(factors),
        measures=tuple(measures),
        baseline=draw(labels),
        grouping=draw(st.lists(words).map(tuple)),
        seed=draw(st.integers(0, 2**64)),
        blocks=draw(st.integers(1, 9)),
        only=draw(st.lists(selectors, max_size=2).map(tuple)),
        summaries=draw(st.lists(summary, max_size=2).map(tuple)),
        steps=draw(st.lists(step, max_size=5).map(tuple)),
        unsupported=draw(st.lists(st.builds(Unsupported, words, labels, lacks), max_size=3).map(tuple)),
        estimate_ns=draw(st.integers(0, 2**60)),
        digest=draw(words),
    )


@given(plans())
def test_plan_is_read_back_as_written(plan: Plan) -> None:
    """Lose nothing, and write one line of text."""
    text = encode_plan(plan)
    assert decode_plan(text) == plan
    assert text.count("\n") == 1


def test_plan_of_a_different_schema_is_refused_and_both_schemas_are_named(
    experiment: Experiment, facts: Facts
) -> None:
    """Name the file's schema and the supported one."""
    document = json.loads(encode_plan(make_plan(experiment, facts)))
    document["schema"] = PLAN_SCHEMA + 1
    with pytest.raises(
        StoreError, match=rf"of schema {PLAN_SCHEMA + 1}: this iolab reads schema {PLAN_SCHEMA};"
    ):
        decode_plan(json.dumps(document))


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "{}", '{"schema": 3}', '{"schema": 3, "measures": 3}'])
def test_file_that_is_not_a_plan_is_refused_without_a_traceback(text: str) -> None:
    """Print one sentence without programming terms for truncated and foreign files."""
    with pytest.raises(StoreError, match=r"cannot read plan\.json") as caught:
        decode_plan(text)
    assert "Error" not in str(caught.value)


@pytest.mark.parametrize("row", [[], [0, 0], [-2], [2], [2**70]])
def test_invalid_level_indices_are_refused(row: list[int]) -> None:
    """Refuse a row with too few or too many entries, or an index without a label."""
    plan = Plan(
        title="A plan",
        factors=(PlannedFactor("mtu", ("1500", "9000")),),
        measures=("tcp",),
        baseline={},
        grouping=(),
        seed=1,
        blocks=1,
        steps=(Step("k", "tcp", 1, 0, (0,)),),
        unsupported=(),
        estimate_ns=1,
        digest="d",
    )
    document = json.loads(encode_plan(plan))
    document["levels"] = [row]
    with pytest.raises(StoreError, match=r"cannot read plan\.json, .*levels"):
        decode_plan(json.dumps(document))


@pytest.mark.parametrize(("place", "value"), [(2, 0), (2, 2**63), (3, -1), (3, 2**63)])
def test_block_and_plot_numbers_out_of_range_are_refused(
    place: int, value: int, experiment: Experiment, facts: Facts
) -> None:
    """Count blocks from 1, plots from 0, within 64 bits."""
    document = json.loads(encode_plan(make_plan(experiment, facts)))
    document["steps"][0][place] = value
    with pytest.raises(StoreError, match=r"cannot read plan\.json"):
        decode_plan(json.dumps(document))


@given(st.data())
def test_truncated_plan_is_refused(data: st.DataObject) -> None:
    """Truncate it anywhere."""
    plan = data.draw(plans())
    text = encode_plan(plan)
    cut = data.draw(st.integers(0, len(text) - 3))
    with pytest.raises(StoreError):
        decode_plan(text[:cut])
