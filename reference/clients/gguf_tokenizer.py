"""Writes the tokenizer inside a GGUF file as a folder that any transformers release can load.

    python gguf_tokenizer.py MODEL.gguf FOLDER
"""

import json
import sys
from pathlib import Path

from transformers import AutoTokenizer

model, folder = map(Path, sys.argv[1:])
tokenizer = AutoTokenizer.from_pretrained(model.parent, gguf_file=model.name)
tokenizer.save_pretrained(folder)
# the class that newer releases write is unknown to older ones; both know this one
config = folder / "tokenizer_config.json"
fields = json.loads(config.read_text())
fields["tokenizer_class"] = "PreTrainedTokenizerFast"
config.write_text(json.dumps(fields, indent=2))
print(folder)
