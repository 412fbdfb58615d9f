import msgspec
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from dayzero.gateway import openapi
from dayzero.gateway.views.chat import ChatRequest
from tests.gateway.stand import stand

THIS = stand()
schema = schemathesis.openapi.from_asgi("/openapi.json", THIS.gateway.app)
schema.config.generation.modes = list(schemathesis.GenerationMode)


@schema.parametrize()
@settings(max_examples=15, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_made_from_the_description_or_against_it_is_a_server_error(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=[not_a_server_error, status_code_conformance, content_type_conformance])
    assert THIS.gateway.admission.in_flight == 0
    assert THIS.replica.running == {}


def test_every_route_is_described_and_nothing_else() -> None:
    described = {(path, method.upper()) for path, item in openapi.document("1")["paths"].items() for method in item}
    served = {
        (path.replace(":path", ""), method)
        for path, method in THIS.gateway.routes
        if method != "HEAD" and path != "/openapi.json"
    }
    assert described == served


def test_every_field_of_a_request_is_described() -> None:
    described = openapi.document("1")["components"]["schemas"]["ChatRequest"]["properties"]
    assert set(described) == {field.encode_name for field in msgspec.structs.fields(ChatRequest)}


def test_the_interactive_pages_that_would_load_scripts_from_elsewhere_are_off() -> None:
    assert THIS.request("GET", "/docs").status_code == 404
    assert THIS.request("GET", "/redoc").status_code == 404
