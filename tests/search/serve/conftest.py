import pytest
from starlette.testclient import TestClient

from tests.search.serve.standin import StandIn, client_of


@pytest.fixture
def engines(tmp_path) -> dict[str, StandIn]:
    return {name: StandIn(tmp_path / "pictures", name) for name in ("nns", "csls")}


@pytest.fixture
def client(engines) -> TestClient:
    return client_of(engines)
