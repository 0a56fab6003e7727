"""The tools that guard the contract do refuse what they are there to refuse, each tried on a copy of the proto files.

Rules: `wire#reserved-numbers`; generated code is refused when it differs from its source.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent
IGNORED_RULES = re.compile(r"^  ignore_only:\n(?:    .*\n)+", re.MULTILINE)
RESERVED = [
    ("capacity", "CapacityNeed", 4),
    ("coordinator", "ShardSummary", 5),
    ("coordinator", "ShardSummary", 6),
    ("coordinator", "Shortfall", 4),
    ("provider", "CreateRequest", 2),
    ("provider", "ListFilter", 2),
    ("provider", "ListFilter", 3),
    ("provider", "Machine", 11),
    ("shard", "AvailableCapacityUpdate", 7),
    ("shard", "AvailableCapacityUpdate", 8),
    ("shard", "AvailableCapacityUpdate", 9),
    ("shard", "Hello", 2),
    ("shard", "NodeStateUpdate", 7),
]


def run(*command: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def buf(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run(TOOLS / "buf", *arguments)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of what the generator and buf look at."""
    shutil.copytree(REPOSITORY / "proto", tmp_path / "proto", ignore=shutil.ignore_patterns("__pycache__"))
    for package in ("bigfleet/v1alpha1", "bigfleet/insight", "bigfleet/etcd"):
        shutil.copytree(
            REPOSITORY / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return tmp_path


def edit(checkout: Path, name: str, old: str, new: str) -> None:
    path = checkout / "proto/bigfleet/v1alpha1" / f"{name}.proto"
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} has to occur once in {name}.proto"
    path.write_text(text.replace(old, new))


def breaking(checkout: Path) -> subprocess.CompletedProcess[str]:
    return buf("breaking", checkout / "proto", "--against", REPOSITORY / "proto/image.binpb")


def test_the_contract_passes_its_own_checks() -> None:
    proto = REPOSITORY / "proto"
    for done in (buf("lint", proto), buf("format", proto, "--diff", "--exit-code"), breaking(REPOSITORY)):
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.args


def test_the_committed_image_knows_everything_that_the_proto_files_say() -> None:
    """The other way round: whatever the image lacks looks as if it had been deleted."""
    proto = REPOSITORY / "proto"
    done = buf("breaking", proto / "image.binpb", "--against", proto, "--config", proto / "buf.yaml")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize(("file", "message", "number"), RESERVED)
def test_a_reserved_number_that_is_used_again_does_not_compile(
    checkout: Path, file: str, message: str, number: int
) -> None:
    head = f"message {message} {{\n"
    edit(checkout, file, head, f"{head}  // Taken anew.\n  string taken_anew = {number};\n")
    proto = checkout / "proto"
    command = (
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={proto}",
        "--descriptor_set_out=/dev/null",
    )
    done = run(*command, f"bigfleet/v1alpha1/{file}.proto")
    assert done.returncode == 1
    assert f'"taken_anew" uses reserved number {number}' in done.stderr
    assert buf("build", proto).returncode != 0


