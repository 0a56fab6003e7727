from bigfleet.cli.framework.exit_codes import ExitCode


def test_the_numbers_are_those_of_the_contract() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "FAILURE": 1,
        "USAGE": 2,
        "REFUSED": 3,
        "NOT_FOUND": 4,
        "EXISTS": 5,
        "PERMISSION": 6,
        "UNAVAILABLE": 7,
        "CORRUPT": 8,
        "DATA_REFUSED": 71,
        "IO_ERROR": 74,
    }
    assert all(code.meaning for code in ExitCode)
