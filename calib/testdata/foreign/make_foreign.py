"""Writes the Parquet files of this folder with pyarrow, and expected.json.

pip install pyarrow; python make_foreign.py (made with pyarrow 26.0.1)

expected.json has for every file the options of calib.Open and the records
that it must give, or a part of the error.
"""

import json

import pyarrow as pa
import pyarrow.parquet as pq

expected = {}


def write(name, table, records=None, error=None, column="", **options):
    pq.write_table(table, name + ".parquet", store_schema=False, **options)
    expected[name] = {"column": column, "records": records, "error": error}


def rows(values):
    """What remains of a column of texts: nulls are left out."""
    return [[i + 1, v] for i, v in enumerate(values) if v is not None]


words = ["", "one", None, "zwei äöü", "tres\nlíneas", "四", None, "five " * 40, "one", "one"]
many = [None if i % 7 == 3 else f"record {i % 5} of many" for i in range(250)]

for codec in ["NONE", "SNAPPY", "GZIP", "BROTLI", "ZSTD"]:
    for page in ["1.0", "2.0"]:
        write(f"codec_{codec.lower()}_v{page[0]}", pa.table({"id": list(range(len(words))), "text": words}),
              rows(words), compression=codec, data_page_version=page)
write("codec_lz4", pa.table({"text": ["a" * 100, *many]}), rows(["a" * 100, *many]), compression="LZ4")

for encoding in ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]:
    for page in ["1.0", "2.0"]:
        write(f"encoding_{encoding.lower()}_v{page[0]}", pa.table({"text": many}), rows(many), compression="ZSTD",
              use_dictionary=False, column_encoding={"text": encoding}, data_page_version=page,
              data_page_size=900, write_batch_size=20)
write("encoding_dictionary_groups", pa.table({"text": many}), rows(many), row_group_size=97, compression="GZIP", data_page_size=200, write_batch_size=20)
write("encoding_dictionary_overflows", pa.table({"text": [f"{i} " * 20 for i in range(90)]}),
      rows([f"{i} " * 20 for i in range(90)]), compression="ZSTD", dictionary_pagesize_limit=2000, data_page_size=1000, write_batch_size=10)

constant = ["same"] * 50
write("constant", pa.table({"text": constant}), rows(constant), data_page_version="2.0")
required = pa.schema([pa.field("text", pa.string(), nullable=False)])
write("required", pa.table({"text": constant}, schema=required), rows(constant))
for page in ["1.0", "2.0"]:
    for codec in ["SNAPPY", "GZIP", "BROTLI", "ZSTD"]:
        write(f"all_null_{codec.lower()}_v{page[0]}", pa.table({"text": pa.array([None] * 20, pa.string())}), [], compression=codec, data_page_version=page)
write("no_rows", pa.table({"text": pa.array([], pa.string())}), [])

for name, kind in {"large": pa.large_string(), "category": pa.dictionary(pa.int32(), pa.string()), "view": pa.string_view()}.items():
    write("type_" + name, pa.table({"text": pa.array(["a", None, "b c", "a"]).cast(pa.string()).cast(kind)}), rows(["a", None, "b c", "a"]))

ids = [[1, 2, 3], [], None, [4], list(range(90, 200)), [7, 8]]
kept = [[i + 1, v] for i, v in enumerate(ids) if v]
for name, kind in {"int32": pa.int32(), "int64": pa.int64(), "uint16": pa.uint16(), "int8_large": pa.int16()}.items():
    listed = pa.large_list(kind) if "large" in name else pa.list_(kind)
    for page in ["1.0", "2.0"]:
        write(f"ids_{name}_v{page[0]}", pa.table({"text": ["no"] * len(ids), "input_ids": pa.array(ids, listed), "attention_mask": pa.array(ids, listed)}),
              kept, data_page_version=page, data_page_size=100, write_batch_size=10)
write("ids_delta", pa.table({"input_ids": pa.array(ids, pa.list_(pa.int64()))}), kept, use_dictionary=False, column_encoding="DELTA_BINARY_PACKED")
write("ids_delta32", pa.table({"input_ids": pa.array(ids, pa.list_(pa.int32()))}), kept, use_dictionary=False, column_encoding="DELTA_BINARY_PACKED")
write("ids_fixed_size", pa.table({"input_ids": pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))}), [[1, [1, 2]], [2, [3, 4]]])
write("ids_named", pa.table({"text": ["a"], "tokens": [[5, 6]]}), [[1, [5, 6]]], column="tokens")
write("ids_null_inside", pa.table({"input_ids": pa.array([[1], [2, None]], pa.list_(pa.int32()))}), error='row 2: column "input_ids.list.element": a token id is null')
write("ids_negative", pa.table({"input_ids": [[1], [2, -5]]}), error="row 2: column \"input_ids.list.element\": -5 is not a token id")
write("ids_too_large", pa.table({"input_ids": [[1 << 31]]}), error="2147483648 is not a token id")
write("ids_flat_is_no_list", pa.table({"input_ids": [1, 2], "text": ["a", "b"]}), rows(["a", "b"]))
write("ids_of_lists", pa.table({"input_ids": [[[1], [2]]], "text": ["a"]}), rows(["a"]))
write("ids_of_floats", pa.table({"input_ids": [[1.5]], "text": ["a"]}), rows(["a"]))
write("ids_of_dates", pa.table({"input_ids": pa.array([[1]], pa.list_(pa.date32())), "text": ["a"]}), rows(["a"]))

