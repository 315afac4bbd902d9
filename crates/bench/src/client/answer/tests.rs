use super::*;

/// Feeds a body cut at the given places, one millisecond apart, and tells what became of it.
fn read(dialect: Dialect, body: &str, cuts: &[usize]) -> (Answer, Option<Failure>) {
    let mut reader = AnswerReader::new(dialect);
    let mut from = 0;
    let mut moment = 0;
    for cut in cuts.iter().copied().chain([body.len()]) {
        moment += 1_000_000;
        if let Err(failure) =
            reader.push([Ok(&body.as_bytes()[from..cut])].into_iter(), Nanos(moment))
        {
            return (reader.abandon(), Some(failure));
        }
        from = cut;
    }
    reader.finish(Nanos(moment))
}

fn chunks(answer: &Answer) -> Vec<(u64, u32, u32)> {
    answer
        .chunks
        .iter()
        .map(|chunk| (chunk.at.0 / 1_000_000, chunk.tokens, chunk.text_end))
        .collect()
}

const NATIVE: &str = concat!(
    "data: {\"text\":\"a\",\"meta_info\":{\"completion_tokens\":1,\"finish_reason\":null}}\n\n",
    "data: {\"text\":\"aé😀\",\"meta_info\":{\"completion_tokens\":3,\"prompt_tokens\":9,",
    "\"cached_tokens\":4,\"finish_reason\":{\"type\":\"length\"}}}\n\n",
    "data: [DONE]\n\n",
);

#[test]
fn a_native_stream_is_the_same_wherever_it_was_cut() {
    for cut in 0..=NATIVE.len() {
        if !NATIVE.is_char_boundary(cut) {
            continue;
        }
        let (answer, failure) = read(Dialect::Native, NATIVE, &[cut]);
        assert_eq!(failure, None, "cut at {cut}");
        assert_eq!(answer.text, "aé😀");
        assert_eq!(
            answer
                .chunks
                .iter()
                .map(|chunk| chunk.tokens)
                .collect::<Vec<_>>(),
            [1, 3]
        );
        assert_eq!(answer.usage.prompt_tokens, Some(9));
        assert_eq!(answer.usage.cached_tokens, Some(4));
        assert_eq!(answer.usage.output_tokens, Some(3));
    }
}

/// A stream of events that differ in little, and how often they have text.
fn alike(dialect: Dialect) -> (String, usize) {
    let texts = [
        "a",
        "ab",
        "ab \\\"c\\\"",
        "ab \\\"c\\\" d\\\\",
        "ab \\\"c\\\" d\\\\é",
    ];
    let mut body = String::new();
    for (place, text) in texts.iter().enumerate() {
        let event = match dialect {
            Dialect::Native => format!(
                "{{\"text\":\"{text}\",\"output_ids\":[{place},7],\"meta_info\":{{\"completion_tokens\":{}}}}}",
                place * 5
            ),
            _ => format!("{{\"choices\":[{{\"text\":\"{text}\",\"finish_reason\":null}}]}}"),
        };
        let end = ["\n\n", "\n", "\r\n\r\n", " \n\n", "\n\n"][place];
        body.extend(["data: ", &event, end]);
    }
    (body + "data: [DONE]\n\n", texts.len())
}

#[test]
fn events_of_one_shape_are_the_same_wherever_they_were_cut() {
    for dialect in [Dialect::Native, Dialect::Completions] {
        let (body, count) = alike(dialect);
        let (whole, failure) = read(dialect, &body, &[]);
        assert_eq!((failure, whole.chunks.len()), (None, count));
        let last = "ab \"c\" d\\é";
        assert!(whole.text.ends_with(last), "{}", whole.text);
        let of = |answer: &Answer| -> Vec<(u32, u32)> {
            let chunks = answer.chunks.iter();
            chunks.map(|chunk| (chunk.tokens, chunk.text_end)).collect()
        };
        for first in 0..body.len() {
            for second in [first, first + 1, first + 40, body.len()] {
                let cuts = [first, second.min(body.len())];
                let (answer, failure) = read(dialect, &body, &cuts);
                assert_eq!(failure, None, "cut at {cuts:?}");
                assert_eq!(of(&answer), of(&whole), "cut at {cuts:?}");
                assert_eq!(answer.text, whole.text, "cut at {cuts:?}");
            }
        }
    }
}

#[test]
fn a_line_is_dated_by_the_arrival_of_its_end() {
    let first_line_end = NATIVE.find('\n').unwrap();
    let (answer, _) = read(
        Dialect::Native,
        NATIVE,
        &[10, first_line_end, first_line_end + 1],
    );
    assert_eq!(chunks(&answer), [(3, 1, 0), (4, 3, 0)]);
    assert_eq!(answer.last_line, Some(Nanos(4_000_000)));
}

#[test]
fn a_native_answer_in_one_piece_is_one_chunk() {
    let body =
        r#"{"text":"abc","meta_info":{"completion_tokens":3,"finish_reason":{"type":"stop"}}}"#;
    let (answer, failure) = read(Dialect::Native, body, &[5]);
    assert_eq!((failure, chunks(&answer)), (None, vec![(2, 3, 0)]));
}

