"""What does a change of rows look like to a client?"""

import json

from pykueue.web.tables import CHUNK_BYTES, CHUNK_ROWS, Delta, Table, chunks


def row(number: int, value: int = 0, pad: int = 0) -> bytes:
    return json.dumps({"n": number, "v": value, "pad": "x" * pad}).encode()


def test_only_differences_are_sent() -> None:
    table = Table()
    assert [*table.take({"a": row(1), "b": row(2)})] == [Delta((row(1), row(2)))]
    assert [*table.take({"a": row(1), "b": row(2, 5), "c": None})] == [Delta((row(2, 5),))]
    assert [*table.take({"a": None, "d": row(4)})] == [Delta((row(4),), ("a",))]
    assert [*table.take({"d": row(4)})] == []
    assert table.rows == {"b": row(2, 5), "d": row(4)}


def test_a_delta_is_json_whatever_keys_contain() -> None:
    key = 'n/"</script>\n'
    assert json.loads(Delta((row(1),), (key,)).encoded()) == {"set": [json.loads(row(1))], "del": [key]}


def test_large_changes_come_in_pieces_and_each_is_applied_when_it_is_sent() -> None:
    table = Table()
    pieces = table.take({str(number): row(number) for number in range(CHUNK_ROWS + 1)})
    assert len(next(pieces).rows) == CHUNK_ROWS
    assert len(table.rows) == CHUNK_ROWS
    assert len(next(pieces).rows) == 1
    wide = Table().take({str(number): row(number, pad=CHUNK_BYTES // 2) for number in range(4)})
    assert [len(one.rows) for one in wide] == [2, 2]


def test_a_whole_table_says_where_it_begins_and_ends() -> None:
    (empty,) = chunks(())
    assert json.loads(empty) == {"first": True, "rows": [], "more": False}
    made = [json.loads(one) for one in chunks([row(number) for number in range(2 * CHUNK_ROWS)])]
    assert [(one.get("first"), len(one["rows"]), one["more"]) for one in made] == [
        (True, CHUNK_ROWS, True),
        (None, CHUNK_ROWS, False),
    ]
    wide = [json.loads(one) for one in chunks([row(number, pad=CHUNK_BYTES) for number in range(3)])]
    assert [len(one["rows"]) for one in wide] == [1, 1, 1]