def test_a_free_number_compiles_where_a_reserved_one_does_not(checkout: Path) -> None:
    head = "message CapacityNeed {\n"
    edit(checkout, "capacity", head, f"{head}  // Taken anew.\n  string taken_anew = 1002;\n")
    assert buf("build", checkout / "proto").returncode == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        pytest.param("provider", "  string zone = 5;\n", "", "FIELD_NO_DELETE", id="delete a field"),
        pytest.param(
            "provider",
            "  string zone = 5;\n",
            "  reserved 5;\n",
            "FIELD_NO_DELETE",
            id="delete and reserve a field",
        ),
        pytest.param(
            "provider", "string zone = 5;", "string zone = 16;", "FIELD_NO_DELETE", id="renumber a field"
        ),
        pytest.param(
            "provider", "string zone = 5;", "bytes zone = 5;", "FIELD_SAME_TYPE", id="retype a field"
        ),
        pytest.param(
            "capacity", "int32 priority = 3;", "int64 priority = 3;", "FIELD_SAME_TYPE", id="widen a field"
        ),
        pytest.param(
            "provider", "string zone = 5;", "string area = 5;", "FIELD_SAME_NAME", id="rename a field"
        ),
        pytest.param(
            "provider",
            "string zone = 5;",
            "repeated string zone = 5;",
            "FIELD_SAME_CARDINALITY",
            id="repeat a field",
        ),
        pytest.param(
            "shard",
            "string machine_id = 1000;",
            "string machine_id = 1001;",
            "FIELD_NO_DELETE",
            id="renumber an addition",
        ),
        pytest.param(
            "capacity", "  reserved 4;\n", "", "RESERVED_MESSAGE_NO_DELETE", id="free a reserved number"
        ),
        pytest.param(
            "provider",
            "STATE_FAILED = 8;",
            "STATE_FAILED = 9;",
            "ENUM_VALUE_NO_DELETE",
            id="renumber a value",
        ),
        pytest.param(
            "provider", "STATE_FAILED = 8;", "STATE_LOST = 8;", "ENUM_VALUE_SAME_NAME", id="rename a value"
        ),
        pytest.param(
            "coordinator",
            "  rpc ListShards(ListShardsRequest) returns (ListShardsResponse);\n",
            "",
            "RPC_NO_DELETE",
            id="delete a call",
        ),
        pytest.param(
            "coordinator",
            "returns (stream SnapshotSaveChunk)",
            "returns (SnapshotSaveChunk)",
            "RPC_SAME_SERVER_STREAMING",
            id="make a streaming call unary",
        ),
        pytest.param(
            "coordinator", "message RemoveShardResponse {}", "", "compile", id="delete a message in use"
        ),
        pytest.param(
            "shard", "message Taint {", "message NodeTaint {", "compile", id="rename a message in use"
        ),
    ],
)
def test_a_change_that_breaks_a_peer_is_refused(
    checkout: Path, file: str, old: str, new: str, complaint: str
) -> None:
    edit(checkout, file, old, new)
    done = buf(
        *(
            "breaking",
            checkout / "proto",
            "--against",
            REPOSITORY / "proto/image.binpb",
            "--error-format",
            "json",
        )
    )
    found = {
        json.loads(line)["type"] for line in (done.stdout + done.stderr).splitlines() if line.startswith("{")
    }
    assert done.returncode != 0
    assert complaint.upper() in {kind.upper() for kind in found}, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        pytest.param(
            "provider",
            "message MachineRef {\n",
            "message MachineRef {\n  // New.\n  string region = 1000;\n",
            id="add a field",
        ),
        pytest.param(
            "provider",
            "  MACHINE_STATE_FAILED = 8;\n",
            "  MACHINE_STATE_FAILED = 8;\n  // New.\n  MACHINE_STATE_LOST = 9;\n",
            id="add an enum value",
        ),
        pytest.param(
            "provider",
            "// Names one machine.\n",
            "// New.\nmessage Region {}\n\n// Names one machine.\n",
            id="add a message",
        ),
        pytest.param("provider", "// Names one machine.\n", "// Names a machine.\n", id="reword a comment"),
    ],
)
def test_a_change_that_only_adds_passes(checkout: Path, file: str, old: str, new: str) -> None:
    edit(checkout, file, old, new)
    done = breaking(checkout)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert buf("lint", checkout / "proto").stdout == ""


def test_an_addition_that_the_image_lacks_is_noticed(checkout: Path) -> None:
    proto = checkout / "proto"
    edit(
        checkout,
        "provider",
        "message MachineRef {\n",
        "message MachineRef {\n  // New.\n  string region = 1000;\n",
    )
    done = buf("breaking", proto / "image.binpb", "--against", proto, "--config", proto / "buf.yaml")
    assert done.returncode != 0
    assert "region" in done.stdout


