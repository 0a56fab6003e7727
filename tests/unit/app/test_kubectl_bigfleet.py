"""The table of the kubectl plugin: every verb is described, and flags may stand before the verb, as kubectl's do."""

from bigfleet.app.kubectl_bigfleet import PROGRAM
from bigfleet.cli.framework.options import options_of
from bigfleet.cli.framework.surface import entries
from bigfleet.cli.kubectl.flags import KubeFlags


def test_every_verb_has_help_examples_and_described_flags() -> None:
    for entry in entries(PROGRAM):
        assert entry.command.description
        assert all(
            example.startswith(f"kubectl bigfleet {entry.row.name}") for example in entry.command.examples
        )
        assert all(option.help for option in entry.options)
        assert entry.command.settings.model_config.get("env_prefix") == "KUBECTL_BIGFLEET_"


def test_the_walk_knows_which_flags_before_a_verb_take_a_value() -> None:
    assert PROGRAM.leading_value_flags == {
        name for option in options_of(KubeFlags) if option.takes_value for name in option.names
    }