write("column_content", pa.table({"title": ["t"], "content": ["c"]}), rows(["c"]))
write("column_text_first", pa.table({"content": ["c"], "text": ["t"]}), rows(["t"]))
write("column_text_is_no_text", pa.table({"text": [1], "content": ["c"]}), rows(["c"]))
write("column_all", pa.table({"n": [1, 2, 3, 4], "a": ["x", None, None, None], "b": ["y", "z", None, None], "l": [["l", "m"], [], ["l"], None]}), rows(["x y l m", "z", "l", None]))
write("column_twice", pa.Table.from_arrays([pa.array(["a", None]), pa.array(["b", "c"])], names=["text", "text"]), rows(["a b", "c"]))
write("column_of_nothing", pa.table({}), error="no column of text or token ids; there are none")
write("column_named", pa.table({"text": ["t"], "other": ["o"]}), rows(["o"]), column="other")
write("column_named_number", pa.table({"text": ["t"], "n": [1]}), error='column "n" holds neither text nor token ids', column="n")
write("column_unknown", pa.table({"text": ["t"], "n": [1]}), error='no column "txt"; there are "text" (BYTE_ARRAY), "n" (INT64)', column="txt")
write("column_none", pa.table({"n": [1], "x": [1.5]}), error="no column of text or token ids")
# Old writers do not say that bytes are text.
utf8, picture = "zwei äöü".encode(), b"\x89PNG\r\n\x1a\n\x00"
write("column_bytes", pa.table({"text": [utf8, None], "note": ["n", "n"]}), rows(["zwei äöü", None]))
write("column_bytes_named", pa.table({"raw": [utf8], "note": ["n"]}), rows(["zwei äöü"]), column="raw")
write("column_bytes_all", pa.table({"question": [utf8], "picture": [picture], "answer": [b"ja"]}), rows(["zwei äöü ja"]))
write("column_bytes_beside_text", pa.table({"raw": [utf8], "note": ["n"]}), rows(["n"]))
write("column_bytes_chat", pa.table({"messages": [[{"role": b"user", "content": b"Hi"}]]}), rows(["user Hi"]))
write("column_picture", pa.table({"text": [picture], "note": ["n"]}), error='column "text" is not text: "text" (BYTE_ARRAY); give --column')
write("column_picture_named", pa.table({"raw": [picture], "note": ["n"]}), error='column "raw" holds neither text nor token ids: "raw" (BYTE_ARRAY)', column="raw")
write("column_picture_late", pa.table({"text": [utf8] * 9 + [b"a\xff"], "note": ["n"] * 10}), error='column "text" is not text: "text" (BYTE_ARRAY); give --column')
write("column_null", pa.table({"text": pa.nulls(1), "note": ["n"]}), rows(["n"]))
write("column_decimal", pa.table({"text": pa.array([1], pa.decimal128(38, 2)), "note": ["n"]}), error='column "text" is not text: "text" (FIXED_LEN_BYTE_ARRAY); give --column')
write("column_fixed_bytes", pa.table({"text": pa.array([b"ab"], pa.binary(2))}), error='column "text" is not text: "text" (FIXED_LEN_BYTE_ARRAY); give --column')

chat = [
    [{"from": "human", "value": "Hi"}, {"from": "bot", "value": "Hello"}],
    [],
    None,
    [{"from": None, "value": "x"}, None, {"from": "y", "value": None}],
]
write("nested_chat", pa.table({"id": [1, 2, 3, 4], "conversations": chat}), rows(["human Hi bot Hello", None, None, "x y"]))
write("nested_chat_column", pa.table({"text": ["no"] * 4, "conversations": chat}), rows(["Hi Hello", None, None, "x"]), column="conversations.list.element.value")
write("nested_struct", pa.table({"text": pa.array([{"a": "1", "b": {"c": ["2", "3"]}}, None, {"a": None, "b": {"c": None}}])}), rows(["1 2 3", None, None]))
write("nested_path", pa.table({"meta": [{"title": "T", "body": "B"}], "text": ["no"]}), rows(["B"]), column="meta.body")
write("nested_lists", pa.table({"text": [[["a", "b"], ["c"]], [[], ["d"]], [None]]}), rows(["a b c", "d", None]))
write("nested_two_lists", pa.table({"q": [["q1", "q2"]], "a": [["a1", "a2"]]}), rows(["q1 q2 a1 a2"]))

with open("expected.json", "w") as out:
    lines = [f"{json.dumps(name)}: {json.dumps(case, ensure_ascii=False)}" for name, case in expected.items()]
    out.write("{\n" + ",\n".join(lines) + "\n}\n")