def test_every_exception_from_a_lint_rule_is_needed_for_the_file_it_names(checkout: Path) -> None:
    config = checkout / "proto/buf.yaml"
    text = config.read_text()
    block = IGNORED_RULES.search(text)
    assert block is not None
    excepted: set[tuple[str, str]] = set()
    rule = ""
    for line in block.group().splitlines()[1:]:
        words = line.split("#")[0].split()
        if words and words[0] == "-":
            excepted.add((rule, Path(words[1]).name))
        elif words:
            rule = words[0].removesuffix(":")
    config.write_text(IGNORED_RULES.sub("", text))
    done = buf("lint", checkout / "proto", "--error-format", "json")
    complaints = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(each["type"], Path(each["path"]).name) for each in complaints} == excepted


def test_a_field_without_a_comment_is_refused(checkout: Path) -> None:
    edit(checkout, "provider", "message MachineRef {\n", "message MachineRef {\n  string region = 1000;\n\n")
    done = buf("lint", checkout / "proto", "--error-format", "json")
    assert [json.loads(line)["type"] for line in done.stdout.splitlines()] == ["COMMENT_FIELD"]


def generator(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, checkout / "proto/generate.py", *arguments)


def test_the_committed_modules_are_what_the_generator_makes() -> None:
    done = generator(REPOSITORY, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_check_names_every_stale_missing_and_orphaned_module_and_writes_nothing(checkout: Path) -> None:
    package = checkout / "bigfleet/v1alpha1"
    (package / "shard_pb2.py").write_text("# edited by hand\n")
    (package / "provider_pb2.pyi").unlink()
    (package / "quota_pb2_grpc.py").write_text("# its proto file is gone\n")
    (package / "notes.py").write_text("# not generated, so none of its business\n")
    done = generator(checkout, "--check")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "bigfleet/v1alpha1/provider_pb2.pyi: missing",
        "bigfleet/v1alpha1/quota_pb2_grpc.py: has no proto file any more",
        "bigfleet/v1alpha1/shard_pb2.py: differs from what its proto file gives",
        "run: python proto/generate.py",
    ]
    assert (package / "shard_pb2.py").read_text() == "# edited by hand\n"
    assert not (package / "provider_pb2.pyi").exists()


def test_generating_repairs_what_the_check_complains_about_and_nothing_else(checkout: Path) -> None:
    package = checkout / "bigfleet/v1alpha1"
    (package / "shard_pb2.py").write_text("# edited by hand\n")
    (package / "quota_pb2_grpc.py").write_text("# its proto file is gone\n")
    (package / "notes.py").write_text("# not generated, so none of its business\n")
    assert generator(checkout).stdout == "28 modules, 2 changed\n"
    assert generator(checkout, "--check").returncode == 0
    assert (package / "shard_pb2.py").read_bytes() == (
        REPOSITORY / "bigfleet/v1alpha1/shard_pb2.py"
    ).read_bytes()
    assert (package / "notes.py").exists()
    assert not (package / "quota_pb2_grpc.py").exists()


def test_a_further_package_is_found_without_a_change_to_the_generator(checkout: Path) -> None:
    further = checkout / "proto/bigfleet/other/v1/other.proto"
    further.parent.mkdir(parents=True)
    further.write_text('syntax = "proto3";\npackage bigfleet.other.v1;\nmessage Row { string text = 1; }\n')
    assert generator(checkout, "--check").stderr.startswith("bigfleet/other/v1/other_pb2.py: missing\n")
    assert generator(checkout).returncode == 0
    made = sorted(path.name for path in (checkout / "bigfleet/other/v1").iterdir())
    assert made == ["other_pb2.py", "other_pb2.pyi", "other_pb2_grpc.py", "other_pb2_grpc.pyi"]


def test_a_proto_file_that_does_not_compile_is_named_without_a_traceback(checkout: Path) -> None:
    edit(checkout, "provider", "string zone = 5;", "strin zone = 5;")
    done = generator(checkout)
    assert done.returncode == 2
    assert "bigfleet/v1alpha1/provider.proto" in done.stderr
    assert "Traceback" not in done.stderr
