"""The page over HTTP: what it tells, what it makes of a file, and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from streamfeat.signals import open_corpus
from tests.terminal import Terminal, terminal
from tests.webpage import FILE_TYPE, WebPage, page_of

KEY = "a secret of some length"
MODEL = "page-words"


@pytest.fixture(scope="module")
def page(served: Terminal, corpus: Path) -> Iterator[WebPage]:
    """A page of the fleet that is served, beside a corpus, with a model and an admin key."""
    key = served.home / "admin.key"
    key.write_text(KEY)
    key.chmod(0o600)
    learned = served("stream", corpus, "--connect", served.front, "--learn", MODEL)
    assert learned.status == 0, learned
    assert served("stream", corpus, "--connect", served.front, "--insert", MODEL).status == 0
    with page_of(served, "--corpus", corpus, "--admin-key", key, "--model", MODEL) as made:
        made.wait("n_gallery")
        yield made


@pytest.fixture(scope="module")
def spoken(corpus: Path) -> tuple[bytes, str]:
    """A recording and its label."""
    utterance = next(u for u in open_corpus(corpus).utterances if u.label == "8")
    return utterance.path.read_bytes(), utterance.label


def drawn() -> bytes:
    """A PNG of a bright figure on a dark ground."""
    pixels = np.zeros((28, 28), np.uint8)
    pixels[6:22, 13:16] = 255
    pixels[6:9, 8:20] = 255
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def test_one_file_and_nothing_from_elsewhere(page: WebPage) -> None:
    """Its script and style are those that the policy names by hash; no other address is in it."""
    answer = page.ask("GET", "/")
    html, policy = answer.body.decode(), answer.headers["content-security-policy"]
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    for tag in ("script", "style"):
        [inside] = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.findall(r"(?:src|href)=.(?!data:)", html)
    assert set(re.findall(r"https?://[^\"' ]+", html)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched


def test_two_browsers_see_the_same_numbers(page: WebPage, served: Terminal, corpus: Path) -> None:
    """Samples by number, whoever asks; while words are streamed they tell of them."""
    before = page.wait("at")
    served("stream", corpus, "--connect", served.front)
    page.wait("answered_rate", since=before["number"])
    one, other = (page.ask("GET", f"/api/state?since={before['number']}").json for _ in range(2))
    n_common = min(len(one["samples"]), len(other["samples"]))
    assert one["samples"][:n_common] == other["samples"][:n_common]
    assert max(sample["answered_rate"] for sample in one["samples"]) > 0
    assert {worker["name"] for worker in one["standing"]["workers"]} == {"features-1", "features-2", "learner", "index"}


def test_a_word_is_named_and_moved(page: WebPage, spoken: tuple[bytes, str]) -> None:
    """Class with scores, neighbours with thumbnails, and features that stay closer than the input does."""
    data, label = spoken
    told = page.drop("try", data, name="word.wav").json
    model = told["models"][0]  # the one that was named, before others of the fleet
    assert model["model"] == MODEL
    assert (told["kind"], told["bank"], model["label"]) == ("audio", "digits-audio", label)
    assert [score for _, score in model["scores"]] == sorted((score for _, score in model["scores"]), reverse=True)
    assert told["gallery"][0]["label"] == label
    assert told["gallery"][0]["distance"] < 1e-6
    assert all(shown["thumbnail"].startswith("data:image/png;base64,") for shown in told["gallery"])
    [index] = [index for index in told["indexes"] if index["index"] == MODEL]
    assert index["neighbours"][0]["label"] == label
    moved = page.drop("try", data, name="word.wav", move="pitch", amount=200).json
    assert 0.5 < moved["cosine"] < 1
    assert moved["picture"] != told["picture"]
    assert moved["sound"] != told["sound"]
    curve = page.drop("curve", data, name="word.wav", move="pitch").json
    still = curve["amounts"].index(0)
    assert (curve["feature"][still], curve["input"][still], curve["labels"][still]) == (1.0, 1.0, label)
    assert np.mean(curve["feature"]) > np.mean(curve["input"]) + 0.02


def test_a_picture_is_shown_and_turned(page: WebPage) -> None:
    """By the bank for pictures, found by itself; its feature turns less than its pixels do."""
    told = page.drop("try", drawn(), name="seven.png").json
    assert (told["kind"], told["bank"], list(told["moves"])) == ("image", "digits-image", ["angle"])
    assert len(told["profile"]) == 128
    curve = page.drop("curve", drawn(), name="seven.png", move="angle").json
    near = [n for n, angle in enumerate(curve["amounts"]) if 0 < abs(angle) <= 30]
    assert all(curve["feature"][n] > curve["input"][n] for n in near)


@pytest.mark.parametrize(
    ("status", "name", "data", "query"),
    [
        (422, "noise.wav", b"RIFF\0\0\0\0WAVEnothing", {}),
        (422, "noise.png", b"\x89PNG\r\n\x1a\nnothing", {}),
        (422, "text.txt", b"hello", {}),
        (422, "a.png", None, {"move": "angle", "amount": "nan"}),
        (422, "a.png", None, {"move": "angle", "amount": "999"}),
        (422, "a.png", None, {"move": "pitch", "amount": "0"}),
        (422, "a.png", None, {"bank": "none-such"}),
        (422, "a.png", None, {"bank": "digits-audio"}),
        (413, "large.wav", bytes(9 << 20), {}),
    ],
)
def test_files_that_are_not_taken(page: WebPage, status: int, name: str, data: bytes | None, query: Any) -> None:
    """Each with its status and reason; the page goes on."""
    answer = page.drop("try", drawn() if data is None else data, name=name, **query)
    assert answer.status == status, answer.body
    assert answer.json["error"]["reason"]
    assert page.ask("GET", "/api/state").status == 200


def test_a_body_without_a_length_ends_at_the_limit(page: WebPage) -> None:
    """Chunks of a megabyte: refused when the ninth is there."""
    pieces = (bytes(1 << 20) for _ in range(9))
    headers = {"transfer-encoding": "chunked", "content-type": FILE_TYPE}
    assert page.ask("POST", "/api/try?name=a.wav", pieces, **headers).status == 413


def test_other_names_and_other_sites_are_refused(page: WebPage) -> None:
    """A name that was bent to this machine, a request that another site's page or form makes."""
    assert page.ask("GET", "/api/state", host="evil.example").status == 400
    assert page.ask("GET", "/", host=f"evil.example:{page.port}").status == 400
    assert page.ask("GET", "/api/state", host=f"localhost:{page.port}").status == 200
    assert page.ask("POST", "/api/try?name=a.png", drawn(), content_type="text/plain").status == 422
    elsewhere = {"content_type": FILE_TYPE, "origin": "http://evil.example"}
    assert page.ask("POST", "/api/try?name=a.png", drawn(), **elsewhere).status == 403
    assert page.ask("GET", "/api/state", sec_fetch_site="cross-site").status == 403
    assert page.ask("POST", "/api/try?name=a.png", drawn(), content_type=FILE_TYPE, origin=page.url[:-1]).status == 200


