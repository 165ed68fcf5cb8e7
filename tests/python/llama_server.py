"""llama.cpp's own HTTP server with a tiny model of random weights.

Usage: llama_server.py FOLDER {ends|endless}

Writes the model to FOLDER, serves it on a free port of 127.0.0.1 and says
where. It ends when its standard input does.

The model talks in random words. One dimension of its embeddings is the same
for all tokens, and the output weights of that dimension lean towards words
and, in a model that ends, towards the token that ends an answer.
"""

import random
import struct
import sys
from pathlib import Path

import xllamacpp

CONTEXT = 32768
WIDTH = 32  # of an embedding
HEADS = 2
HIDDEN = 64  # of the feed-forward layer

WORDS = "the sea was calm and a small boat went out while grey birds sang über café 猫 🦀".split()
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
TOKENS = SPECIAL + BYTES + ["\u2581" + word for word in WORDS]
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

# Tools are described in the prompt, as templates of real models do it.
TEMPLATE = """{%- if tools %}<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
For a call write <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>
{% endif %}
{%- for message in messages %}<|{{ message.role }}|>
{{ message.content }}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}
{%- endif %}
{% endfor %}
{%- if add_generation_prompt %}<|assistant|>
{% endif %}"""


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


# Types of values in a GGUF file: number and how a value is written.
KINDS = {
    "u32": (4, lambda value: struct.pack("<I", value)),
    "i32": (5, lambda value: struct.pack("<i", value)),
    "f32": (6, lambda value: struct.pack("<f", value)),
    "bool": (7, lambda value: struct.pack("<?", value)),
    "text": (8, text),
}
ARRAY = 9
ALIGNMENT = 32


def field(key, kind, value):
    number, write = KINDS[kind]
    if isinstance(value, list):
        head = struct.pack("<IIQ", ARRAY, number, len(value))
        return text(key) + head + b"".join(map(write, value))
    return text(key) + struct.pack("<I", number) + write(value)


def lean(index, ends):
    """How much the model leans towards a token."""
    if index == TOKENS.index("</s>"):
        return 1.0 if ends else -4.0
    return 1.0 if index >= len(SPECIAL) + len(BYTES) else -4.0


def write_model(path, ends):
    count = len(TOKENS)
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * len(BYTES) + [NORMAL] * len(WORDS)
    fields = [
        field("general.architecture", "text", "llama"),
        field("general.name", "text", "random words"),
        field("llama.context_length", "u32", CONTEXT),
        field("llama.embedding_length", "u32", WIDTH),
        field("llama.block_count", "u32", 1),
        field("llama.feed_forward_length", "u32", HIDDEN),
        field("llama.rope.dimension_count", "u32", WIDTH // HEADS),
        field("llama.attention.head_count", "u32", HEADS),
        field("llama.attention.head_count_kv", "u32", HEADS),
        field("llama.attention.layer_norm_rms_epsilon", "f32", 1e-5),
        field("llama.vocab_size", "u32", count),
        field("tokenizer.ggml.model", "text", "llama"),
        field("tokenizer.ggml.tokens", "text", TOKENS),
        field("tokenizer.ggml.scores", "f32", [0.0] * count),
        field("tokenizer.ggml.token_type", "i32", kinds),
        field("tokenizer.ggml.unknown_token_id", "u32", 0),
        field("tokenizer.ggml.bos_token_id", "u32", 1),
        field("tokenizer.ggml.eos_token_id", "u32", 2),
        field("tokenizer.ggml.add_bos_token", "bool", True),
        field("tokenizer.chat_template", "text", TEMPLATE),
    ]
    dice = random.Random(7)

    def noise(columns, rows):
        return [[dice.gauss(0, 0.1) for _ in range(columns)] for _ in range(rows)]

    embeddings, output = noise(WIDTH, count), noise(WIDTH, count)
    for index in range(count):
        embeddings[index][0] = 4.0
        output[index][0] = lean(index, ends)
    ones = [[1.0] * WIDTH]
    tensors = {
        "token_embd.weight": embeddings,
        "output_norm.weight": ones,
        "output.weight": output,
        "blk.0.attn_norm.weight": ones,
        "blk.0.attn_q.weight": noise(WIDTH, WIDTH),
        "blk.0.attn_k.weight": noise(WIDTH, WIDTH),
        "blk.0.attn_v.weight": noise(WIDTH, WIDTH),
        "blk.0.attn_output.weight": noise(WIDTH, WIDTH),
        "blk.0.ffn_norm.weight": ones,
        "blk.0.ffn_gate.weight": noise(WIDTH, HIDDEN),
        "blk.0.ffn_up.weight": noise(WIDTH, HIDDEN),
        "blk.0.ffn_down.weight": noise(HIDDEN, WIDTH),
    }
    infos, data = b"", b""
    for name, rows in tensors.items():
        shape = [len(rows[0])] + ([len(rows)] if len(rows) > 1 else [])
        infos += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        infos += struct.pack("<IQ", 0, len(data))  # 32-bit floats
        for row in rows:
            data += struct.pack(f"<{len(row)}f", *row)
        data += bytes(-len(data) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)) + b"".join(fields) + infos
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)


def main():
    folder, mode = sys.argv[1:]
    model = Path(folder) / f"{mode}.gguf"
    write_model(model, mode == "ends")
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {"tiny"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.warmup = False
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}", flush=True)
    sys.stdin.read()


main()