#[test]
fn completions_collect_text_and_the_usage_at_the_end() {
    let body = concat!(
        "data: {\"choices\":[{\"text\":\"one\"}]}\r\n\r\n",
        ": keep-alive\n",
        "data: {\"choices\":[{\"text\":\"\"}]}\n\n",
        "data: {\"choices\":[{\"text\":\" two\",\"finish_reason\":\"length\"}],\"usage\":null}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7,",
        "\"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\n",
        "data: [DONE]\n\n",
    );
    let (answer, failure) = read(Dialect::Completions, body, &[]);
    assert_eq!(failure, None);
    assert_eq!(answer.text, "one two");
    assert_eq!(chunks(&answer), [(1, 0, 3), (1, 0, 7)]);
    assert_eq!(answer.usage.output_tokens, Some(7));
    assert_eq!(answer.usage.cached_tokens, Some(2));
}

#[test]
fn chat_counts_thoughts_like_words_but_only_once() {
    let body = concat!(
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\",\"reasoning\":\"hm\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning\":\"so\"}}],\"usage\":{\"completion_tokens\":2}}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\n",
    );
    let (answer, failure) = read(Dialect::Chat, body, &[]);
    assert_eq!(failure, None);
    assert_eq!(answer.text, "hmsoyes");
    assert_eq!(chunks(&answer), [(1, 0, 2), (1, 2, 4), (1, 0, 7)]);
}

#[test]
fn tool_calls_are_dated_by_their_first_name_and_arguments() {
    let body = concat!(
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":null}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"c\",",
        "\"function\":{\"name\":\"find\",\"arguments\":\"\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":",
        "\"{\\\"q\\\":\"}}]}}],\"usage\":{\"completion_tokens\":3}}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":null,\"arguments\":",
        "\"1}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
    );
    let ends: Vec<usize> = body.match_indices("\n\n").map(|(at, _)| at + 2).collect();
    let (answer, failure) = read(Dialect::Chat, body, &ends[..3]);
    assert_eq!(failure, None);
    assert_eq!((answer.text.as_str(), answer.chunks.len()), ("", 0));
    assert_eq!(answer.tool_calls.text, "find{\"q\":1}");
    let calls = answer.tool_calls.chunks.iter();
    let calls: Vec<(u64, u32, u32)> = calls
        .map(|chunk| (chunk.at.0 / 1_000_000, chunk.tokens, chunk.text_end))
        .collect();
    assert_eq!(calls, [(2, 0, 4), (3, 3, 9), (4, 0, 11)]);
}

#[test]
fn whole_answers_are_read_at_their_end() {
    let body = r#"{"choices":[{"message":{"content":"hello"}}],
        "usage":{"completion_tokens":4,"prompt_tokens":3}}"#;
    let (answer, failure) = read(Dialect::ChatWhole, body, &[7]);
    assert_eq!((failure, answer.text.as_str()), (None, "hello"));
    assert_eq!(chunks(&answer), [(2, 4, 5)]);
    let (answer, failure) = read(
        Dialect::Embeddings,
        r#"{"data":[],"usage":{"prompt_tokens":3}}"#,
        &[],
    );
    assert_eq!((failure, answer.usage.prompt_tokens), (None, Some(3)));
}

#[test]
fn triton_events_are_appended() {
    let body = "data:{\"text_output\":\"a\"}\n\ndata: {\"text_output\":\"b\"}\n\n";
    let (answer, failure) = read(Dialect::Triton, body, &[]);
    assert_eq!((failure, answer.text.as_str()), (None, "ab"));
}

#[test]
fn each_way_to_go_wrong_has_its_name() {
    let native = |body: &str| read(Dialect::Native, body, &[]).1.unwrap().name();
    let event = "data: {\"text\":\"a\",\"meta_info\":{\"completion_tokens\":1}}\n\n";
    assert_eq!(native(""), "empty answer");
    assert_eq!(native("\n\n"), "empty answer");
    assert_eq!(native("<html>"), "malformed answer");
    assert_eq!(native(event), "stream without an end");
    assert_eq!(native("data: {\"text\":\"a\"}\n\n"), "malformed answer");
    let failing =
        format!("{event}data: {{\"error\":{{\"message\":\"no memory\"}}}}\n\ndata: [DONE]\n\n");
    let (answer, failure) = read(Dialect::Native, &failing, &[]);
    assert_eq!(answer.chunks.len(), 1);
    assert_eq!(
        failure,
        Some(Failure::InStream {
            message: "no memory".to_owned()
        })
    );
    let chat = |body: &str| read(Dialect::Chat, body, &[]).1.unwrap().name();
    assert_eq!(
        chat("data: {\"error\":{\"message\":\"x\"}}\n\n"),
        "error in the stream"
    );
    assert_eq!(chat("data: {}\n\n"), "malformed answer");
    assert_eq!(
        chat("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"),
        "stream without an end"
    );
}
