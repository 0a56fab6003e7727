"""Kubeconfig files are read as kubectl reads them, and errors show no secrets."""

import base64
from typing import Any

import pytest
import yaml

from bigfleet.kube.errors import LoginError
from bigfleet.kube.kubeconfig import Material, merge

SECRET = "very-secret"


def config(
    name: str = "one", user: dict[str, Any] | None = None, *, current: str | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name if current is None else current,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443/"}}],
        "users": [{"name": name, "user": {"token": SECRET} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "shop"}}],
    }


def files(*documents: dict[str, Any]) -> list[tuple[str, str]]:
    return [(f"/home/dir{number}/config", yaml.safe_dump(item)) for number, item in enumerate(documents)]


def test_a_simple_file() -> None:
    target = merge(files(config())).resolve()
    assert (target.server, target.namespace, target.token) == ("https://one:6443", "shop", SECRET)
    assert SECRET not in repr(target)


def test_the_first_file_that_sets_something_wins() -> None:
    second = config("one", {"token": "other"}, current="two")
    second["clusters"].append({"name": "two", "cluster": {"server": "https://two"}})
    second["contexts"].append({"name": "two", "context": {"cluster": "two", "user": "one"}})
    merged = merge(files(config(), second))
    assert merged.current_context == "one"
    assert merged.resolve().token == SECRET
    # a context of the second file with a user of the first
    assert (merged.resolve("two").server, merged.resolve("two").token) == ("https://two", SECRET)


def test_a_file_without_a_current_context_leaves_it_to_the_next() -> None:
    assert merge(files(config("one", current=""), config("two"))).resolve().server == "https://two:6443"


def test_paths_count_from_the_file_they_stand_in() -> None:
    document = config(user={"client-certificate": "tls/c.pem", "client-key": "/abs/k.pem", "tokenFile": "t"})
    document["clusters"][0]["cluster"]["certificate-authority"] = "../ca.pem"
    target = merge([("/etc/kube/config", yaml.safe_dump(document))]).resolve()
    assert target.ca.file == "/etc/kube/../ca.pem"
    assert (target.cert.file, target.key.file) == ("/etc/kube/tls/c.pem", "/abs/k.pem")
    assert target.token_file == "/etc/kube/t"


def test_data_beats_a_file() -> None:
    encoded = base64.b64encode(b"PEM").decode()
    document = config(user={"client-certificate": "c.pem", "client-certificate-data": encoded})
    assert merge(files(document)).resolve().cert == Material(data=b"PEM")


def test_a_plugin_with_a_slash_is_a_file_beside_the_config() -> None:
    relative = config(
        user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "bin/login"}}
    )
    plain = config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "login"}})
    for document, command in ((relative, "/home/dir0/bin/login"), (plain, "login")):
        plugin = merge(files(document)).resolve().exec_plugin
        assert plugin is not None
        assert plugin["command"] == command


def test_settings_of_the_connection_are_taken_over() -> None:
    document = config(user={"as": "jane"})
    document["clusters"][0]["cluster"] |= {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "api.example.com",
        "proxy-url": "http://proxy:3128",
    }
    target = merge(files(document)).resolve()
    assert (target.insecure, target.tls_server_name, target.proxy, target.impersonate) == (
        True,
        "api.example.com",
        "http://proxy:3128",
        "jane",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no current-context is set"),
        ("[1]", "a kubeconfig must be a map"),
        (f"token: {SECRET}\n  : :\n- x", "not readable as YAML at line"),
        (yaml.safe_dump(config(current="gone")), "found context 'gone', allowed is one"),
        (yaml.safe_dump(config() | {"clusters": []}), "found cluster 'one', allowed is none"),
        (yaml.safe_dump(config() | {"users": 7}), "users must be a list"),
        (yaml.safe_dump(config() | {"clusters": {"one": {}}}), "clusters must be a list"),
        (yaml.safe_dump(config() | {"users": [{"user": {}}]}), "every entry of users must have a name"),
        (yaml.safe_dump(config() | {"users": [{"name": "one", "user": 3}]}), "must be a map"),
        (yaml.safe_dump(config(user={"client-key-data": "%%%"})), "client-key-data is not base64"),
        (yaml.safe_dump(config(user={"client-key-data": "\u00a0aGk="})), "client-key-data is not base64"),
        (yaml.safe_dump(config(user={"token": 17})), "token must be a text"),
        (
            yaml.safe_dump(config(user={"auth-provider": {"name": "gcp"}})),
            "auth-provider is no longer in use",
        ),
        (yaml.safe_dump(config(user={"username": "u", "password": SECRET})), "API servers know no passwords"),
        (yaml.safe_dump(config(user={"exec": {"args": []}})), "exec must name a command"),
        (yaml.safe_dump(config(user={"as": "x", "as-groups": ["g"]})), "as-groups is not supported"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_file_and_without_secrets(text: str, message: str) -> None:
    with pytest.raises(LoginError) as caught:
        merge([("/etc/kube/config", text)]).resolve()
    assert message in str(caught.value)
    assert "/etc/kube/config" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_server_must_be_an_address() -> None:
    document = config()
    document["clusters"][0]["cluster"]["server"] = "one:6443"
    with pytest.raises(LoginError, match="must begin with https://"):
        merge(files(document)).resolve()
