"""The page in headless Chromium, which `scripts/browser` installs; what it looked like lies in `screenshots/`."""

from __future__ import annotations

import importlib.util
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from streamfeat.client import Client, Job
from streamfeat.signals import open_corpus
from tests.files import wav16
from tests.terminal import Terminal
from tests.webpage import WebPage, page_of

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

MISSING = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
MISSING += ["selenium"] if importlib.util.find_spec("selenium") is None else []
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed; see scripts/browser")

SHOTS = Path(__file__).resolve().parent.parent / "screenshots"
WAIT_S = 60.0
MODEL = "page-seen"

DROP = """
const [target, name, type, text] = arguments;
const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const carried = new DataTransfer();
carried.items.add(new File([bytes], name, { type }));
target.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
"""
"""What a browser does when a file is let go over the page."""


@pytest.fixture(scope="module")
def page(served: Terminal, corpus: Path) -> Iterator[WebPage]:
    """A page beside a corpus of words, and a model of them."""
    assert served("stream", corpus, "--connect", served.front, "--learn", MODEL).status == 0
    with page_of(served, "--corpus", corpus, "--model", MODEL) as made:
        made.wait("n_gallery")
        yield made


def open_browser(home: Path, *more: str) -> Chrome:
    """A browser with nobody's profile, that finds nothing but this machine; `more` are options of its own."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "window-size=1400,1500", *more):
        options.add_argument(f"--{word}")
    options.add_argument(f"--user-data-dir={home}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))


@pytest.fixture(scope="module")
def browsers(page: WebPage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Chrome, Chrome]]:
    """Two browsers that look at the page."""
    SHOTS.mkdir(exist_ok=True)
    opened: list[Chrome] = []
    try:
        for n in range(2):
            opened.append(open_browser(tmp_path_factory.mktemp(f"browser{n}")))
            opened[-1].get(page.url)
        yield opened[0], opened[1]
    finally:
        for browser in opened:
            browser.quit()


def soon(look: Callable[[], Any]) -> Any:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + WAIT_S
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.1)  # looks again
    return found


def text_of(browser: Chrome, selector: str) -> str:
    """What is written there, of one moment."""
    return str(browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector))


def drop(browser: Chrome, file: Path, kind: str) -> None:
    """Let a file go over the panel."""
    import base64

    browser.execute_script(
        DROP,
        browser.find_element("css selector", "#drop"),
        file.name,
        kind,
        base64.b64encode(file.read_bytes()).decode(),
    )


def complaints(browser: Chrome) -> list[str]:
    """What the browser has against the page: scripts that fail, what the policy forbids."""
    return [str(entry["message"]) for entry in browser.get_log("browser")]  # type: ignore[no-untyped-call]


def test_live_numbers_in_two_browsers(
    page: WebPage, browsers: tuple[Chrome, Chrome], served: Terminal, corpus: Path
) -> None:
    """While words are streamed both show rates, latencies and every worker; the numbers of one sample are the same."""
    signals = [utterance.read() for utterance in open_corpus(corpus).utterances]
    deadline = time.monotonic() + WAIT_S
    seen: list[float] = []
    with Client(served.front) as client:
        while not all(seen) or not seen:  # streams until both have shown it
            assert time.monotonic() < deadline, seen
            for result in client.stream((Job(signal) for signal in signals), bank="digits-audio"):
                assert result.ok
            shown = [text_of(browser, "#answered_rate") for browser in browsers]
            seen = [float(text) if text.replace(".", "").isdigit() else 0.0 for text in shown]
    for n, browser in enumerate(browsers):
        assert browser.save_screenshot(str(SHOTS / f"numbers-{n + 1}.png"))
        workers = text_of(browser, "#workers")
        assert all(name in workers for name in ("features-1", "features-2", "learner", "index", "ready"))
        assert "digits-audio" in workers
        assert "digits-audio" in text_of(browser, "#banks")
    numbers = page.ask("GET", "/api/state").json
    at = numbers["samples"][-1]["at"]
    find = "return samples.find((sample) => sample.at === arguments[0])"
    one, other = (soon(lambda b=browser: b.execute_script(find, at)) for browser in browsers)  # type: ignore[misc]
    assert one == other == numbers["samples"][-1]


def test_a_dropped_word_is_answered(browsers: tuple[Chrome, Chrome], corpus: Path) -> None:
    """Its class with scores, its neighbours with thumbnails, its spectrogram; a slider shows how the feature moves."""
    browser = browsers[0]
    utterance = next(u for u in open_corpus(corpus).utterances if u.label == "8")
    drop(browser, utterance.path, "audio/wav")
    assert soon(lambda: text_of(browser, ".model .label")) == "8"
    assert soon(lambda: text_of(browser, "#curve figcaption"))
    images = "return [...document.querySelectorAll(arguments[0])].map((i) => i.complete && i.naturalWidth)"
    assert all(soon(lambda: browser.execute_script(images, "#gallery img, #picture")))
    move = "const s = document.getElementById('slide-pitch'); s.value = 300; s.dispatchEvent(new Event('change'))"
    browser.execute_script(move)
    said = soon(lambda: text_of(browser, "#closeness"))
    assert 0.5 < float(said.rpartition(" ")[2]) < 1
    soon(lambda: browser.execute_script("return document.querySelector('#curve .mark')"))
    browser.execute_script("document.getElementById('trying').scrollIntoView()")
    assert browser.save_screenshot(str(SHOTS / "word.png"))


def test_a_dropped_picture_is_answered(browsers: tuple[Chrome, Chrome], tmp_path: Path) -> None:
    """By the bank for pictures; the second browser, which dropped nothing, shows no answer."""
    browser, other = browsers
    pixels = np.zeros((28, 28), np.uint8)
    pixels[6:22, 13:16] = 255
    pixels[6:9, 8:20] = 255
    file = tmp_path / "<b>seven.png"  # what a file calls itself is never markup
    Image.fromarray(pixels).save(file)
    drop(browser, file, "image/png")
    assert soon(lambda: "bank digits-image" in text_of(browser, "#said"))
    assert "<b>seven.png" in text_of(browser, "#said")
    assert soon(lambda: "28 x 28" in text_of(browser, "#about"))
    assert soon(lambda: browser.execute_script("return document.getElementById('slide-angle') !== null"))
    assert soon(lambda: "angle" in text_of(browser, "#curve"))
    browser.execute_script("document.getElementById('trying').scrollIntoView()")
    assert browser.save_screenshot(str(SHOTS / "picture.png"))
    assert not other.find_element("css selector", "#answer").is_displayed()
    junk = tmp_path / "junk.png"
    junk.write_bytes(b"no picture")
    drop(browser, junk, "image/png")
    assert soon(lambda: "junk.png" in text_of(browser, "#said.bad"))
    said = [line for one in browsers for line in complaints(one) if "422" not in line]  # the junk's own status
    assert not said


def test_a_word_is_recorded(page: WebPage, corpus: Path, tmp_path: Path) -> None:
    """From a microphone that says the same word again and again: heard for as long as it was on, and answered."""
    SHOTS.mkdir(exist_ok=True)
    signal = next(u for u in open_corpus(corpus).utterances if u.label == "8").read()
    assert signal.rate_hz is not None
    pause = np.zeros(signal.rate_hz // 4, signal.samples.dtype)
    (tmp_path / "said.wav").write_bytes(wav16(np.concatenate([pause, signal.samples, pause]), signal.rate_hz))
    browser = open_browser(
        tmp_path / "profile",
        "use-fake-ui-for-media-stream",  # nobody is there to allow the microphone
        "use-fake-device-for-media-stream",
        f"use-file-for-fake-audio-capture={tmp_path / 'said.wav'}",
    )
    try:
        browser.get(page.url)
        button = browser.find_element("css selector", "#record")
        button.click()
        soon(lambda: text_of(browser, "#record") == "stop")
        time.sleep(2.0)  # so long the microphone is on
        button.click()
        assert soon(lambda: text_of(browser, ".model .label"))
        assert "recording.wav" in text_of(browser, "#said")
        assert text_of(browser, "#record") == "record"
        heard = float(re.search(r"([\d.]+) s\b", soon(lambda: text_of(browser, "#about")))[1])  # type: ignore[index]
        assert heard > 1.0
        images = "return [...document.querySelectorAll(arguments[0])].map((i) => i.complete && i.naturalWidth)"
        assert all(soon(lambda: browser.execute_script(images, "#gallery img, #picture")))
        assert browser.save_screenshot(str(SHOTS / "recorded.png"))
        assert not complaints(browser)
    finally:
        browser.quit()
