"""Do the settings lead to the right cluster, as the right user, and do mistakes in them say where they are?"""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from pykueue.base.clock import SystemClock
from pykueue.base.units import MICROS, Moment
from pykueue.kube.client.connection import Connection
from pykueue.kube.client.credentials import Credential, CredentialError, Files
from pykueue.kube.client.execplugin import Plugin
from pykueue.kube.client.kubeconfig import KubeconfigError, connection
from tests.clocks import SkippingClock

PEM = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\ndef\n-----END PRIVATE KEY-----\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def write(path: Path, *, cluster: Any = None, user: Any = None, context: Any = None, **top: Any) -> str:
    """A kubeconfig with one entry of each kind, named `it`."""
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": "https://it:6443", **(cluster or {})}}],
        "users": [{"name": "it", "user": user or {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", **(context or {})}}],
        "current-context": "it",
        **top,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(tree))
    return str(path)


async def shown(found: Connection) -> Credential:
    return await found.credentials.fetch(SystemClock())


async def test_a_cluster_and_a_user_are_found_by_the_current_context(tmp_path: Path) -> None:
    file = write(
        tmp_path / "config",
        cluster={
            "server": "https://it:6443/",
            "certificate-authority-data": encoded(PEM),
            "tls-server-name": "api",
            "proxy-url": "http://gate:3128",
        },
        user={"token": "secret", "client-certificate-data": encoded(PEM), "client-key-data": encoded(KEY)},
        context={"namespace": "team"},
    )
    found = connection(file)
    assert (found.server, found.authority, found.server_name) == ("https://it:6443", PEM, "api")
    assert (found.proxy, found.namespace, found.insecure) == ("http://gate:3128", "team", False)
    assert await shown(found) == Credential("Bearer secret", PEM, KEY)


async def test_files_are_looked_for_beside_the_file_that_names_them(tmp_path: Path) -> None:
    for name, text in (("ca.crt", PEM), ("keys/me.crt", PEM), ("keys/me.key", KEY), ("keys/token", " secret\n")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    file = write(
        tmp_path / "config",
        cluster={"certificate-authority": "ca.crt"},
        user={"client-certificate": "keys/me.crt", "client-key": "keys/me.key", "tokenFile": "keys/token"},
    )
    found = connection(file)
    assert found.authority == PEM
    credential = await shown(found)
    assert (credential.authorization, credential.certificate, credential.key) == ("Bearer secret", PEM, KEY)


def test_data_counts_for_more_than_a_file(tmp_path: Path) -> None:
    cluster = {"certificate-authority": "not there", "certificate-authority-data": encoded(PEM)}
    assert connection(write(tmp_path / "config", cluster=cluster)).authority == PEM


async def test_a_token_file_is_read_again_after_a_minute_and_its_last_token_kept_while_it_is_gone(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text("first")
    clock = SkippingClock()
    found = connection(write(tmp_path / "config", user={"tokenFile": "token", "token": "ignored"}))
    first = await found.credentials.fetch(clock)
    assert (first.authorization, first.until) == ("Bearer first", Moment(clock.moment() + 60 * MICROS))
    (tmp_path / "token").write_text("second")
    assert (await found.credentials.fetch(clock)).authorization == "Bearer second"
    (tmp_path / "token").unlink()
    assert (await found.credentials.fetch(clock)).authorization == "Bearer second"


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        pytest.param({}, "", id="nobody"),
        pytest.param({"token": "t"}, "Bearer t", id="a token"),
        pytest.param(
            {"username": "me", "password": "p\u00e4ss"}, f"Basic {encoded('me:päss')}", id="name and password"
        ),
    ],
)
async def test_a_user_shows_what_the_file_says(user: dict[str, str], authorization: str, tmp_path: Path) -> None:
    assert (await shown(connection(write(tmp_path / "config", user=user)))).authorization == authorization


def test_a_user_may_act_as_another(tmp_path: Path) -> None:
    user = {"token": "t", "as": "ann", "as-groups": ["a", "b"], "as-uid": "7", "as-user-extra": {"a/b": ["x", "y"]}}
    assert connection(write(tmp_path / "config", user=user)).headers == (
        ("Impersonate-User", "ann"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-a%2Fb", "x"),
        ("Impersonate-Extra-a%2Fb", "y"),
    )


async def test_several_files_are_merged_and_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "token").write_text("from two")
    one = write(tmp_path / "one" / "config", cluster={"server": "https://one:1"}, users=[], **{"current-context": ""})
    two = write(tmp_path / "two" / "config", cluster={"server": "https://two:2"}, user={"tokenFile": "token"})
    environment = {"KUBECONFIG": f"{tmp_path}/absent:{one}:{two}:{one}", "HOME": str(tmp_path)}
    found = connection(environment=environment)
    assert found.server == "https://one:1"
    assert (await shown(found)).authorization == "Bearer from two"


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    contexts = [{"name": name, "context": {"cluster": "it", "namespace": name}} for name in ("one", "two")]
    file = write(tmp_path / "config", contexts=contexts, **{"current-context": "one"})
    assert connection(file).namespace == "one"
    assert connection(file, "two").namespace == "two"


def test_what_is_given_comes_before_the_environment_and_that_before_the_home(tmp_path: Path) -> None:
    given = write(tmp_path / "given", cluster={"server": "https://given:1"})
    named = write(tmp_path / "named", cluster={"server": "https://named:1"})
    write(tmp_path / ".kube" / "config", cluster={"server": "https://home:1"})
    home = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "pod", "KUBERNETES_SERVICE_PORT": "443"}
    assert connection(given, environment={**home, "KUBECONFIG": named}).server == "https://given:1"
    assert connection(environment={**home, "KUBECONFIG": named}).server == "https://named:1"
    assert connection(environment=home).server == "https://home:1"


def pod(path: Path) -> Path:
    for name, text in (("token", "first"), ("ca.crt", PEM), ("namespace", "kueue-system\n")):
        (path / name).write_text(text)
    return path


@pytest.mark.parametrize(
    ("host", "server"), [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
async def test_a_pod_finds_its_own_cluster(host: str, server: str, tmp_path: Path) -> None:
    environment = {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": "443",
        "HOME": str(tmp_path),
        "HTTPS_PROXY": "http://gate:1",
        "NO_PROXY": "10.0.0.0/8,fd00::/16",
    }
    found = connection(environment=environment, account=pod(tmp_path))
    assert (found.server, found.authority, found.namespace, found.proxy) == (server, PEM, "kueue-system", "")
    assert (await shown(found)).authorization == "Bearer first"
    (tmp_path / "token").write_text("second")
    assert (await shown(found)).authorization == "Bearer second"
    assert isinstance(found.credentials, Files)


def test_a_plugin_is_told_what_it_asks_for(tmp_path: Path) -> None:
    settings = {"audience": "x"}
    file = write(
        tmp_path / "config",
        cluster={
            "certificate-authority-data": encoded(PEM),
            "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": settings}],
        },
        user={
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "bin/login",
                "args": ["--now"],
                "env": [{"name": "A", "value": "b"}],
                "provideClusterInfo": True,
                "interactiveMode": "IfAvailable",
            }
        },
    )
    plugin = connection(file).credentials
    assert isinstance(plugin, Plugin)
    program = plugin.program
    assert program.command == str(tmp_path / "bin/login")
    assert (program.arguments, dict(program.environment)) == (("--now",), {"A": "b"})
    assert program.cluster == {
        "server": "https://it:6443",
        "certificate-authority-data": encoded(PEM),
        "config": settings,
    }


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        pytest.param(
            {"cluster": {"server": "it:6443"}},
            "clusters[it].cluster.server: 'it:6443' is not an address",
            id="no scheme",
        ),
        pytest.param({"cluster": {"server": "https://it:x"}}, "clusters[it].cluster.server: ", id="no port"),
        pytest.param(
            {"cluster": {"certificate-authority-data": "?"}},
            "clusters[it].cluster.certificate-authority-data: is not PEM in base64",
            id="no base64",
        ),
        pytest.param(
            {"cluster": {"certificate-authority": "gone.crt"}},
            "clusters[it].cluster.certificate-authority: ",
            id="a file that is not there",
        ),
        pytest.param(
            {"cluster": {"certificate-authority-data": encoded(PEM), "insecure-skip-tls-verify": True}},
            "clusters[it].cluster.insecure-skip-tls-verify: is true although",
            id="trust and no trust",
        ),
        pytest.param(
            {"cluster": {"proxy-url": "socks5://me:password@gate"}},
            "clusters[it].cluster.proxy-url: only http:// and https://",
            id="another kind of proxy",
        ),
        pytest.param(
            {"user": {"client-certificate-data": encoded(PEM)}},
            "users[it].user.client-key: is missing",
            id="a certificate without its key",
        ),
        pytest.param({"user": {"password": "x"}}, "users[it].user.username: is missing", id="a password alone"),
        pytest.param({"user": {"as-groups": ["x"]}}, "users[it].user.as: is missing", id="groups of nobody"),
        pytest.param(
            {"user": {"token": 5}}, "users[0].user.token: expected `str`, got `int`", id="a number for a text"
        ),
        pytest.param({"user": {"auth-provider": {}}}, "users[it].user.auth-provider: is no longer", id="an old way"),
        pytest.param({"user": {"exec": {}}}, "users[it].user.exec.command: is missing", id="no program"),
        pytest.param(
            {"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}},
            "users[it].user.exec.apiVersion: 'client.authentication.k8s.io/v1alpha1' is not supported",
            id="an old program",
        ),
        pytest.param(
            {
                "user": {
                    "exec": {
                        "command": "x",
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "interactiveMode": "Always",
                    }
                }
            },
            "users[it].user.exec.interactiveMode: is Always",
            id="a program that asks",
        ),
        pytest.param(
            {"context": {"cluster": "itt"}},
            "contexts[it].context.cluster: 'itt' is not among the clusters; did you mean it?",
            id="no such cluster",
        ),
        pytest.param({"context": {"cluster": ""}}, "contexts[it].context.cluster: is missing", id="no cluster"),
        pytest.param(
            {"context": {"user": "q"}}, "contexts[it].context.user: 'q' is not among the users", id="no such user"
        ),
        pytest.param({"current-context": "q"}, "'q' is not among the contexts; use one of: it", id="no such context"),
        pytest.param({"current-context": ""}, "current-context is not set", id="no context"),
        pytest.param({"clusters": "what?"}, "clusters: expected `array | null`, got `str`", id="another shape"),
    ],
)
def test_a_mistake_names_its_file_and_field(entries: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = write(tmp_path / "config", **entries)
    with pytest.raises(KubeconfigError) as caught:
        connection(file)
    assert str(caught.value).startswith(file)
    assert said in str(caught.value)
    assert "password@" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a: ]", "not a kubeconfig: line 1, column 4: not YAML: ", id="no YAML"),
        pytest.param("- a", "not a kubeconfig: expected `object`, got `array`", id="a list"),
        pytest.param("\x00", "not YAML: unacceptable character", id="a control character"),
        pytest.param("root:x:0:0:root:/root:/bin/sh\nbin:x:1:1::/bin:\n", "not a kubeconfig: ", id="/etc/passwd"),
        pytest.param("", "current-context is not set", id="nothing"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(KubeconfigError, match=str(tmp_path)) as caught:
        connection(str(tmp_path / "config"))
    assert said in str(caught.value)


def test_no_settings_at_all_are_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="give --kubeconfig"):
        connection(environment={"HOME": str(tmp_path)})
    with pytest.raises(KubeconfigError, match="KUBECONFIG: none of '/nowhere' exists"):
        connection(environment={"HOME": str(tmp_path), "KUBECONFIG": "/nowhere"})
    with pytest.raises(
        KubeconfigError,
        match=r"^/nowhere: cannot be read: No such file or directory; check that it exists and is readable$",
    ):
        connection("/nowhere")


async def test_a_pod_without_its_token_says_so(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1", "HOME": str(tmp_path)}
    with pytest.raises(KubeconfigError, match=r"ca\.crt: cannot be read"):
        connection(environment=environment, account=tmp_path)
    (tmp_path / "ca.crt").write_text(PEM)
    (tmp_path / "token").write_text("\n")
    with pytest.raises(CredentialError, match="token: is empty"):
        await shown(connection(environment=environment, account=tmp_path))


def test_a_credential_does_not_print_its_secrets() -> None:
    assert "secret" not in repr(Credential("Bearer secret", "secret", "secret"))
