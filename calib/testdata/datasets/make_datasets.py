"""Writes small files with the schemas of well-known data sets, each as Parquet
and as JSON lines, and expected.json: the columns that are read, and the texts.

pip install pyarrow duckdb; python make_datasets.py (made with pyarrow 26.0.1
and duckdb 2.0.0)
"""

import json

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

expected = {}


def dataset(name, columns, texts, rows, schema=None):
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, name + ".parquet", store_schema=False)
    with open(name + ".jsonl", "w") as out:
        for row in table.to_pylist():
            print(json.dumps(row, ensure_ascii=False), file=out)
    expected[name] = {"columns": columns, "texts": texts}


def chat(*turns):
    """Messages as Hugging Face's own data sets have them: content comes first."""
    return [{"content": text, "role": role} for role, text in turns]


def sharegpt(*turns):
    return [{"from": who, "value": text} for who, text in turns]


hello = [("user", "Hi"), ("assistant", "Hello!")]

dataset("ultrachat", ["messages"], ["user Hi assistant Hello!"],
        [{"prompt": "Hi", "prompt_id": "f0e3", "messages": chat(*hello)}])
dataset("sharegpt", ["conversations"], ["human Hi gpt Hello!", "system Be brief. human Yes?"],
        [{"id": "dolly0", "conversations": sharegpt(("human", "Hi"), ("gpt", "Hello!"))},
         {"id": "dolly1", "conversations": []},
         {"id": "dolly2", "conversations": sharegpt(("system", "Be brief."), ("human", "Yes?"))}])
dataset("openhermes", ["conversations"], ["human Hi gpt Hello!"],
        [{"custom_instruction": None, "topic": "t", "hash": "9a", "source": "airoboros",
          "conversations": [{"from": "human", "value": "Hi", "weight": None}, {"from": "gpt", "value": "Hello!", "weight": 1.0}]}])
dataset("lmsys", ["conversation"], ["user Hi assistant Hello!"],
        [{"conversation_id": "c1", "model": "vicuna-13b", "conversation": chat(*hello), "turn": 1, "language": "English",
          "openai_moderation": [{"categories": {"hate": False}, "flagged": False}]}])
dataset("wildchat", ["conversation"], ["user Hi assistant Hello!"],
        [{"conversation_hash": "00aa", "model": "gpt-4",
          "conversation": [{"content": text, "country": "Latvia", "hashed_ip": "77", "role": role, "toxic": False} for role, text in hello]}])
dataset("human_assistant", ["conversation"], ["Hi Hello! Bye See you"],
        [{"system": "s", "conversation": [{"human": "Hi", "assistant": "Hello!"}, {"human": "Bye", "assistant": "See you"}]}])
dataset("content_parts", ["messages"], ["user Look: what is it? assistant A cat"],
        [{"messages": [{"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image", "text": None}, {"type": "text", "text": "what is it?"}]},
                       {"role": "assistant", "content": [{"type": "text", "text": "A cat"}]}]}])
dataset("gsm8k_reinforcement", ["prompt"], ["user 2 + 2?"],
        [{"data_source": "openai/gsm8k", "prompt": chat(("user", "2 + 2?")), "ability": "math",
          "reward_model": {"ground_truth": "4", "style": "rule"}, "extra_info": {"answer": "2 + 2 = 4", "index": 0, "split": "train"}}])
dataset("preference", ["prompt", "chosen"], ["user Hi assistant Hello!"],
        [{"prompt": chat(hello[0]), "chosen": chat(hello[1]), "rejected": chat(("assistant", "What?"))}])
dataset("prompt_completion", ["prompt", "completion"], ["user Hi assistant Hello!"],
        [{"prompt": chat(hello[0]), "completion": chat(hello[1])}])
dataset("plain_preference", ["prompt", "chosen", "rejected"], ["Hi Hello! What?"],
        [{"prompt": "Hi", "chosen": "Hello!", "rejected": "What?"}])
dataset("gsm8k", ["question", "answer"], ["2 + 2? 4"], [{"question": "2 + 2?", "answer": "4"}])
dataset("alpaca", ["instruction", "input", "output"], ["Count.  1 2", "Sort. b a a b"],
        [{"instruction": "Count.", "input": "", "output": "1 2"}, {"instruction": "Sort.", "input": "b a", "output": "a b"}])
dataset("dolly", ["instruction", "context", "response", "category"], ["Who? A text. She. closed_qa"],
        [{"instruction": "Who?", "context": "A text.", "response": "She.", "category": "closed_qa"}])
dataset("squad", ["title", "context", "question", "answers", "id"], ["Rain It rained. What did it do? rained It rained 5733"],
        [{"id": "5733", "title": "Rain", "context": "It rained.", "question": "What did it do?",
          "answers": {"text": ["rained", "It rained"], "answer_start": [3, 0]}}])
dataset("dialogues", ["data", "id"], ["Hi Hello! 0"], [{"id": "0", "data": ["Hi", "Hello!"]}])
dataset("pretraining", ["text"], ["A page."],
        [{"text": "A page.", "id": "<urn:uuid:1>", "url": "https://example.org", "language_score": 0.9, "token_count": 3}])
dataset("source_code", ["content"], ["int x;"],
        [{"hexsha": "ab", "size": 6, "ext": "c", "content": "int x;", "licenses": ["MIT"]}])
dataset("nested_ids", ["steps", "uuid", "sessionId"], ["one two u-1 s-1 a b"],
        [{"uuid": "u-1", "sessionId": "s-1", "steps": [{"step_id": "a", "say": "one"}, {"step_id": "b", "say": "two"}]}])

# Bytes, and what only newer programs know, are no text. JSON has neither.
pq.write_table(pa.table({"image": [{"bytes": b"\x89PNG", "path": "a.png"}], "caption": ["A cat"]}), "pictures.parquet", store_schema=False)
expected["pictures"] = {"columns": ["image", "caption"], "texts": ["a.png A cat"]}
db = duckdb.connect()
for name, columns in {"variant": "42::VARIANT AS v, 'A note' AS note", "geometry": "'POINT(1 2)'::GEOMETRY AS g, 'A note' AS note"}.items():
    options = "FORMAT parquet, GEOPARQUET_VERSION 'NONE'" if name == "geometry" else "FORMAT parquet"
    db.execute(f"COPY (SELECT {columns}) TO '{name}.parquet' ({options})")
    expected[name] = {"columns": ["note"], "texts": ["A note"]}

with open("expected.json", "w") as out:
    lines = [f"{json.dumps(name)}: {json.dumps(case, ensure_ascii=False)}" for name, case in expected.items()]
    out.write("{\n" + ",\n".join(lines) + "\n}\n")
