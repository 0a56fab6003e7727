"""Replays a golden script: commands, a rule of dashes, and the answers they must give.

Why: a row of the oracle reads best as a conversation, input above the rule and answer below it, and a changed answer as
a difference of two texts.
Must never: know what the commands mean; that is the world's business.

    machine i1 Idle              a command each line; what follows " #" is a comment
    cycle
    ----                         the answers of all commands since the last rule, up to the next blank line
    Bootstrap i1 for a
"""

from collections.abc import Callable, Sequence

from bigfleet.model.errors import BigFleetError

RULE = "----"
NOTHING_SAID = "(nothing)"

Command = Callable[[Sequence[str]], Sequence[str]]
"""Takes the words of one line, returns the lines it has to say."""


class ScriptError(BigFleetError):
    """A line of a script says something its world does not understand."""

    def __init__(self, problem: str, line_number: int | None = None) -> None:
        place = "" if line_number is None else f"line {line_number}: "
        super().__init__(f"{place}{problem}")
        self.problem, self.line_number = problem, line_number


def replay(script: str, command: Command) -> str:
    """Run every command of a script and return the script with the answers it gets now."""
    answered: list[str] = []
    said: list[str] = []
    below_rule = False
    for number, line in enumerate(script.splitlines(), start=1):
        if below_rule and line.strip():
            continue  # an old answer; the new one is in its place already
        below_rule = False
        answered.append(line)
        if line == RULE:
            answered.extend(said or [NOTHING_SAID])
            said.clear()
            below_rule = True
        elif words := words_of(line):
            try:
                said.extend(command(words))
            except ScriptError as error:
                raise ScriptError(error.problem, number) from error
    if said:
        raise ScriptError(f"the script ends without a rule, so nothing compares {said[0]!r}")
    return "\n".join(answered) + "\n"


def words_of(line: str) -> list[str]:
    """The words of a line without its comment."""
    return [] if line.startswith("#") else line.partition(" #")[0].split()
