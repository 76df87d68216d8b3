"""The tree of a stored object is kept for its version, up to a limit of bytes."""

import msgspec

from pykueue.api.core import Tree
from pykueue.apiserver.storage.records import Key, StoredObject, encoded
from pykueue.apiserver.verbs.recenttrees import BODY_BYTES, RecentTrees


def tree_of(name: str, text: str = "") -> Tree:
    return {"kind": "ConfigMap", "metadata": {"name": name, "uid": "u"}, "data": {"text": text}}


def stored(tree: Tree, version: int) -> StoredObject:
    metadata = tree["metadata"]
    assert isinstance(metadata, dict)
    return StoredObject(Key("configmaps", "default", str(metadata["name"])), version, "u", encoded(tree, version))


def test_a_kept_tree_is_that_of_the_body_and_shares_its_parts() -> None:
    trees, tree = RecentTrees(), tree_of("a")
    held = stored(tree, 7)
    trees.keep(held, tree)
    found = trees.of(held)
    assert found == msgspec.json.decode(held.body)
    assert found["data"] is tree["data"]
    assert "resourceVersion" not in str(tree)


def test_another_version_is_decoded() -> None:
    trees = RecentTrees()
    trees.keep(stored(tree_of("a", "old"), 7), tree_of("a", "old"))
    newer = stored(tree_of("a", "new"), 8)
    assert trees.of(newer) == msgspec.json.decode(newer.body)


def test_the_oldest_are_dropped_and_long_bodies_are_not_kept() -> None:
    size = len(stored(tree_of("0"), 1).body)
    trees = RecentTrees(limit=3 * size)
    for number in range(5):
        trees.keep(stored(tree_of(str(number)), number + 1), tree_of(str(number)))
    assert [key.name for key in trees.kept] == ["2", "3", "4"]
    long = tree_of("3", "x" * BODY_BYTES)
    trees.keep(stored(long, 9), long)
    assert [key.name for key in trees.kept] == ["2", "4"]
    trees.drop(Key("configmaps", "default", "2"))
    assert trees.bytes == size
