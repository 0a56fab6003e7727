import pytest

from bigfleet.model.errors import InvalidFieldError
from bigfleet.provider.contract import OperationKind
from bigfleet.provider.kit.kit import NotStartedError, ProviderKit
from bigfleet.provider.kit.limits import Limits, Timeouts, minutes
from bigfleet.provider.kit.store import Volatile
from bigfleet.providerkit.scripted import ScriptedBackend


def test_the_defaults_are_those_of_the_contract() -> None:
    limits = Limits()
    assert [limits.timeout(kind, "any") for kind in OperationKind] == [300, 300, 600, 300]
    assert (limits.workers, limits.refresh, limits.missing_answers) == (64, 120, 3)
    assert (limits.tombstone_retention, limits.max_message_bytes) == (86_400, 2**30)


def test_a_type_can_have_timeouts_of_its_own() -> None:
    limits = Limits(create=minutes(1), by_instance_type={"metal": Timeouts(create=minutes(30))})
    assert limits.timeout(OperationKind.CREATE, "metal") == 1800
    assert limits.timeout(OperationKind.CREATE, "other") == 60


@pytest.mark.parametrize(
    "given",
    [
        {"create": 0},
        {"workers": 0},
        {"ready_poll": 0},
        {"refresh": -1},
        {"tombstone_retention": 0},
        {"max_message_bytes": 0},
        {"missing_answers": 0},
        {"housekeeping": 0},
    ],
)
def test_a_number_that_makes_no_sense_is_refused_by_name(given: dict[str, float]) -> None:
    with pytest.raises(InvalidFieldError) as refused:
        Limits(**given)  # type: ignore[arg-type]  # a wrong number of some field
    assert refused.value.field in given


def test_a_kit_needs_a_name_and_must_be_started() -> None:
    with pytest.raises(InvalidFieldError):
        ProviderKit(ScriptedBackend(), store=Volatile(), name="")
    with pytest.raises(NotStartedError):
        ProviderKit(ScriptedBackend(), store=Volatile(), name="x").machine("m")
