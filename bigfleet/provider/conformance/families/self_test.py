"""A26 and A27: the kit tries itself on its own provider.

Why: readiness cannot be seen through six calls, so the rule is shown on a provider that the kit can stage; and a kit that
cannot pass its own baseline proves nothing.
Must never: touch the target.
Rules: `providers#family-self-test`; ADR-0056.
"""

from typing import Final

from bigfleet.provider.conformance.behaviour import Behaviour, Lane, behaviour
from bigfleet.provider.conformance.caller import Caller
from bigfleet.provider.conformance.checks import accepted, in_state, require
from bigfleet.provider.conformance.context import BehaviourContext
from bigfleet.provider.conformance.reference.serve import served
from bigfleet.provider.conformance.reference.values import ReferenceOptions
from bigfleet.provider.conformance.states import CONFIGURING, C, I, State

_SLOTS: Final = 32


@behaviour("A26", "NodeReadiness", lane=Lane.SELF_TEST)
async def node_readiness(context: BehaviourContext) -> None:
    """Configured means that the node is Ready: shown on the kit's own staged provider.

    1. Start the kit's own provider, whose nodes become Ready only on a signal; bring a machine to I.
    2. Configure it: CONFIGURING for a full second.
    3. Give the signal: C.
    """
    settings = context.settings
    model = settings.model(settings.clock, ReferenceOptions(slots=1, staged=True))
    async with served(settings.net, model) as target:
        calls = Caller(settings.net.dial(target), context.log, context.timings.call_s)
        try:
            machine_id = (await calls.list()).ids[0]
            accepted(await calls.create(machine_id), "Create")
            await _until(context, calls, machine_id, I)
            accepted(await calls.configure(machine_id, context.cluster()), "Configure")
            end_s = context.now_s() + context.timings.observe_s
            while context.now_s() < end_s:
                sight = await calls.get(machine_id, poll=True)
                in_state(sight.machine, CONFIGURING, "before the node was Ready")
                await context.pause(context.timings.poll_s)
            model.ready(machine_id)
            await _until(context, calls, machine_id, C)
        finally:
            await calls.close()


@behaviour("A27", "SelfTest", lane=Lane.SELF_TEST)
async def self_test(context: BehaviourContext) -> None:
    """The whole baseline passes on the kit's own provider.

    1. Start the kit's own provider with 32 slots.
    2. Run A01 to A25 on it: all pass.
    """
    settings = context.settings
    model = settings.model(settings.clock, ReferenceOptions(slots=_SLOTS))
    async with served(settings.net, model) as target:
        failures = await context.run_baseline(target)
    require(not failures, f"on the kit's own provider: {'; '.join(failures)}")


async def _until(context: BehaviourContext, calls: Caller, machine_id: str, state: State) -> None:
    end_s = context.now_s() + context.timings.settle_s
    while (sight := await calls.get(machine_id, poll=True)).machine.state != state:
        require(context.now_s() < end_s, f"{machine_id} of the kit's own provider: {sight}")
        await context.pause(context.timings.poll_s)


SELF_TEST: Final[tuple[Behaviour, ...]] = (node_readiness, self_test)
