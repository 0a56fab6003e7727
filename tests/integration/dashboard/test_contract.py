"""The OpenAPI file against the table of routes, real answers, and random questions.

Rules: `dashboard#api`, `dashboard#browser-tests`, `dashboard#openapi`.
"""

import asyncio
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema_rs import validator_for
from schemathesis import checks
from schemathesis.core.result import Ok

from bigfleet.dashboard.api.routes import COMPATIBLE, OWN
from bigfleet.dashboard.scraper import ScrapeTarget
from tests.integration.dashboard.served import served
from tests.integration.dashboard.test_api import exported
from tests.integration.dashboard.world import World, dashboard_world

pytestmark = pytest.mark.integration
AGREE = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance]
CONTRACT: dict[str, Any] = json.loads((files("bigfleet.dashboard") / "openapi.json").read_text())
SCHEMA = schemathesis.openapi.from_dict(CONTRACT)
OPERATIONS = {
    operation.label: operation
    for operation in (result.ok() for result in SCHEMA.get_all_operations() if isinstance(result, Ok))
    if not operation.path.endswith("/stream")
}
FUZZED = sorted(label for label in OPERATIONS if "/api/v1" in label)


def parameters(path: str) -> set[str]:
    """Names of the query parameters that the file has for a path."""
    return {
        row["name"] for row in CONTRACT["paths"][path]["get"].get("parameters", ()) if row["in"] == "query"
    }


def answer_schema(path: str, status: int) -> dict[str, Any]:
    """The schema of an answer, with what it refers to."""
    content = CONTRACT["paths"][path]["get"]["responses"][str(status)]["content"]["application/json"][
        "schema"
    ]
    return {**content, "components": CONTRACT["components"]}


@pytest.mark.rule("dashboard#openapi")
def test_the_file_has_every_route_of_the_table_with_its_parameters_and_no_other() -> None:
    table = {
        f"{prefix}{route.path}": route.parameters for route in COMPATIBLE for prefix in ("/api/v1", "/api")
    }
    table |= {f"/api/v1/x{route.path}": route.parameters for route in OWN}
    for path, known in table.items():
        assert parameters(path) == known, path
    rest = set(CONTRACT["paths"]) - set(table)
    assert rest == {
        "/api/v1/openapi.json", "/api/v1/x/stream", "/api/v1/x/snapshot", "/api/v1/x/whatif",
        *(f"/api/v1/x/export/{name}.{form}" for name in ("needs", "machines", "shortfalls") for form in ("csv", "json")),
    }  # fmt: skip
    assert len(COMPATIBLE) == 14


@pytest.mark.rule("dashboard#openapi")
def test_answers_agree_with_the_file_key_for_key() -> None:
    async def play() -> None:
        async with dashboard_world(endpoints=[ScrapeTarget("shard-0", exported)]) as world:
            await world.dashboard.scrape()
            need = (await world.json("/api/v1/needs?shard=shard-0"))["needs"][0]
            queries = {
                "/needs": "?shard=shard-0", "/machines": "?shard=shard-0", "/explain/machine": "?shard=shard-0&id=m-01",
                "/explain/need": f"?shard=shard-0&cluster=train&group=llm-7&fingerprint={quote(need['profileFingerprint'])}",
            }  # fmt: skip
            for prefix, routes in (("/api/v1", COMPATIBLE), ("/api", COMPATIBLE), ("/api/v1/x", OWN)):
                for route in routes:
                    await check(world, prefix + route.path, queries.get(route.path, ""))
            await check(world, "/api/v1/openapi.json", "")

    async def check(world: World, path: str, query: str) -> None:
        place = path.replace("{pod}", "shard-0").replace("{shard}", "shard-0")
        place = place.replace("{id}", "m-01" if "machines" in path else "web")
        status, text, _ = await world.get(place + query)
        validator_for(answer_schema(path, status)).validate(json.loads(text))

    asyncio.run(play())


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(endpoints=[ScrapeTarget("shard-0", exported)]) as url:
        yield url


@pytest.mark.rule("dashboard#openapi")
@pytest.mark.parametrize("label", FUZZED)
def test_random_questions_never_break_a_route(address: str, label: str) -> None:
    """No 5xx but 502 and 503, which say that a source is not wired or lost; what is answered agrees with the file."""
    operation = OPERATIONS[label]
    few = settings(
        max_examples=12, phases=[Phase.generate], database=None, deadline=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip

    @few
    @given(case=operation.as_strategy(), known=st.booleans())
    def ask(case: Any, known: bool) -> None:  # Any: schemathesis has no public type for it
        if known and "shard" in (case.query or {}):
            case.query["shard"] = "shard-0"
        answer = case.call(base_url=address)
        assert answer.status_code < 500 or answer.status_code in {502, 503}, (answer.status_code, answer.text)
        if answer.status_code < 500 and answer.status_code != 405:
            case.validate_response(answer, checks=AGREE)

    ask()


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/needs?shard=%00", "/api/v1/needs?shard=%ff", "/api/v1/x/machines?shard=shard-0&page=%F0%9F%92%A9",
        "/api/v1/x/machines/shard-0/%2e%2e%2f", "/api/v1/x/decisions?since=99999999999999999999", "/api/v1/needs?shard=shard-0&limit=-1",
        "/api/v1/fleet/actions?step=0s", "/api/v1/x/explain/need?shard=shard-0&cluster=a&fingerprint=%F0&group=" + "g" * 5000,
        "/%00", "/clusters/%3Cscript%3E", "/needs?page=99999999999", "/machines?page=nonsense", "/needs?status=odd",
    ],
)  # fmt: skip
def test_what_broke_others_does_not_break_this(address: str, path: str) -> None:
    import requests

    answer = requests.get(address + path, timeout=30)
    assert answer.status_code < 500 or answer.status_code in {502, 503}, answer.text
