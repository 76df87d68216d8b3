"""The cluster and user to use: kubeconfig files as kubectl reads them, or the pod's service account."""

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from pykueue.api.core import Json, Tree
from pykueue.api.fields import located, nearest
from pykueue.api.yamltext import FILE, yaml_tree
from pykueue.base.struct import Frozen, Wire
from pykueue.kube.client.connection import DEFAULT_NAMESPACE, Connection, proxy_for
from pykueue.kube.client.credentials import Credential, CredentialError, Credentials, Files, Fixed, text_of
from pykueue.kube.client.execplugin import GROUP, VERSIONS, Plugin, Program

HOME: Final = ".kube/config"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its service account."""


class KubeconfigError(Exception):
    """Settings that lead to no cluster: the file and field, what is wrong, and what to do."""


class Extension(Wire):
    """A setting of another program."""

    name: str = ""
    extension: object = None


class ClusterEntry(Wire, rename="kebab"):
    """The address of a cluster, and the certificates to trust."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: tuple[Extension, ...] | None = None


class ExecVariable(Wire):
    """A variable of a plugin's environment."""

    name: str
    value: str = ""


class ExecEntry(Wire):
    """A program that prints credentials."""

    command: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class UserEntry(Wire, rename="kebab"):
    """A user's credentials."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] | None = None
    as_user_extra: Mapping[str, tuple[str, ...]] | None = None
    exec: ExecEntry | None = None
    auth_provider: object = None


class ContextEntry(Wire):
    """A user, a cluster and a namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(Wire):
    """A cluster and its name."""

    name: str
    cluster: ClusterEntry | None = None


class NamedUser(Wire):
    """A user and their name."""

    name: str
    user: UserEntry | None = None


class NamedContext(Wire):
    """A context and its name."""

    name: str
    context: ContextEntry | None = None


class Kubeconfig(Wire, rename="kebab"):
    """One file."""

    clusters: tuple[NamedCluster, ...] | None = None
    users: tuple[NamedUser, ...] | None = None
    contexts: tuple[NamedContext, ...] | None = None
    current_context: str | None = None


E = TypeVar("E")


class Found(Frozen):
    """An entry, its file, and its path there."""

    entry: object
    file: Path
    path: str

    def at(self, field: str) -> str:
        """The name of a field of this entry in errors."""
        return f"{self.file}: {self.path}.{field}"

    def beside(self, name: str) -> Path:
        """A file that the entry names, relative to its own file."""
        return self.file.parent / Path(name).expanduser() if name.startswith("~") else self.file.parent / name


class Merged(Frozen):
    """Several files merged; of two entries with one name the first counts."""

    clusters: Mapping[str, Found]
    users: Mapping[str, Found]
    contexts: Mapping[str, Found]
    current: str
    files: tuple[Path, ...]


def connection(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    account: Path = ACCOUNT,
) -> Connection:
    """The cluster to use: from the file given, KUBECONFIG, ~/.kube/config, or the pod's service account."""
    try:
        if kubeconfig:
            return from_files((Path(kubeconfig),), context, environment)
        named = environment.get("KUBECONFIG", "")
        if named:
            files = tuple(Path(one) for one in dict.fromkeys(named.split(os.pathsep)) if one)
            present = tuple(file for file in files if file.exists())
            if not present:
                raise KubeconfigError(f"KUBECONFIG: none of {named!r} exists; correct it, or unset it")
            return from_files(present, context, environment)
        home = Path(environment.get("HOME") or "/") / HOME
        if home.exists():
            return from_files((home,), context, environment)
        return in_cluster(environment, account)
    except CredentialError as error:
        raise KubeconfigError(str(error)) from error