def test_no_path_of_the_server_is_told(
    page: WebPage, served: Terminal, corpus: Path, spoken: tuple[bytes, str]
) -> None:
    """Not by what it shows, not by what it says against a file."""
    answers = [page.ask("GET", path) for path in ("/", "/api/state", "/none", "/../etc/passwd")]
    answers += [page.drop("try", spoken[0], name="../../word.wav"), page.drop("try", b"x", name="/etc/a.wav")]
    text = b" ".join(answer.body for answer in answers).decode()
    assert not any(str(path) in text for path in (served.home, served.run_dir, served.banks, corpus))
    assert "/etc" not in text


def test_orders_need_the_admin_key(page: WebPage, served: Terminal) -> None:
    """A wrong key, or any to a page without one, is refused; the right one rests a worker and wakes it."""

    def order(where: WebPage, key: str, act: str) -> int:
        body = f'{{"act": "{act}", "worker": "features-2"}}'
        return where.ask("POST", "/api/order", body, authorization=f"Bearer {key}").status

    assert order(page, "wrong", "drain") == 403
    assert order(page, KEY, "destroy") == 422
    assert order(page, KEY, "drain") == 200
    states = {w["name"]: w["state"] for w in served("status", "--json").json["workers"]}
    assert states["features-2"] == "resting"
    assert order(page, KEY, "resume") == 200
    with page_of(served) as other:
        assert order(other, KEY, "drain") == 403
        assert not other.wait("at")["orders"]


def test_more_than_can_wait_are_told_to_come_back(page: WebPage, spoken: tuple[bytes, str]) -> None:
    """Of twelve curves at once some are refused with a time, and every other one is drawn."""
    with ThreadPoolExecutor(12) as pool:
        jobs = [pool.submit(page.drop, "curve", spoken[0], name="a.wav", move="tempo") for _ in range(12)]
        answers = [job.result() for job in jobs]
    assert {answer.status for answer in answers} == {200, 503}
    assert all(answer.headers["retry-after"] == "1" for answer in answers if answer.status == 503)
    assert page.drop("try", drawn(), name="a.png").status == 200


def test_without_a_broker_the_page_says_so(tmp_path: Path) -> None:
    """It starts, shows that nobody answers, and names no socket."""
    with terminal(tmp_path, run_dir=Path(tempfile.mkdtemp(prefix="sf-"))) as nowhere, page_of(nowhere) as page:
        assert page.wait("error")["samples"][-1]["error"] == "UNAVAILABLE"
        answer = page.drop("try", drawn(), name="a.png")
        assert answer.status == 503
        assert str(nowhere.run_dir).encode() not in answer.body


def test_a_corpus_that_is_none_leaves_the_numbers_alone(served: Terminal, tmp_path: Path) -> None:
    """The reason goes to the log of the page; browsers see the fleet and no neighbours."""
    (tmp_path / "empty").mkdir()
    with page_of(served, "--corpus", tmp_path / "empty") as page:
        state = page.wait("at")
        later = page.wait("at", since=state["number"])
        assert not any("error" in sample for sample in later["samples"])
        assert later["n_gallery"] == 0
        assert page.drop("try", drawn(), name="a.png").json["gallery"] == []


def test_an_admin_key_that_others_can_read_is_refused(tmp_path: Path, served: Terminal) -> None:
    """78 with its remedy; so is one that is short."""
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o644)
    assert "chmod 600" in served.execute("page", "--listen", "127.0.0.1:0", "--admin-key", key).err
    key.write_text("short")
    key.chmod(0o600)
    assert served.execute("page", "--listen", "127.0.0.1:0", "--admin-key", key).status == 78
