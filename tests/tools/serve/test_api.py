"""The same searches as JSON, the pictures, and what is served."""

import io
import json
from dataclasses import asdict

import pytest
from PIL import Image

from tests.tools.serve.test_page import photo


def test_a_search_is_the_engines_answer(client, engines):
    answer = client.get("/api/search", params={"text": "green", "k": "2", "inference": "csls"})
    assert answer.status_code == 200
    told = answer.json()
    ours = json.loads(json.dumps(asdict(engines["csls"].by_text("green", 2))))
    assert {key: told[key] for key in ours} == ours
    assert {key: value for key, value in told.items() if key not in ours} == {
        "chosen": "as asked",
        "split": "test",
        "direction": "text_to_image",
        "searched": 5,
        "left_out": {},
        "correction": {},
        "offset": 0,
        "next": 2,
    }
    assert [hit["image_id"] for hit in answer.json()["hits"]] == [17, 7]


def test_a_search_by_image_id_and_by_photo(client, engines):
    assert client.get("/api/search", params={"image_id": "27"}).json()["hits"][0]["caption_id"] == 70
    answer = client.post("/api/search?k=1", files={"photo": ("x.jpg", photo())})
    assert len(answer.json()["hits"]) == 1
    assert answer.json()["direction"] == "image_to_text"
    assert [call[0] for call in engines["nns"].calls] == ["image_id", "photo"]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/api/search", 400, "search for what? give text, image_id, or POST a photo"),
        ("/api/search?text=x&k=ten", 400, "k must be a whole number from 1 to 100, got 'ten'"),
        ("/api/search?image_id=99", 400, "image 99 is not in the test split"),
        ("/api/nothing", 404, "Not Found"),
        ("/picture/99", 404, "no image_id 99"),
        ("/picture/47", 404, "no picture of image 47"),
        ("/picture/red.png", 400, "image_id must be a whole number, got 'red.png'"),
        ("/picture/..%2f..%2fetc%2fpasswd", 404, "Not Found"),
        ("/picture/", 404, "Not Found"),
    ],
)
def test_errors_are_json(client, path, status, message):
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (status, {"error": message})


def test_only_get_and_post_of_a_search(client):
    answer = client.delete("/api/search")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert client.post("/health").status_code == 405


def test_a_picture(client):
    answer = client.get("/picture/7")
    assert answer.headers["content-type"] == "image/webp"
    with Image.open(io.BytesIO(answer.content)) as opened:
        assert opened.size == (400, 267)
        red, green, _ = opened.convert("RGB").getpixel((5, 5))
        assert red > 180 > 60 > green


def test_health_says_what_is_served(client):
    assert client.get("/health").json() == {
        "status": "ok", "run": "toy", "split": "test", "inferences": ["nns", "csls"], "images": 5, "captions": 5,
    }  # fmt: skip
