//! Every chat template given to the project renders our conversations as transformers does.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod shared;

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use text::{ContentFormat, RenderInput, SpecialTokens, Template, TemplateError};

fn hash(text: &str) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(text).iter().take(16) {
        write!(hash, "{byte:02x}").unwrap();
    }
    hash
}

fn special(world: &Value) -> SpecialTokens {
    let token = |name: &str| world["special"][name].as_str().map(str::to_owned);
    SpecialTokens {
        bos: token("bos_token"),
        eos: token("eos_token"),
        pad: token("pad_token"),
        unk: token("unk_token"),
        others: Vec::new(),
    }
}

fn render(template: &Template, case: &Value, world: &Value) -> Result<String, TemplateError> {
    let no_tools = Value::Array(Vec::new());
    let tools = match case["tools"].as_bool() {
        Some(true) => Some(&world["tools"]),
        Some(false) => Some(&no_tools),
        None => None,
    };
    template.render(RenderInput {
        messages: &case["messages"],
        tools,
        add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap_or(true),
        continue_final_message: case["continue_final_message"].as_bool().unwrap_or(false),
        kwargs: case["kwargs"].as_object(),
        now: Some(UNIX_EPOCH + Duration::from_secs(world["now"].as_u64().unwrap())),
    })
}

/// What came of a rendering, in the words of the goldens.
fn outcome(template: &Template, case: &Value, world: &Value) -> (&'static str, String) {
    match render(template, case, world) {
        Ok(text) => ("rendered", text),
        Err(TemplateError::Refused(message)) => ("refused", message),
        Err(error) => ("failed", error.to_string()),
    }
}

/// A template of the shared material: a file, or a field of a tokenizer's configuration.
fn source(folder: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    if !name.starts_with("tokenizers/") {
        return text;
    }
    let config: Value = serde_json::from_str(&text).unwrap();
    config["chat_template"].as_str().unwrap().to_owned()
}

/// It adds plain text to text marked safe, which in Python escapes the plain text for HTML: the
/// model would be shown `&#34;` for every quote in a tool.
const ESCAPES_TOOLS: &str = "chat-templates/meetkai-functionary-medium-v3.1.jinja";

#[test]
fn given_templates_render_as_the_reference_does() {
    let Some(folder) = shared::material("data") else {
        return;
    };
    let (world, golden) = (
        shared::golden("conversations.json"),
        shared::golden("chat_templates.json"),
    );
    let special = special(&world);
    let mut differences = Vec::new();
    let mut equal = 0;
    for (name, expected) in golden["templates"].as_object().unwrap() {
        let source = source(&folder, name);
        assert_eq!(
            hash(&source),
            expected["source"].as_str().unwrap(),
            "{name} has changed"
        );
        let template = Template::compile(&source, &special).unwrap();
        for case in world["cases"].as_array().unwrap() {
            let case_name = case["name"].as_str().unwrap();
            let (kind, text) = outcome(&template, case, &world);
            let got = format!("{kind} {}", hash(&text));
            let wanted = expected["rendered"][case_name].as_str().unwrap();
            let known = name == ESCAPES_TOOLS && case["tools"] == true;
            if got == wanted {
                equal += 1;
            } else if wanted != "failed" && !known {
                differences.push(format!("{name}, {case_name}: {got}, wanted {wanted}"));
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{equal} equal, but:\n{}",
        differences.join("\n")
    );
    assert!(equal > 1600, "only {equal} renderings were compared");
}

#[test]
fn our_small_templates_render_as_the_reference_does() {
    let (world, small) = (
        shared::golden("conversations.json"),
        shared::golden("small_templates.json"),
    );
    let expected = shared::golden("small_templates_rendered.json");
    let mut differences = Vec::new();
    for entry in small["templates"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let template =
            Template::compile(entry["source"].as_str().unwrap(), &special(&world)).unwrap();
        for case in world["cases"].as_array().unwrap() {
            let case_name = case["name"].as_str().unwrap();
            let wanted = &expected["rendered"][name][case_name];
            if wanted.is_null() || wanted[0] == "failed" {
                continue;
            }
            let (kind, text) = outcome(&template, case, &world);
            if wanted[0] != kind || wanted[1] != text {
                differences.push(format!(
                    "{name}, {case_name}: {kind}\n{text}\nwanted\n{wanted}"
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn a_template_shows_which_form_of_content_it_renders() {
    let table = [
        (
            "{% for m in messages %}{{ m.content }}{% endfor %}",
            ContentFormat::Text,
        ),
        (
            "{% for m in messages %}{{ m.content | trim }}{% endfor %}",
            ContentFormat::Text,
        ),
        (
            "{% for m in messages %}{{ m.content + '.' }}{% endfor %}",
            ContentFormat::Text,
        ),
        (
            "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}\
             {% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}",
            ContentFormat::TextOrParts,
        ),
        (
            "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}",
            ContentFormat::Parts,
        ),
        ("{{ raise_exception('never') }}", ContentFormat::Text),
    ];
    for (source, expected) in table {
        let template = Template::compile(source, &SpecialTokens::default()).unwrap();
        assert_eq!(template.content_format(), expected, "{source}");
    }
}

#[test]
fn a_final_message_that_cannot_be_continued_is_refused() {
    let plain = "{% for m in messages %}[{{ m.content }}]{% endfor %}";
    let table = [
        (
            plain,
            json!([{"role": "assistant"}]),
            "the final message has no text to continue",
        ),
        (
            plain,
            json!([]),
            "the final message has no text to continue",
        ),
        (plain, json!(["x"]), "message 0 is not an object"),
        (
            "nothing of it",
            json!([{"role": "assistant", "content": "One"}]),
            "the final message does not appear in the rendered conversation",
        ),
    ];
    for (source, messages, expected) in table {
        let template = Template::compile(source, &SpecialTokens::default()).unwrap();
        let input = RenderInput {
            continue_final_message: true,
            ..RenderInput::new(&messages)
        };
        assert_eq!(template.render(input).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_malformed_template_says_what_is_wrong_and_where() {
    let error = Template::compile("one\n{% if %}", &SpecialTokens::default()).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("the chat template is malformed: syntax error"),
        "{error}"
    );
    assert!(error.ends_with("(line 2)"), "{error}");
}
