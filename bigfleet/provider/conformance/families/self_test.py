"""A26 and A27: the kit tries itself on its own provider.

Why: readiness cannot be seen through six calls, so the rule is shown on a provider that the kit can stage; and a kit that
cannot pass its own baseline proves nothing.
Must never: touch the target.
Rules: providers 2.2, rows 26 and 27; ADR-0056.
"""

from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour, Lane, behaviour
from bigfleet.provider.conformance.caller import Caller
from bigfleet.provider.conformance.checks import accepted, in_state, require
from bigfleet.provider.conformance.lab import Lab
from bigfleet.provider.conformance.states import CONFIGURING, C, I, State
from bigfleet.provider.conformance.zoo.serve import served
from bigfleet.provider.conformance.zoo.values import ModelOptions

_SLOTS: Final = 32


@behaviour("A26", "NodeReadiness", lane=Lane.SELF_TEST)
async def node_readiness(lab: Lab) -> None:
    """Configured means that the node is Ready: shown on the kit's own staged provider.

    1. Start the kit's own provider, whose nodes become Ready only on a signal; bring a machine to I.
    2. Configure it: CONFIGURING for a full second.
    3. Give the signal: C.
    """
    settings = lab.settings
    model = settings.model(settings.clock, ModelOptions(slots=1, staged=True))
    async with served(settings.net, model) as target:
        calls = Caller(settings.net.dial(target), lab.log, lab.timings.call_s)
        try:
            machine_id = (await calls.list()).ids[0]
            accepted(await calls.create(machine_id), "Create")
            await _until(lab, calls, machine_id, I)
            accepted(await calls.configure(machine_id, lab.cluster()), "Configure")
            end_s = lab.now_s() + lab.timings.observe_s
            while lab.now_s() < end_s:
                sight = await calls.get(machine_id, poll=True)
                in_state(sight.machine, CONFIGURING, "before the node was Ready")
                await lab.pause(lab.timings.poll_s)
            model.ready(machine_id)
            await _until(lab, calls, machine_id, C)
        finally:
            await calls.close()


@behaviour("A27", "SelfTest", lane=Lane.SELF_TEST)
async def self_test(lab: Lab) -> None:
    """The whole baseline passes on the kit's own provider.

    1. Start the kit's own provider with 32 slots.
    2. Run A01 to A25 on it: all pass.
    """
    settings = lab.settings
    model = settings.model(settings.clock, ModelOptions(slots=_SLOTS))
    async with served(settings.net, model) as target:
        failures = await lab.run_baseline(target)
    require(not failures, f"on the kit's own provider: {'; '.join(failures)}")


async def _until(lab: Lab, calls: Caller, machine_id: str, state: State) -> None:
    end_s = lab.now_s() + lab.timings.settle_s
    while (sight := await calls.get(machine_id, poll=True)).machine.state != state:
        require(lab.now_s() < end_s, f"{machine_id} of the kit's own provider: {sight}")
        await lab.pause(lab.timings.poll_s)


SELF_TEST: Final[tuple[Behaviour, ...]] = (node_readiness, self_test)
