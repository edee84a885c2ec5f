"""The page in a real browser: the text is the simulator's, whatever happens in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tasks.local.chaos.proxy import Proxy
from tests.harness.browser import chromium
from tests.harness.cluster import Cluster
from tests.harness.gateway import Gateway
from tests.harness.nginx import Nginx
from tests.harness.waiting import wait_until
from worker.log import reader

FILES = [{"path": "app.py", "text": "def greet():\r\n    print('hello')\r\n"}]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if "Security Policy" in said.text else None,
    )
    yield page
    context.close()
    assert not complaints


class Network:
    """What stands between browser and gateway, and can drop everything."""

    def __init__(self, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._proxy = Proxy(port)
        self.url = f"http://127.0.0.1:{self._run(self._proxy.open())}"

    def drop(self) -> None:
        async def reset() -> None:
            self._proxy.reset()

        self._run(reset())

    def close(self) -> None:
        self._run(self._proxy.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)


@pytest.fixture
def network(paced_gateway: Gateway) -> Iterator[Network]:
    between = Network(paced_gateway.port)
    yield between
    between.close()


def submitted(paced_gateway: Gateway, body: dict[str, object]) -> str:
    reply = httpx.post(f"{paced_gateway.url}/jobs", json=body)
    assert reply.status_code == 201, reply.text
    return str(reply.json()["id"])


def generated(paced_gateway: Gateway, prompt: str, model: str = "gpt-5.5-codex") -> str:
    return submitted(paced_gateway, {"kind": "generate", "prompt": prompt, "model": model})


def text_on(page: Page) -> str:
    return str(page.evaluate("document.getElementById('text').textContent"))


def status_on(page: Page) -> str:
    return str(page.evaluate("document.getElementById('status').textContent"))


def longer_than(page: Page, characters: int) -> None:
    wait_until("text appears", lambda: len(text_on(page)) > characters, 20)


def test_the_text_is_the_simulators_though_gateway_and_network_fail(
    paced: Cluster, paced_gateway: Gateway, network: Network, page: Page
) -> None:
    job = generated(paced_gateway, "Tell me of tides.", "sim:slow")
    page.goto(f"{network.url}/view/{job}")
    longer_than(page, 100)
    network.drop()
    longer_than(page, 800)
    paced_gateway.restart()
    longer_than(page, len(text_on(page)) + 200)
    network.drop()
    wait_until("the page has the end", lambda: status_on(page).startswith("Ended"), 40)
    truth = [each["visible"] for each in paced.ledger() if each["model"] == "sim:slow"][-1]
    assert text_on(page) == truth == reader.text_of(paced.client, job)
    assert status_on(page) == "Ended: completed"


@pytest.mark.slow
def test_the_page_comes_back_after_a_proxy_had_nobody_behind_it(
    paced: Cluster, paced_gateway: Gateway, page: Page, tmp_path: Path
) -> None:
    """A 502 is an answer, and an EventSource does not ask again after one."""
    nginx = Nginx(tmp_path, paced_gateway.port)
    try:
        job = generated(paced_gateway, "Tell me of gates.", "sim:slow")
        page.goto(f"{nginx.url}/view/{job}")
        longer_than(page, 100)
        paced_gateway.kill()
        wait_until("it is told", lambda: status_on(page).startswith("Connection lost"))
        refused = httpx.get(f"{nginx.url}/jobs/{job}")
        assert refused.status_code == 502
        page.wait_for_timeout(1500)
        paced_gateway.start()
        wait_until("the page has the end", lambda: status_on(page).startswith("Ended"), 40)
        assert text_on(page) == reader.text_of(paced.client, job)
    finally:
        nginx.close()


def test_a_restarted_answer_replaces_what_stood_there(
    paced: Cluster, paced_gateway: Gateway, page: Page
) -> None:
    """With characters outside of the first plane before the place where it is cut."""
    job = generated(paced_gateway, "Tell me of cuts.", "sim:eof")
    page.goto(f"{paced_gateway.url}/view/{job}")
    wait_until("the page has the end", lambda: status_on(page).startswith("Ended"), 30)
    assert text_on(page) == reader.text_of(paced.client, job)
    wait_until("the story has the attempts", lambda: page.locator("#story li").count() == 3)
    assert "text replaced from character 0 on" in page.locator("#story").inner_text()


def test_everything_can_be_read_without_a_script(paced_gateway: Gateway, browser: Browser) -> None:
    job = generated(paced_gateway, "Tell me of paper.", "sim:plain")
    client = httpx.Client(base_url=paced_gateway.url)
    wait_until("it has ended", lambda: client.get(f"/jobs/{job}").json()["state"] == "ended")
    result = client.get(f"/jobs/{job}/result").json()["result"]
    client.close()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(paced_gateway.url)
    page.get_by_role("link", name=job[:12]).click()
    assert page.locator("#text").text_content() == result
    assert "completed" in page.locator("#facts").inner_text()
    context.close()


def test_a_refactor_shows_its_changes_when_it_ends(paced_gateway: Gateway, page: Page) -> None:
    body = {
        "kind": "refactor",
        "files": FILES,
        "instruction": "use asyncio",
        "model": "gpt-5.5-codex",
    }
    job = submitted(paced_gateway, body)
    page.goto(f"{paced_gateway.url}/view/{job}")
    added = page.locator(".diff ins")
    added.first.wait_for(timeout=20_000)
    assert "use asyncio" in added.first.inner_text()
    assert page.get_by_role("heading", name="Changes").is_visible()


def test_a_prompt_can_be_asked_and_cancelled_by_keyboard_alone(
    paced_gateway: Gateway, page: Page
) -> None:
    page.goto(paced_gateway.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.get_by_label("Ask").focus()
    page.keyboard.type("Tell me of keys.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/view/*")
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    wait_until("it is cancelled", lambda: "cancelled" in page.locator("#facts").inner_text(), 20)


def test_every_part_has_a_name_for_a_screen_reader(paced_gateway: Gateway, page: Page) -> None:
    generated(paced_gateway, "Tell me of names.", "sim:plain")
    page.goto(paced_gateway.url)
    for name in ("Jobs", "Line", "Accounts"):
        assert page.get_by_role("region", name=name, exact=True).is_visible()
    unnamed = page.evaluate(
        """[...document.querySelectorAll('input, select, textarea, button')]
        .filter(each => !each.labels?.length && !each.textContent.trim()).length"""
    )
    assert unnamed == 0
    assert page.evaluate("document.documentElement.lang") == "en"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_in_both_themes(
    paced_gateway: Gateway, browser: Browser, theme: Any
) -> None:
    """The contrast of all text that is small is 4.5 at least."""
    job = generated(paced_gateway, "Tell me of light.", "sim:refuse")
    generated(paced_gateway, "Tell me of dark.", "sim:stall")
    context = browser.new_context(color_scheme=theme)
    page = context.new_page()
    for address in ("/", f"/view/{job}"):
        page.goto(paced_gateway.url + address)
        faint = page.evaluate(CONTRASTS)
        assert not faint
    context.close()


#: What of the visible text has a contrast below 4.5, by the formula of WCAG 2.
CONTRASTS = """() => {
  const parts = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = (color) => {
    const [r, g, b] = parts(color).map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (parts(color)[3] !== 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
    const [one, other] = [light(getComputedStyle(element).color), light(behind(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) faint.push(`${texts.currentNode.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return faint;
}"""
