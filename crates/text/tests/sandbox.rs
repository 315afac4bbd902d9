//! A chat template that crashes, stalls or fills memory costs its own request, and the next one is answered.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use text::{RenderInput, Sandbox, SandboxLimits, SpecialTokens, Template, TemplateError};

/// What the sandboxes of these tests run; by itself it is no test.
#[test]
#[ignore = "the process that the other tests start"]
fn the_process_that_renders() {
    text::serve_sandbox().unwrap();
}

fn sandbox() -> Arc<Sandbox> {
    let words = ["--ignored", "--exact", "the_process_that_renders"];
    // No second means the rest of the one that began.
    let limits = SandboxLimits {
        memory: 64 << 20,
        seconds: 0,
        processes: 1,
        ..SandboxLimits::default()
    };
    Sandbox::new(&std::env::current_exe().unwrap(), &words, limits)
}

fn compile(source: &str) -> Result<Template, TemplateError> {
    Template::compile_in(&sandbox(), source, &SpecialTokens::default())
}

fn chat(content: &str) -> Value {
    json!([{"role": "user", "content": content}])
}

/// A template that renders the conversation, and does something else when it is asked for it.
fn trap(what: &str) -> String {
    format!(
        "{{% if messages[0].content == 'now' %}}{what}{{% endif %}}{{{{ messages[0].content }}}}"
    )
}

/// What the trap ends in; afterwards the same sandbox renders as if nothing had been.
fn sprung(what: &str) -> TemplateError {
    let template = compile(&trap(what)).unwrap();
    let began = Instant::now();
    let error = template.render(RenderInput::new(&chat("now")));
    let error = error.expect_err(what);
    assert!(began.elapsed() < Duration::from_secs(10), "{what}");
    let messages = chat("later");
    let next = template.render(RenderInput::new(&messages));
    assert_eq!(next.unwrap(), "later", "{what}");
    error
}

#[test]
fn a_sandbox_renders_what_this_process_renders() {
    let source = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ m.n }}{% endfor %}\
        {{ tools | tojson }}{{ extra }}{{ strftime_now('%Y') }}{{ add_generation_prompt }}";
    let special = SpecialTokens {
        bos: Some("<s>".to_owned()),
        ..SpecialTokens::default()
    };
    let messages = json!([{"role": "user", "content": "é🦅\u{0}", "n": 1.5e300}, {"role": "assistant", "content": "so"}]);
    let tools = json!([{"z": 1, "a": [null, {"b": 2}]}]);
    let kwargs = json!({"extra": [true, "x"]});
    let input = RenderInput {
        tools: Some(&tools),
        kwargs: kwargs.as_object(),
        now: Some(std::time::UNIX_EPOCH),
        continue_final_message: true,
        add_generation_prompt: false,
        ..RenderInput::new(&messages)
    };
    let here = Template::compile(source, &special).unwrap();
    let there = Template::compile_in(&sandbox(), source, &special).unwrap();
    assert_eq!(here.content_format(), there.content_format());
    for continues in [false, true] {
        let input = RenderInput {
            continue_final_message: continues,
            ..input
        };
        assert_eq!(here.render(input).unwrap(), there.render(input).unwrap());
    }
    let refused = "{{ raise_exception('not ' ~ messages[0].role) }}";
    let there = Template::compile_in(&sandbox(), refused, &special).unwrap();
    let error = there.render(RenderInput::new(&messages)).unwrap_err();
    assert!(matches!(error, TemplateError::Refused(why) if why == "not user"));
}

#[test]
fn templates_that_would_exhaust_the_stack_are_refused_with_the_reason() {
    for (source, what) in [
        (
            format!("{{{{ {}1 }}}}", "not ".repeat(200_000)),
            "2000 tokens in one tag",
        ),
        (
            format!("{{{{ 1{} }}}}", "|string".repeat(100_000)),
            "2000 tokens in one tag",
        ),
        (
            format!("{{{{ a{} }}}}", ".b".repeat(100_000)),
            "2000 tokens in one tag",
        ),
        (
            format!("{{{{ 1{} }}}}", "+1".repeat(100_000)),
            "2000 tokens in one tag",
        ),
        (
            format!("{{{{ 1{} }}}}", "~1".repeat(100_000)),
            "2000 tokens in one tag",
        ),
        (
            format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(80_000)),
            "1000 cases of conditions",
        ),
    ] {
        let error = compile(&source).unwrap_err().to_string();
        let expected = format!("the chat template has more than {what} (line 1)");
        assert_eq!(error, expected);
    }
}

#[test]
fn values_that_hold_themselves_are_refused_where_they_are_written() {
    for what in [
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns | string }}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns | tojson }}",
    ] {
        let error = sprung(what).to_string();
        assert!(
            error.contains("more than 160 deep cannot be written"),
            "{error}"
        );
    }
    // What the engine itself writes or compares ends the process.
    for what in [
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns ~ '' }}",
        "{% set a = namespace() %}{% set b = namespace() %}{% set a.x = b %}{% set b.x = a %}{{ a == b }}",
    ] {
        let error = sprung(what);
        assert!(
            matches!(
                error,
                TemplateError::ProcessEnded(_) | TemplateError::OutOfMemory { .. }
            ),
            "{error}"
        );
    }
}

