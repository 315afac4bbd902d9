"""Renders our conversations with every chat template, as transformers does, and writes what came out.

    python reference/chat_templates.py [--texts FOLDER]

Needs `pip install transformers jinja2`. The templates of ../shared/data are not ours, so only hashes of what they
render are written (goldens/chat_templates.json); what our own small templates render is written whole. A Python error
inside a template ("failed") is no promise: some operations that Python refuses are harmless, such as a loop over None.
With --texts the texts themselves go to a folder, to look at differences.
"""

import argparse
import hashlib
import json
import pathlib
from datetime import datetime, timezone

import jinja2
import transformers
from transformers.utils import chat_template_utils

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "crates/text/tests/goldens"
GIVEN = ROOT.parent / "shared/data"


def given_templates():
    """The templates of the shared material, by their place in it."""
    for path in sorted(GIVEN.glob("chat-templates/*.jinja")):
        yield str(path.relative_to(GIVEN)), path.read_text()
    for path in sorted(GIVEN.glob("tokenizers/*/tokenizer_config.json")):
        source = json.loads(path.read_text()).get("chat_template")
        if source:
            yield str(path.relative_to(GIVEN)), source


def write(name, value):
    text = json.dumps(value, indent=1, ensure_ascii=False)
    (GOLDENS / name).write_text(text + "\n")


def fixed_clock(seconds):
    moment = datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None)

    class Clock:
        @staticmethod
        def now():
            return moment

    return Clock


def render(source, case, world):
    tools = case.get("tools")
    rendered, _ = chat_template_utils.render_jinja_template(
        conversations=[json.loads(json.dumps(case["messages"]))],
        tools=world["tools"] if tools else ([] if tools is False else None),
        chat_template=source,
        add_generation_prompt=case.get("add_generation_prompt", True),
        continue_final_message=case.get("continue_final_message", False),
        **{**world["special"], **case.get("kwargs", {})},
    )
    return rendered[0]


def outcome(source, case, world):
    """What came of a rendering: a text, a refusal by the template itself, or a Python error inside of it."""
    try:
        return "rendered", render(source, case, world)
    except Exception as error:
        if type(error) is jinja2.exceptions.TemplateError:
            return "refused", str(error)
        return "failed", f"{type(error).__name__}: {error}"


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=pathlib.Path)
    args = parser.parse_args()
    world = json.loads((GOLDENS / "conversations.json").read_text())
    chat_template_utils.datetime = fixed_clock(world["now"])
    made_with = {"transformers": transformers.__version__, "jinja2": jinja2.__version__}
    small = json.loads((GOLDENS / "small_templates.json").read_text())
    rendered = {
        template["name"]: {
            case["name"]: list(outcome(template["source"], case, world))
            for case in world["cases"]
            if case["name"] in small["cases"]
        }
        for template in small["templates"]
    }
    write("small_templates_rendered.json", {"made_with": made_with, "rendered": rendered})
    golden = {"made_with": made_with, "templates": {}}
    for name, source in given_templates():
        results = {}
        for case in world["cases"]:
            kind, text = outcome(source, case, world)
            results[case["name"]] = kind if kind == "failed" else f"{kind} {digest(text)}"
            if args.texts:
                folder = args.texts / name
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{case['name']}.{kind}").write_text(text)
        golden["templates"][name] = {
            "source": digest(source),
            "rendered": results,
        }
    write("chat_templates.json", golden)


if __name__ == "__main__":
    main()
