"""Which files does the page consist of?"""

import gzip
from pathlib import Path

from pykueue.web.assets import ENTER_SCRIPT, INDEX, TYPES, assets


def test_the_built_page_is_in_the_package() -> None:
    found = assets()
    assert found[INDEX].media == "text/html; charset=utf-8"
    assert not found[INDEX].lasting
    assert found[ENTER_SCRIPT].media == "text/javascript; charset=utf-8"
    assert b"pykueue-key" in found[ENTER_SCRIPT].body
    for name, one in found.items():
        assert one.media in TYPES.values()
        assert not one.compressed or gzip.decompress(one.compressed) == one.body, name


def test_names_that_contain_their_hash_last_and_other_types_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / INDEX).write_text("<p>")
    code = b"let one = 1;\n" * 100
    (tmp_path / "assets/index-B3x_9aZ1.js").write_bytes(code)
    (tmp_path / "secret.py").write_text("1")
    assets.cache_clear()
    found = assets(tmp_path)
    assets.cache_clear()
    assert found.keys() == {INDEX, "assets/index-B3x_9aZ1.js"}
    assert found["assets/index-B3x_9aZ1.js"].lasting
    assert gzip.decompress(found["assets/index-B3x_9aZ1.js"].compressed) == code
    assert found[INDEX].compressed == b"", "it would be larger"
    assert found[INDEX].etag != found["assets/index-B3x_9aZ1.js"].etag
