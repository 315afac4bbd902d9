use serde_json::json;

use crate::process::{Server, command, workspace};

/// A tokenizer without a template of its own.
fn tokenizer() -> String {
    let path = workspace().join("fuzz/corpus/tokenizer/byte-level.json");
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_template_that_fills_memory_costs_one_chat() {
    let template = "{% if messages[0].content == 'now' %}{% set ns = namespace(x='aaaaaaaa') %}\
        {% for a in range(31) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{% endif %}ab";
    let server = Server::with_tokenizer(&tokenizer(), &["--chat-template", template]);
    let chat = |content: &str| {
        let body = json!({ "messages": [{ "role": "user", "content": content }], "max_tokens": 1 });
        server.ask("POST", "/v1/chat/completions", &body)
    };
    assert_eq!(chat("before").0, 200);
    let (status, body) = chat("now");
    let message = "the chat template needs more than 256 MiB of memory";
    assert_eq!(
        (status, body["message"].as_str()),
        (400, Some(message)),
        "{body}"
    );
    assert_eq!(chat("after").0, 200);
}

#[test]
fn a_template_that_cannot_be_parsed_keeps_the_server_from_starting() {
    let home = tempfile::tempdir().unwrap();
    let template = format!("{{{{ {}1 }}}}", "not ".repeat(20_000));
    let ended = command(home.path())
        .args([
            "serve",
            "--load-format",
            "dummy",
            "--chat-template",
            &template,
        ])
        .args([
            "--tokenizer-path",
            &tokenizer(),
            &Server::description(home.path()),
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    let reason = "the chat template has more than 2000 tokens in one tag (line 1)";
    assert!(said.contains(reason), "{said}");
}
