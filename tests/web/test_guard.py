"""Which requests come from our own page, by their headers?"""

import pytest

from pykueue.web.guard import POLICY, Address, cookie_of, is_foreign, is_foreign_entry, set_cookie

HERE = Address("http", ("127.0.0.1", "localhost", "::1"), 8080)
LAB = Address("https", ("Lab.example.com",), 443)


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080"])
def test_our_names(host: str) -> None:
    assert HERE.is_host(host)
    assert HERE.is_origin(f"http://{host}")
    assert not HERE.is_origin(f"https://{host}")


@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1",
        "127.0.0.1:80",
        "evil.example:8080",
        "127.0.0.1.evil.example:8080",
        "localhost:8080.",
        "::1:8080",
    ],
)
def test_other_names(host: str) -> None:
    assert not HERE.is_host(host)
    assert not HERE.is_origin(f"http://{host}")


def test_the_default_port_may_be_left_out() -> None:
    assert LAB.is_host("lab.example.com")
    assert LAB.is_host("lab.example.com:443")
    assert not Address("http", ("lab",), 443).is_host("lab")


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        pytest.param({}, False, id="no browser says anything"),
        pytest.param({"origin": "http://localhost:8080"}, False, id="our own page"),
        pytest.param({"origin": "http://evil.example"}, True, id="another site"),
        pytest.param({"origin": "null"}, True, id="a file or a sandbox"),
        pytest.param({"sec-fetch-site": "same-origin"}, False, id="our own page, as the browser says"),
        pytest.param({"sec-fetch-site": "none"}, False, id="the address bar"),
        pytest.param({"sec-fetch-site": "same-site"}, True, id="another port of this host"),
        pytest.param({"sec-fetch-site": "cross-site"}, True, id="another site without an Origin"),
    ],
)
def test_who_made_a_request(headers: dict[str, str], foreign: bool) -> None:
    assert is_foreign(HERE, headers) is foreign


def test_a_code_may_come_from_our_file_or_our_form() -> None:
    assert not is_foreign_entry(HERE, {})
    assert not is_foreign_entry(HERE, {"origin": "null", "sec-fetch-site": "cross-site"})
    server = Address("https", HERE.names, 6443)
    assert is_foreign_entry(server, {"origin": "null"}), "a sandboxed frame may send the code of another user"
    assert not is_foreign_entry(server, {"origin": f"https://{HERE.names[0]}:6443"})
    assert not is_foreign_entry(HERE, {"origin": "http://127.0.0.1:8080"})
    assert is_foreign_entry(HERE, {"origin": "http://evil.example"})


def test_the_cookie_is_ours_alone() -> None:
    assert set_cookie(HERE, "abc", 60) == (
        "Set-Cookie",
        "pykueue-ui-8080=abc; Path=/ui; Max-Age=60; HttpOnly; SameSite=Strict",
    )
    assert set_cookie(LAB, "abc", 60)[1].endswith("SameSite=Strict; Secure")
    assert cookie_of(HERE, {"cookie": "other=1; pykueue-ui-8080=abc; x"}) == "abc"
    assert cookie_of(HERE, {"cookie": "pykueue-ui-8081=abc"}) == ""
    assert cookie_of(HERE, {"cookie": "pykueue-ui-8080=abc; pykueue-ui-8080=def"}) == ""
    assert cookie_of(HERE, {}) == ""


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    assert POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "frame-ancestors 'none'" in POLICY