def in_cluster(environment: Mapping[str, str], account: Path) -> Connection:
    """The cluster of the pod that we run in, with its service account."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError(
            "no cluster is configured: KUBECONFIG is not set, ~/.kube/config does not exist, and this is not a pod; "
            "give --kubeconfig"
        )
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = account / "namespace"
    return Connection(
        server=server,
        credentials=Files(token=account / "token"),
        authority=text_of(account / "ca.crt"),
        proxy=proxy_for(server, environment),
        namespace=text_of(namespace).strip() if namespace.exists() else DEFAULT_NAMESPACE,
    )


def from_files(files: tuple[Path, ...], context: str | None, environment: Mapping[str, str]) -> Connection:
    """The cluster that a context of these files names."""
    merged = merge(files)
    listed = ", ".join(map(str, files))
    name = context or merged.current
    if not name:
        raise KubeconfigError(f"{listed}: current-context is not set; set it, or give --context")
    found = named(merged.contexts, name, listed, "contexts")
    chosen = entry_of(found, ContextEntry)
    if not chosen.cluster:
        raise KubeconfigError(f"{found.at('cluster')}: is missing; name one of the clusters")
    cluster = named(merged.clusters, chosen.cluster, found.at("cluster"), "clusters")
    user = named(merged.users, chosen.user, found.at("user"), "users") if chosen.user else None
    where = entry_of(cluster, ClusterEntry)
    return Connection(
        server=server_of(cluster, where),
        credentials=credentials_of(user, cluster) if user is not None else Fixed(Credential()),
        authority=authority_of(cluster, where),
        insecure=where.insecure_skip_tls_verify,
        server_name=where.tls_server_name,
        proxy=proxy_of(cluster, where, environment),
        namespace=chosen.namespace or DEFAULT_NAMESPACE,
        headers=impersonation(entry_of(user, UserEntry), user) if user is not None else (),
    )


def user_of(files: tuple[Path, ...], context: str | None) -> str:
    """The name of the user of a context of these files; empty if they name none."""
    try:
        merged = merge(files)
    except KubeconfigError:
        return ""
    found = merged.contexts.get(context or merged.current)
    return entry_of(found, ContextEntry).user if found is not None else ""


def merge(files: tuple[Path, ...]) -> Merged:
    """Merge the files."""
    clusters: dict[str, Found] = {}
    users: dict[str, Found] = {}
    contexts: dict[str, Found] = {}
    current = ""
    for file in files:
        said = read_kubeconfig(file)
        for one in said.clusters or ():
            entry = one.cluster or ClusterEntry()
            clusters.setdefault(one.name, Found(entry, file, f"clusters[{one.name}].cluster"))
        for person in said.users or ():
            users.setdefault(person.name, Found(person.user or UserEntry(), file, f"users[{person.name}].user"))
        for pair in said.contexts or ():
            place = f"contexts[{pair.name}].context"
            contexts.setdefault(pair.name, Found(pair.context or ContextEntry(), file, place))
        current = current or said.current_context or ""
    return Merged(clusters, users, contexts, current, files)


def read_kubeconfig(file: Path) -> Kubeconfig:
    """Read one file."""
    try:
        parsed = yaml_tree(file.read_text(encoding="utf-8"), FILE)
    except OSError as error:
        raise KubeconfigError(
            f"{file}: cannot be read: {error.strerror or error}; check that it exists and is readable"
        ) from error
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"{file}: not a kubeconfig: byte {error.start} is not UTF-8") from error
    if parsed.mistakes:
        raise KubeconfigError(f"{file}: not a kubeconfig: {parsed.mistakes[0]}")
    try:
        return msgspec.convert({} if parsed.value is None else parsed.value, Kubeconfig)
    except msgspec.ValidationError as error:
        path, problem = located(error)
        raise KubeconfigError(f"{file}: {path or 'not a kubeconfig'}: {problem[:1].lower()}{problem[1:]}") from error


def named(entries: Mapping[str, Found], name: str, where: str, what: str) -> Found:
    """The entry of this name."""
    found = entries.get(name)
    if found is None:
        near = nearest(name, entries)
        advice = f"did you mean {near}?" if near else f"use one of: {', '.join(entries) or 'none is defined'}"
        raise KubeconfigError(f"{where}: {name!r} is not among the {what}; {advice}")
    return found


def entry_of(found: Found, kind: type[E]) -> E:
    """The entry, decoded as its kind."""
    assert isinstance(found.entry, kind), f"{found.path} holds another kind of entry than {kind.__name__}"
    return found.entry


def server_of(found: Found, cluster: ClusterEntry) -> str:
    """The URL of a cluster, without a trailing slash."""
    url = urlsplit(cluster.server)
    try:
        wrong = url.scheme not in ("http", "https") or not url.hostname or (url.port is not None and not url.port)
    except ValueError:
        wrong = True
    if wrong:
        raise KubeconfigError(
            f"{found.at('server')}: {cluster.server!r} is not an address; write it as in https://127.0.0.1:6443"
        )
    return cluster.server.rstrip("/")


def authority_of(found: Found, cluster: ClusterEntry) -> str:
    """The trusted certificates of the server."""
    given = bool(cluster.certificate_authority or cluster.certificate_authority_data)
    if given and cluster.insecure_skip_tls_verify:
        raise KubeconfigError(
            f"{found.at('insecure-skip-tls-verify')}: is true although a certificate-authority is given; keep one"
        )
    return pem(
        found,
        "certificate-authority",
        file=cluster.certificate_authority,
        data=cluster.certificate_authority_data,
    )


def pem(found: Found, field: str, *, file: str, data: str) -> str:
    """The content of a pair of fields, one with the data and one with the name of a file; the data takes precedence."""
    if data:
        try:
            return base64.b64decode(data, validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError, ValueError) as error:
            raise KubeconfigError(f"{found.at(field + '-data')}: is not PEM in base64; encode it again") from error
    if not file:
        return ""
    try:
        return text_of(found.beside(file))
    except CredentialError as error:
        raise KubeconfigError(f"{found.at(field)}: {error}") from error


def proxy_of(found: Found, cluster: ClusterEntry, environment: Mapping[str, str]) -> str:
    """The proxy to use."""
    if not cluster.proxy_url:
        return proxy_for(cluster.server, environment)
    if urlsplit(cluster.proxy_url).scheme not in ("http", "https"):
        # The value may contain a password, so the error does not repeat it.
        raise KubeconfigError(f"{found.at('proxy-url')}: only http:// and https:// proxies are supported")
    return cluster.proxy_url


def credentials_of(found: Found, cluster: Found) -> Credentials:
    """The source of a user's credentials."""
    user = entry_of(found, UserEntry)
    if user.auth_provider is not None and not (user.exec or user.token or user.token_file):
        raise KubeconfigError(f"{found.at('auth-provider')}: is no longer supported by Kubernetes; use exec")
    if user.exec is not None:
        return Plugin(program_of(found, user.exec, cluster))
    certificate = pem(found, "client-certificate", file=user.client_certificate, data=user.client_certificate_data)
    key = pem(found, "client-key", file=user.client_key, data=user.client_key_data)
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise KubeconfigError(f"{found.at(missing)}: is missing; a client certificate and its key go together")
    known = Credential(authorization(found, user), certificate, key)
    # Data in the kubeconfig takes precedence over a file that it names.
    certificate_file = "" if user.client_certificate_data else user.client_certificate
    key_file = "" if user.client_key_data else user.client_key
    if not user.token_file and not certificate_file and not key_file:
        return Fixed(known)
    return Files(
        token=found.beside(user.token_file) if user.token_file else None,
        certificate=found.beside(certificate_file) if certificate_file else None,
        key=found.beside(key_file) if key_file else None,
        rest=known,
    )


