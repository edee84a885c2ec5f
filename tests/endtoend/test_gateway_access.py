"""Who may do what, and what nobody gets to see."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import httpx
import pytest

from tasks.gateway import tokens
from tasks.gateway.serving import is_loopback
from tasks.gateway.tokens import Scope
from tests.harness.cluster import Cluster
from tests.harness.gateway import EventSource, Gateway
from tests.harness.waiting import wait_until

PROMPT = f"prompt-{uuid.uuid4().hex}"
EVERYTHING = tuple(Scope)


@pytest.fixture(scope="module")
def guarded(shared: Cluster) -> Iterator[Gateway]:
    """One that asks everybody for a token."""
    running = Gateway(shared.state, shared.environ, "--require-tokens")
    yield running
    running.close()


def token(shared: Cluster, *scopes: Scope, **bounds: object) -> str:
    _, text = tokens.create(shared.client, "test", scopes, **bounds)  # type: ignore[arg-type]
    return text


def job_of(guarded: Gateway, text: str, model: str = "sim:stall") -> str:
    with guarded.client(text) as client:
        body = {"kind": "generate", "prompt": PROMPT, "model": model}
        reply = client.post("/jobs", json=body)
    assert reply.status_code == 201, reply.text
    return str(reply.json()["id"])


@pytest.fixture(scope="module")
def job(shared: Cluster, guarded: Gateway) -> Iterator[str]:
    """A running job of the tenant acme."""
    text = token(shared, Scope.SUBMIT, Scope.CANCEL, tenant="acme")
    made = job_of(guarded, text)
    yield made
    with guarded.client(text) as client:
        client.post(f"/jobs/{made}/cancel")


#: What each scope opens.
CALLS = {
    ("POST", "/jobs"): Scope.SUBMIT,
    ("GET", "/jobs"): Scope.READ,
    ("GET", "/jobs/{job}"): Scope.READ,
    ("GET", "/jobs/{job}/result"): Scope.READ,
    ("GET", "/jobs/{job}/events"): Scope.READ,
    ("GET", "/events?jobs={job}"): Scope.READ,
    ("GET", "/queue"): Scope.READ,
    ("POST", "/jobs/{job}/cancel"): Scope.CANCEL,
    ("GET", "/accounts"): Scope.ADMIN,
}


@pytest.mark.parametrize(("method", "path"), CALLS, ids=" ".join)
def test_each_call_needs_its_scope_and_nothing_opens_without(
    shared: Cluster, guarded: Gateway, job: str, method: str, path: str
) -> None:
    needed, target = CALLS[method, path], path.replace("{job}", job)
    others = [scope for scope in Scope if scope not in (needed, Scope.ADMIN)]
    for text, status, code in (
        (None, 401, "unauthorized"),
        (token(shared, *others), 403, "forbidden"),
    ):
        with guarded.client(text) as client:
            reply = client.request(method, target)
        assert (reply.status_code, reply.json()["code"]) == (status, code)
        assert reply.headers["content-type"] == "application/problem+json"
    if status == 401:
        assert reply.headers["www-authenticate"] == "Bearer"


def test_a_job_of_another_tenant_does_not_exist(
    shared: Cluster, guarded: Gateway, job: str
) -> None:
    strangers = [Scope.SUBMIT, Scope.READ, Scope.CANCEL]
    with guarded.client(token(shared, *strangers, tenant="other")) as client:
        for method, path in (
            ("GET", f"/jobs/{job}"),
            ("GET", f"/jobs/{job}/result"),
            ("GET", f"/jobs/{job}/events"),
            ("GET", f"/events?jobs={job}"),
            ("POST", f"/jobs/{job}/cancel"),
            ("GET", f"/view/{job}"),
            ("POST", f"/view/{job}/cancel"),
        ):
            known = client.request(method, path)
            unknown = client.request(method, path.replace(job, "0" * 12))
            assert known.status_code == unknown.status_code == 404
            assert known.text.replace(job, "") == unknown.text.replace("0" * 12, "")
        assert client.get("/jobs", params={"tenant": "acme"}).json()["jobs"] == []
        assert job not in client.get("/jobs").text + client.get("/queue").text
        assert job not in client.get("/").text
        body = {"kind": "generate", "prompt": "x", "tenant": "acme"}
        assert client.post("/jobs", json=body).json()["code"] == "forbidden"
    with guarded.client(token(shared, Scope.READ, tenant="acme")) as client:
        assert job in client.get("/jobs").text


def test_one_idempotency_key_of_two_tenants_is_two_jobs(shared: Cluster, guarded: Gateway) -> None:
    made = set()
    for tenant in ("acme", "other"):
        with guarded.client(token(shared, Scope.SUBMIT, tenant=tenant)) as client:
            body = {"kind": "generate", "prompt": "x", "model": "sim:plain"}
            reply = client.post("/jobs", json=body, headers={"Idempotency-Key": "same"})
            made.add(reply.json()["id"])
    assert len(made) == 2


def test_a_token_of_one_job_is_of_that_job_alone(
    shared: Cluster, guarded: Gateway, job: str
) -> None:
    other = job_of(guarded, token(shared, Scope.SUBMIT), "sim:plain")
    with guarded.client(token(shared, Scope.READ, Scope.SUBMIT, job=job)) as client:
        assert client.get(f"/jobs/{job}").status_code == 200
        assert client.get(f"/jobs/{other}").status_code == 404
        assert [each["id"] for each in client.get("/jobs").json()["jobs"]] == [job]
        body = {"kind": "generate", "prompt": "x"}
        assert client.post("/jobs", json=body).json()["code"] == "forbidden"


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_token_that_is_over_opens_nothing_and_ends_what_it_had_opened(
    shared: Cluster, guarded: Gateway, job: str, how: str
) -> None:
    expires_s = 1.5 if how == "expired" else None
    made, text = tokens.create(shared.client, "over", (Scope.READ,), expires_s=expires_s)
    with guarded.client(text) as client:
        ended = False
        for event in EventSource(client, f"/jobs/{job}/events").events():
            if event.name == "text" and how == "revoked" and not ended:
                ended = tokens.revoke(shared.client, made.id)
        reply = client.get(f"/jobs/{job}")
    assert (reply.status_code, reply.json()["code"]) == (401, "unauthorized")


def test_redis_holds_no_token(shared: Cluster, guarded: Gateway) -> None:
    text = token(shared, Scope.READ)
    secret = text.split("_", 2)[2]
    with guarded.client(text) as client:
        assert client.get("/jobs").status_code == 200
    stored = shared.client.hgetall("ls:tokens")
    assert stored
    assert secret not in str(stored)


@pytest.mark.parametrize("text", ["-", "x", "ls_", "ls_000000000000_", "ls_000000000000_x", "é"])
def test_what_is_no_token_is_refused(shared: Cluster, guarded: Gateway, text: str) -> None:
    fresh = {"X-Forwarded-For": f"10.0.0.{len(text)}", "Authorization": f"Bearer {text}".encode()}
    reply = httpx.get(f"{guarded.url}/jobs", headers=fresh)  # type: ignore[arg-type]
    assert (reply.status_code, reply.json()["code"]) == (401, "unauthorized")


def test_who_guesses_is_told_to_wait_and_nobody_else_is(shared: Cluster, guarded: Gateway) -> None:
    right = token(shared, Scope.READ)
    wrong = right[:-1] + ("a" if right[-1] != "a" else "b")
    guesser = {"X-Forwarded-For": "10.9.9.9"}
    with guarded.client(wrong, trust_env=False) as client:
        answers = [client.get("/jobs", headers=guesser) for _ in range(12)]
        assert [answer.status_code for answer in answers] == [401] * 10 + [429] * 2
        assert 0 < int(answers[-1].headers["retry-after"]) <= 60
        elsewhere = client.get("/jobs", headers={"X-Forwarded-For": "10.9.9.8"})
        assert elsewhere.status_code == 401
    with guarded.client(right) as client:
        assert client.get("/jobs", headers=guesser).status_code == 200


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.4", False),
        ("example.org", False),
    ],
)
def test_only_loopback_is_open_without_tokens(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_name_that_was_made_to_point_here_is_not_answered(gateway: Gateway) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "a b"):
        reply = httpx.get(f"{gateway.url}/jobs", headers={"Host": host})
        assert reply.status_code in (400, 403), host
    for host in ("localhost", f"127.0.0.1:{gateway.port}", "LOCALHOST", "[::1]:1"):
        assert httpx.get(f"{gateway.url}/jobs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_a_page_of_another_site_can_not_change_anything(
    gateway: Gateway, headers: dict[str, str]
) -> None:
    body = {"kind": "generate", "prompt": "x"}
    for path in ("/jobs", "/ask", "/sign-in", "/jobs/x/cancel"):
        reply = httpx.post(f"{gateway.url}{path}", json=body, headers=headers)
        assert (reply.status_code, reply.json()["code"]) == (403, "cross_site")


def test_no_other_site_may_read_an_answer(gateway: Gateway) -> None:
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}
    for method in ("GET", "OPTIONS"):
        reply = httpx.request(method, f"{gateway.url}/jobs", headers=origin)
        assert not [name for name in reply.headers if name.startswith("access-control")]


def test_every_answer_has_a_strict_policy(guarded: Gateway, gateway: Gateway) -> None:
    for url in ("/", "/jobs", "/nothing", "/assets/page.js", "/openapi.json", "/jobs/x/events"):
        for each in (guarded, gateway):
            reply = httpx.get(each.url + url)
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "*" not in policy
            assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_browser_signs_in_with_a_cookie_no_script_can_read(
    shared: Cluster, guarded: Gateway
) -> None:
    text = token(shared, *EVERYTHING)
    with guarded.client() as client:
        assert client.get("/").headers["location"] == "/sign-in"
        assert client.post("/sign-in", data={"token": "wrong"}).status_code == 401
        reply = client.post("/sign-in", data={"token": text})
        cookie = reply.headers["set-cookie"].lower()
        assert reply.status_code == 303
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/").status_code == 200
        assert client.get("/jobs").status_code == 200
        client.post("/sign-out")
        assert client.get("/jobs").status_code == 401


def test_the_log_holds_no_token_and_no_prompt(shared: Cluster, guarded: Gateway) -> None:
    text = token(shared, *EVERYTHING)
    made = job_of(guarded, text, "sim:plain")
    with guarded.client(text) as client:
        wait_until("it ended", lambda: client.get(f"/jobs/{made}").json()["state"] == "ended")
        answer = client.get(f"/jobs/{made}/result").json()["result"]
        client.get("/jobs", params={"token": text, PROMPT: PROMPT})
        client.get(f"/{PROMPT}/{text}")
        client.get(f"/jobs/{PROMPT}{text[:20]}")
        client.post("/jobs", content=PROMPT, headers={"Content-Type": "application/json"})
        client.post("/sign-in", data={"token": text})
        client.request(PROMPT[:20], "/jobs")
    log = guarded.log.read_text()
    assert "gateway.answered" in log
    secret = text.split("_", 2)[2]
    for hidden in (secret, PROMPT, PROMPT[:20], answer[:40]):
        assert hidden not in log
    assert not re.search(r"ls_[0-9a-f]{12}_", log)
