"""The way from one lab to another, played on a simulated host that refuses whatever is out of order."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from iolab.lab.actions import Setting, Write
from iolab.lab.resources import Change, Resource, difference

NAMES = "abcdefgh"


@dataclass
class SimulatedHost:
    """Keeps what stands; complains about anything that a kernel would refuse."""

    content: dict[str, str] = field(default_factory=dict)
    needs: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def apply(self, change: Change) -> None:
        """Undo, then do."""
        for resource in change.undo:
            standing_on_it = [key for key in self.content if resource.key in self.needs[key]]
            assert standing_on_it == [], f"{resource.key} is needed by {standing_on_it}"
            del self.content[resource.key]
        for resource in change.do:
            assert all(key in self.content for key in resource.needs), f"{resource.key} is too early"
            assert (resource.key in self.content) == (resource.key in change.in_place)
            assert resource.key not in self.content or resource.held, f"{resource.key} stands already"
            self.content[resource.key] = value_of(resource)
            self.needs[resource.key] = resource.needs


def value_of(resource: Resource) -> str:
    """Return what a resource of these tests sets."""
    (action,) = resource.actions
    assert isinstance(action, Write)
    return action.value


@st.composite
def labs(draw: st.DrawFn) -> tuple[Resource, ...]:
    """A lab in dependency order: each resource may need those before it; capitals are never held."""
    order = draw(st.lists(st.sampled_from(NAMES), unique=True))
    resources: list[Resource] = []
    for key in sorted(order):
        before = [resource.key for resource in resources]
        needs = draw(st.lists(st.sampled_from(before), unique=True, max_size=3)) if before else []
        value = draw(st.sampled_from("123"))
        write = Write(Setting(f"/proc/sys/{key}").path, None, value)
        resources.append(
            Resource(key=key, machine="m", needs=tuple(needs), actions=(write,), held=key in "bdfh")
        )
    return tuple(resources)


@given(st.lists(labs(), max_size=6))
def test_any_sequence_of_changes_ends_in_exactly_the_wanted_lab(sequence: list[tuple[Resource, ...]]) -> None:
    """Nothing is left over, nothing is missing, nothing has an old value, nothing is done out of order."""
    host = SimulatedHost()
    standing: tuple[Resource, ...] = ()
    for wanted in [*sequence, ()]:
        host.apply(difference(standing, wanted))
        assert host.content == {resource.key: value_of(resource) for resource in wanted}
        host.needs = {resource.key: resource.needs for resource in wanted}
        standing = wanted


@given(labs())
def test_undoing_is_the_reverse_of_doing(lab: tuple[Resource, ...]) -> None:
    """Everything that was done is undone in the reverse order."""
    done, undone = difference((), lab), difference(lab, ())
    assert done.do == lab
    assert undone.undo == tuple(reversed(lab))
    assert (done.undo, undone.do) == ((), ())


@given(labs())
def test_an_equal_lab_changes_nothing(lab: tuple[Resource, ...]) -> None:
    """No command is run where nothing differs."""
    assert difference(lab, lab) == Change((), ())


@given(labs(), labs())
def test_only_what_changed_and_what_stands_on_it_is_touched(
    standing: tuple[Resource, ...], wanted: tuple[Resource, ...]
) -> None:
    """A resource that stays, on ground that stays, is left alone; one changed in place is not undone."""
    change = difference(standing, wanted)
    after = {resource.key: resource for resource in wanted}
    rebuilt = {
        one.key
        for one in standing
        if one.key not in after or (value_of(one) != value_of(after[one.key]) and not one.held)
    }
    while True:
        dependents = {one.key for one in standing if set(one.needs) & rebuilt} - rebuilt
        if not dependents:
            break
        rebuilt |= dependents
    before = {resource.key: value_of(resource) for resource in standing}
    kept = {key for key, resource in after.items() if before.get(key) == value_of(resource)} - rebuilt
    assert {resource.key for resource in change.undo} == rebuilt
    assert {resource.key for resource in change.do} == set(after) - kept
    assert change.in_place == set(after) & set(before) - rebuilt - kept