def authorization(found: Found, user: UserEntry) -> str:
    """The Authorization header of a user's token or password."""
    if user.token:
        return f"Bearer {user.token}"
    if user.username:
        pair = f"{user.username}:{user.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    if user.password:
        raise KubeconfigError(f"{found.at('username')}: is missing, but there is a password; set both or neither")
    return ""


def program_of(found: Found, said: ExecEntry, cluster: Found) -> Program:
    """The program of an exec entry."""
    if not said.command:
        raise KubeconfigError(f"{found.at('exec.command')}: is missing; name the program that prints the credential")
    if said.api_version not in VERSIONS:
        raise KubeconfigError(
            f"{found.at('exec.apiVersion')}: {said.api_version!r} is not supported; use {' or '.join(VERSIONS)}"
        )
    if said.interactive_mode == "Always":
        raise KubeconfigError(f"{found.at('exec.interactiveMode')}: is Always, but there is no terminal; use Never")
    return Program(
        command=str(found.beside(said.command)) if os.sep in said.command else said.command,
        arguments=said.args or (),
        environment={variable.name: variable.value for variable in said.env or ()},
        api_version=said.api_version,
        cluster=cluster_info(cluster) if said.provide_cluster_info else None,
        hint=said.install_hint,
        where=found.at("exec"),
    )


def cluster_info(found: Found) -> Tree:
    """The cluster information for a plugin that asks for it."""
    cluster = entry_of(found, ClusterEntry)
    authority = authority_of(found, cluster)
    settings = next((one.extension for one in cluster.extensions or () if one.name == f"{GROUP}/exec"), None)
    told: dict[str, Json] = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
        "proxy-url": cluster.proxy_url,
        "config": msgspec.to_builtins(settings),
    }
    return {name: value for name, value in told.items() if value}


def impersonation(user: UserEntry, found: Found) -> tuple[tuple[str, str], ...]:
    """The headers for impersonation."""
    pairs = [("Impersonate-User", user.as_)] if user.as_ else []
    pairs += [("Impersonate-Uid", user.as_uid)] if user.as_uid else []
    pairs += [("Impersonate-Group", group) for group in user.as_groups or ()]
    pairs += [
        (f"Impersonate-Extra-{quote(key, safe='')}", value)
        for key, values in (user.as_user_extra or {}).items()
        for value in values
    ]
    if pairs and not user.as_:
        raise KubeconfigError(f"{found.at('as')}: is missing; groups and extras are impersonated with a user")
    return tuple(pairs)
