"""The default of a flag and the default of the library option behind it are the same."""

from dataclasses import replace
from pathlib import Path

import pytest

from bigfleet.app.fake_provider import serve as fake_provider
from bigfleet.app.fake_provider.command import FakeProviderSettings
from bigfleet.app.fault_provider import serve as fault_provider
from bigfleet.app.fault_provider.command import FaultProviderSettings
from bigfleet.app.hook_provider import serve as hook_provider
from bigfleet.app.hook_provider.command import HookProviderSettings
from bigfleet.app.operator import serve as operator
from bigfleet.app.operator.command import OperatorSettings
from bigfleet.app.unschedulable_pod_controller import serve as pod_controller
from bigfleet.app.unschedulable_pod_controller.command import PodControllerSettings
from bigfleet.kube.limiter import DEFAULT_BURST, DEFAULT_QPS
from bigfleet.operator.options import OperatorOptions
from bigfleet.podcontroller.controller import PodControllerOptions
from bigfleet.provider.fake.options import FakeOptions
from bigfleet.provider.fault.backend import FaultOptions
from bigfleet.provider.kit.limits import Limits


@pytest.mark.parametrize(
    ("from_flags", "from_library"),
    [
        pytest.param(operator.options_of(OperatorSettings()), OperatorOptions("", ""), id="operator"),
        pytest.param(
            pod_controller.options_of(PodControllerSettings()), PodControllerOptions(), id="pod controller"
        ),
        pytest.param(fake_provider.options_of(FakeProviderSettings()), FakeOptions(), id="fake provider"),
        pytest.param(fault_provider.options_of(FaultProviderSettings()), FaultOptions(), id="fault provider"),
        pytest.param(
            # One worker per hook that may run; the kit itself allows more.
            replace(hook_provider.limits_of(HookProviderSettings(inventory=(Path("."),))), workers=64),
            Limits(),
            id="hook provider",
        ),
    ],
)
def test_a_flag_and_its_option_have_one_default(from_flags: object, from_library: object) -> None:
    assert from_flags == from_library


def test_the_operators_rate_of_calls_to_the_api_server_has_one_default() -> None:
    settings = OperatorSettings()
    assert (settings.qps, settings.burst) == (DEFAULT_QPS, DEFAULT_BURST)
