use super::*;

/// Feeds a text in pieces of so many characters; what was thought and what was answered.
fn run(name: &str, prompt: &str, text: &str, step: usize) -> (String, String) {
    let mut parser = ReasoningParser::new(name.parse().unwrap(), prompt);
    let characters: Vec<char> = text.chars().collect();
    let mut events = Vec::new();
    for piece in characters.chunks(step) {
        events.extend(parser.push(&piece.iter().collect::<String>()));
    }
    events.extend(parser.flush());
    let (mut thought, mut answer) = (String::new(), String::new());
    for event in events {
        match event {
            ReasoningEvent::Reasoning(text) => thought.push_str(&text),
            ReasoningEvent::Content(text) => answer.push_str(&text),
        }
    }
    (thought, answer)
}

/// Parser, prompt, what the model said, its reasoning, its answer.
const TRANSCRIPTS: &[(&str, &str, &str, &str, &str)] = &[
    (
        "deepseek-r1",
        "",
        "Let me see.\n</think>\n\nIt is 4.",
        "Let me see.",
        "It is 4.",
    ),
    (
        "deepseek-r1",
        "",
        "<think>\nTwo.\n\nFour.\n</think>\n4 ",
        "Two.\n\nFour.",
        "4 ",
    ),
    ("deepseek-r1", "", "never ends \n", "never ends", ""),
    (
        "deepseek-r1",
        "",
        "a < b </thin k></think>done",
        "a < b </thin k>",
        "done",
    ),
    (
        "deepseek-r1",
        "",
        "x</think>y</think>z<think>w",
        "x",
        "y</think>z<think>w",
    ),
    ("deepseek-r1", "", "", "", ""),
    ("step3", "", "t</think>a", "t", "a"),
    ("qwen3", "", "<think>\nHm.\n</think>\n\nYes.", "Hm.", "Yes."),
    ("qwen3", "", "<think>\n\n</think>\n\nYes.", "", "Yes."),
    (
        "qwen3",
        "",
        "No thoughts, a <thin line.\n",
        "",
        "No thoughts, a <thin line.\n",
    ),
    (
        "qwen3",
        "<|im_start|>assistant\n<think>\n",
        "Hm.</think>Yes.",
        "Hm.",
        "Yes.",
    ),
    (
        "qwen3",
        "assistant\n<think>\n\n</think>\n\n",
        "Yes.",
        "",
        "Yes.",
    ),
    ("qwen3", "", " \n<think>a</think>b", "a", "b"),
    ("qwen3-thinking", "", "Hm.\n</think>\n\nYes.", "Hm.", "Yes."),
    (
        "qwen3-thinking",
        "",
        "<think>Hm.</think>Yes.",
        "Hm.",
        "Yes.",
    ),
    ("minimax", "", "Hm.</think>Yes.", "Hm.", "Yes."),
    (
        "glm45",
        "",
        "\n<think>Wether?</think>\n晴れ 🦅",
        "Wether?",
        "晴れ 🦅",
    ),
    ("kimi_k2", "", "<think>k</think>2", "k", "2"),
    ("deepseek-v3", "", "plain", "", "plain"),
    (
        "kimi",
        "",
        "◁think▷Hm ◁ ▷◁/think▷Yes ◁think▷",
        "Hm ◁ ▷",
        "Yes ◁think▷",
    ),
    ("kimi", "", "Yes ◁thi", "", "Yes ◁thi"),
    (
        "gpt-oss",
        "",
        "<|channel|>analysis<|message|>User asks. <b<|end|><|start|>assistant<|channel|>final<|message|>Paris.<|return|>",
        "User asks. <b",
        "Paris.",
    ),
    (
        "gpt-oss",
        "",
        "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"a\": 1}<|call|>",
        "Need it.",
        "<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"a\": 1}<|call|>",
    ),
    (
        "gpt-oss",
        "",
        "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant<|channel|>analysis<|message|>ok",
        "ok",
        "I will look.",
    ),
    ("gpt-oss", "", "no format at all", "", "no format at all"),
    (
        "gpt-oss",
        "",
        "<|channel|>final<|message|>cut <|en",
        "",
        "cut <|en",
    ),
];

#[test]
fn transcripts_come_apart_the_same_however_they_are_cut() {
    for (name, prompt, text, thought, answer) in TRANSCRIPTS {
        for step in [1, 2, 3, 7, 1000] {
            let got = run(name, prompt, text, step);
            let expected = ((*thought).to_owned(), (*answer).to_owned());
            assert_eq!(got, expected, "{name}: {text:?} by {step}");
        }
    }
}

#[test]
fn reasoning_is_said_while_it_comes() {
    let mut parser = ReasoningParser::new(ReasoningFormat::Qwen3, "");
    assert_eq!(
        parser.push("<think>\nOne"),
        [ReasoningEvent::Reasoning("One".to_owned())]
    );
    assert_eq!(
        parser.push(" two "),
        [ReasoningEvent::Reasoning(" two".to_owned())]
    );
    assert_eq!(parser.push("</thi"), []);
    assert_eq!(
        parser.push("nk>\n\nYes"),
        [ReasoningEvent::Content("Yes".to_owned())]
    );
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let error = "qwen9".parse::<ReasoningFormat>().unwrap_err().to_string();
    assert!(error.starts_with("reasoning parser \"qwen9\" is not known, known are deepseek-r1, "));
}
