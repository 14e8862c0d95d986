import pytest
from starlette.testclient import TestClient

from tests.tools.serve.standin import StandIn
from vse_pipe.tools.serve.app import create


@pytest.fixture
def engines(tmp_path) -> dict[str, StandIn]:
    return {name: StandIn(tmp_path / "pictures", name) for name in ("nns", "csls")}


@pytest.fixture
def client(engines) -> TestClient:
    """A browser without scripts at 127.0.0.1, whose failed requests are answers and not exceptions."""
    return TestClient(create(engines), base_url="http://127.0.0.1:8000", raise_server_exceptions=False)