#[test]
fn values_nested_as_deep_as_steps_allow_are_dropped() {
    let nest = |count: usize| {
        format!(
            "{{% set ns = namespace(x=0) %}}{{% for a in range({count}) %}}{{% set ns.x = [ns.x] %}}{{% endfor %}}"
        )
    };
    let template = compile(&trap(&nest(90_000))).unwrap();
    let messages = chat("now");
    let rendered = template.render(RenderInput::new(&messages));
    assert_eq!(rendered.unwrap(), "now");
}

#[test]
fn templates_that_fill_memory_cost_their_request() {
    for what in [
        "{% set ns = namespace(x='aaaaaaaa') %}{% for a in range(31) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set a = ('a' * 100000) | replace('a', 'a' * 100000) %}",
        "{% set a = range(90000) | join('a' * 100000) %}",
        "{% set a = ('a\n' * 100000) | indent(100000) %}",
        "{% set a = '%1000000000000d' | format(1) %}",
        "{% set a = [1] | batch(10 ** 10, 'x') | list %}",
        "{% set a = [1] | slice(10 ** 10, 'x') | list %}",
    ] {
        let error = sprung(what);
        let expected = "the chat template needs more than 64 MiB of memory";
        let contained = matches!(
            error,
            TemplateError::Failed(_)
                | TemplateError::ProcessEnded(_)
                | TemplateError::EngineBroke(_)
        );
        assert!(
            contained || error.to_string() == expected,
            "{what}: {error}"
        );
    }
}

#[test]
fn templates_that_run_without_end_cost_their_request() {
    let doubling = "{% set ns = namespace(x=[1]) %}{% for a in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | length }}";
    let appending = "{% set ns = namespace(x=[]) %}{% for a in range(90000) %}{% set ns.x = ns.x + [a] %}{% endfor %}{{ ns.x | length }}";
    for what in [
        doubling,
        appending,
        "{{ ([[0] * 1000] * 100000) | sum(start=[]) | length }}",
    ] {
        let error = sprung(what);
        assert!(
            matches!(
                error,
                TemplateError::OutOfTime { seconds: 0 }
                    | TemplateError::OutOfMemory { .. }
                    | TemplateError::TooLong { .. }
            ),
            "{what}: {error}"
        );
    }
}

#[test]
fn conversations_that_wait_for_a_process_are_rendered_once_it_is_free() {
    let template = compile("{{ messages[0].content }}").unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let template = &template;
            scope.spawn(move || {
                for turn in 0..20 {
                    let content = format!("{number} {turn}");
                    let messages = chat(&content);
                    let rendered = template.render(RenderInput::new(&messages)).unwrap();
                    assert_eq!(rendered, content);
                }
            });
        }
    });
}

#[test]
fn two_templates_take_turns_in_one_process() {
    let sandbox = sandbox();
    let compile = |source| Template::compile_in(&sandbox, source, &SpecialTokens::default());
    let (a, b) = (compile("a").unwrap(), compile("b").unwrap());
    let messages = chat("");
    for _ in 0..3 {
        assert_eq!(a.render(RenderInput::new(&messages)).unwrap(), "a");
        assert_eq!(b.render(RenderInput::new(&messages)).unwrap(), "b");
    }
}

#[test]
fn a_long_conversation_is_rendered_within_its_larger_allowance() {
    let content = "long ".repeat(1 << 20);
    let template = compile("{% for m in messages %}<{{ m.content | trim }}>{% endfor %}").unwrap();
    let messages = chat(&content);
    for _ in 0..2 {
        let rendered = template.render(RenderInput::new(&messages)).unwrap();
        assert_eq!(rendered.len(), content.len() + 1);
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let sandbox = Sandbox::new("/no/such/program".as_ref(), &[], SandboxLimits::default());
    let error = Template::compile_in(&sandbox, "a", &SpecialTokens::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no process can render the chat template: /no/such/program: No such file or directory (os error 2)"
    );
}

#[test]
#[ignore = "measures time"]
fn what_a_process_of_its_own_costs() {
    let source =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
    let (here, there) = (
        Template::compile(source, &SpecialTokens::default()).unwrap(),
        compile(source).unwrap(),
    );
    for length in [100, 10_000, 1_000_000] {
        let messages = chat(&"word ".repeat(length / 5));
        for (name, template) in [("here", &here), ("sandbox", &there)] {
            let mut times: Vec<Duration> = (0..200)
                .map(|_| {
                    let began = Instant::now();
                    drop(template.render(RenderInput::new(&messages)).unwrap());
                    began.elapsed()
                })
                .collect();
            times.sort_unstable();
            println!("{length} {name}: {:?}", times[100]);
        }
    }
}
