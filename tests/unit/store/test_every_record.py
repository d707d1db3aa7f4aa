"""Every type of record, as JSON and back: nothing is lost, nothing may be missing, nothing may be unknown."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.drawn import OTHERWISE, RECORDS, any_of

from iolab.results.encoding import Encoding, Malformed
from iolab.results.trial import TrialResult
from iolab.store.codec import TrialReader, encode_trial
from iolab.store.records import TrialRecord

ENCODED = [kind for kind in RECORDS if kind not in OTHERWISE]


@pytest.mark.parametrize("kind", ENCODED, ids=lambda kind: kind.__name__)
@settings(max_examples=5)
@given(st.data())
def test_a_record_is_read_back_as_it_was_written(kind: type, data: st.DataObject) -> None:
    """Whatever it holds, whole numbers and texts to the last digit and letter."""
    record = data.draw(any_of(kind))
    encoding: Encoding[Any] = Encoding(kind)
    assert encoding.decode(encoding.encode(record)) == record


@pytest.mark.parametrize("kind", ENCODED, ids=lambda kind: kind.__name__)
@settings(max_examples=1)
@given(st.data())
def test_a_field_that_is_missing_unknown_or_of_another_type_is_an_error_that_names_it(
    kind: type, data: st.DataObject
) -> None:
    """No field decodes to nothing in silence, those with a default included."""
    encoding: Encoding[Any] = Encoding(kind)
    document = json.loads(encoding.encode(data.draw(any_of(kind))))
    names = [field.name for field in dataclasses.fields(kind)]
    assert list(document) == names
    wrong = [{name: own for name, own in document.items() if name != left_out} for left_out in names]
    wrong += [{**document, name: {"no": ["such"]}} for name in names]
    for name, changed in zip((*names, *names), wrong, strict=True):
        with pytest.raises(Malformed, match=name):
            encoding.decode(json.dumps(changed))
    with pytest.raises(Malformed, match="colour"):
        encoding.decode(json.dumps({**document, "colour": 1}))


@settings(max_examples=50)
@given(st.data())
def test_a_line_of_any_trial_is_read_back_as_it_was_written(data: st.DataObject) -> None:
    """Failed and invalid ones too, with every kind of statement."""
    result = data.draw(any_of(TrialResult))
    record = TrialRecord(
        key="k", measure="it", kind="stream", direction="one-way", rest="r", block=1,
        cell=data.draw(any_of(dict[str, str])), wall="2026-01-01T00:00:00+00:00", result=result,
        sets_each_load=data.draw(st.booleans()),
    )  # fmt: skip
    assert TrialReader().read(encode_trial(record)) == record
