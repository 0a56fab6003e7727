"""Does a machine meet a profile's requirements? One machine, one answer; amounts play no part.

Why: the slow and obvious form of `engine#matching`, which everything faster is tested against.
Must never: judge "all in one domain" for Same; that is the engine's choice of a domain.
"""

from bigfleet.model.machine import Machine
from bigfleet.model.profile import Profile, Requirement, RequirementOperator


def matches(machine: Machine, profile: Profile) -> bool:
    """Whether every requirement of the profile holds on a machine."""
    return all(holds(requirement, machine.label(requirement.key)) for requirement in profile.requirements)


def holds(requirement: Requirement, value: str | None) -> bool:
    """Whether one requirement holds, given the machine's value for its key; None when the key is absent."""
    if value is None:
        return requirement.operator in (RequirementOperator.NOT_IN, RequirementOperator.DOES_NOT_EXIST)
    match requirement.operator:
        case RequirementOperator.IN:
            return value in requirement.values
        case RequirementOperator.NOT_IN:
            return value not in requirement.values
        case RequirementOperator.EXISTS:
            return True
        case RequirementOperator.SAME:
            return not requirement.values or value in requirement.values
        case _:
            return False
