"""Trains tiny tokenizers of every kind on a few sentences of our own and writes what the reference library does with them.

    python reference/tokenizer_goldens.py

Needs `pip install tokenizers`. Writes crates/text/tests/goldens/tokenizers.json: each tokenizer.json whole, the ids of
a list of texts with and without special tokens, and the texts decoded from them. For the tokenizers and texts of
../shared/data, which are not ours, only a hash of all ids goes to given_tokenizers.json.
"""

import gzip
import hashlib
import json
import pathlib

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "crates/text/tests/goldens"
GIVEN = ROOT.parent / "shared/data"

CORPUS = [
    "The peregrine is the fastest of all birds; it doesn't need 320 km/h to be happy, but it's said to reach 389.",
    "A request is text, then tokens, then a sequence that owns a row on the device and pages of memory.",
    "Der Wanderfalke ist schneller als 12345 Züge. Écoute: le café est là, à côté de l'été — naïveté!",
    "隼は世界で最も速い鳥です。速度は三百キロを超えます。猎鹰很快。 Соколы летают быстро.",
    "def fast(bird):\n    return bird.speed > 300  # km/h\n\n\tif not fast(falcon): raise ValueError('slow')\n",
    "🦅🦅 eagles and 🐦 birds, ½ of them in Ⅷ groups of ١٢٣ and ४५६.   Many   spaces \t and tabs.",
]

TEXTS = CORPUS + [
    "",
    " ",
    "\n\n  leading and trailing \n ",
    "<|start|>user\nHello there<|end|>\n<|start|>assistant\n",
    "text<|end|> <tool>x</tool>  <|end|>",
    "unseen: Ωμέγα 한국어 \u0000\u0001 \ufffd 👩‍👩‍👧 e\u0301 ﬁ",
    "We'LL they'Re I'M don't O'Neill 'quoted'",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "1 22 333 4444 55555 3.14159e-10 0x7f",
]

QWEN = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
SPECIAL = [AddedToken(text, special=True, normalized=False) for text in ["<|start|>", "<|end|>", "<unk>"]]


def trained(tokenizer, trainer):
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def byte_level(cuts, normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = cuts
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer = trained(tokenizer, trainer)
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("</tool>", normalized=False)])
    return tokenizer


def qwen_like():
    cuts = [
        pre_tokenizers.Split(Regex(QWEN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    return byte_level(pre_tokenizers.Sequence(cuts), normalizers.NFC())


def smollm_like():
    cuts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer = byte_level(pre_tokenizers.Sequence(cuts))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|start|> $A <|end|>", special_tokens=[("<|start|>", 0), ("<|end|>", 1)]
    )
    return tokenizer


def llama_like():
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    pieces = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(pieces)
    byte_tokens = [AddedToken(f"<0x{byte:02X}>", special=True, normalized=False) for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=SPECIAL + byte_tokens, limit_alphabet=60, max_token_length=12, show_progress=False
    )
    file = json.loads(trained(tokenizer, trainer).to_str())
    file["added_tokens"] = file["added_tokens"][:3]
    return Tokenizer.from_str(json.dumps(file))


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=200, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
    )
    return trained(tokenizer, trainer)


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False)
    tokenizer = trained(tokenizer, trainer)
    tokenizer.post_processor = processors.BertProcessing(("<|end|>", 1), ("<|start|>", 0))
    return tokenizer


def given_texts():
    """The texts that the test reads too, in the same order."""
    texts = [json.loads(line)["question"] for line in (GIVEN / "gsm8k/test.jsonl").open()][:300]
    for line in (GIVEN / "sharegpt/mt_bench_question.jsonl").open():
        texts += json.loads(line)["turns"]
    for row in json.loads((GIVEN / "sharegpt/ShareGPT_V3_filtered_500.json").read_text())[:300]:
        texts += [turn["value"] for turn in row["conversations"]]
    return texts


def given_tokenizers():
    texts = given_texts()
    hashes = {}
    for path in sorted(GIVEN.glob("tokenizers/*/*.json.gz")):
        tokenizer = Tokenizer.from_str(gzip.decompress(path.read_bytes()).decode())
        digest = hashlib.sha256()
        for text in texts:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            digest.update(" ".join(map(str, ids)).encode() + b"\n")
        hashes[str(path.relative_to(GIVEN))] = digest.hexdigest()
    golden = {"made_with": {"tokenizers": tokenizers.__version__}, "texts": len(texts), "hashes": hashes}
    (GOLDENS / "given_tokenizers.json").write_text(json.dumps(golden, indent=1) + "\n")


def main():
    given_tokenizers()
    golden = {"made_with": {"tokenizers": tokenizers.__version__}, "texts": TEXTS, "tokenizers": []}
    for make in [qwen_like, smollm_like, llama_like, unigram, wordpiece]:
        tokenizer = make()
        plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
        golden["tokenizers"].append(
            {
                "name": make.__name__,
                "file": json.loads(tokenizer.to_str()),
                "ids": plain,
                "special_ids": [tokenizer.encode(text, add_special_tokens=True).ids for text in TEXTS],
                "decoded": [tokenizer.decode(ids, skip_special_tokens=False) for ids in plain],
                "decoded_without_special": [tokenizer.decode(ids, skip_special_tokens=True) for ids in plain],
            }
        )
    path = GOLDENS / "tokenizers.json"
    path.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
