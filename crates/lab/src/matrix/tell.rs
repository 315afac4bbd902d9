//! What a matrix says while it runs, line by line as the runners people know do it.

use std::fs::File;
use std::io::Write;
use std::str::FromStr;

/// The language of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Language {
    /// English.
    #[default]
    English,
    /// Chinese.
    Chinese,
}

impl FromStr for Language {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "en" => Ok(Self::English),
            "zh" => Ok(Self::Chinese),
            _ => Err(()),
        }
    }
}

/// Lines that are repeated when a cell fails; all of them are in the store.
const LAST_LINES: usize = 4;

/// Something that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A cell begins.
    Cell { server: &'a str, client: &'a str },
    /// A server is started.
    Start { server: &'a str, command: &'a str },
    /// It can be used; by which sign.
    Ready { server: &'a str, sign: &'a str },
    /// It runs already.
    Kept { server: &'a str },
    /// A client is started.
    Load {
        server: &'a str,
        client: &'a str,
        command: &'a str,
    },
    /// What it printed.
    Output { out: &'a str, err: &'a str },
    /// It ended.
    Ended { client: &'a str, code: i32 },
    /// The cell came to nothing; the last lines of whoever failed.
    Failed {
        reason: &'a str,
        last_lines: &'a [String],
    },
    /// Something that a reader of its figures must know.
    Noticed { finding: &'a str },
    /// A server is stopped.
    Stop { server: &'a str },
    /// It has stopped, by itself or not.
    Stopped { server: &'a str, gracefully: bool },
    /// Everything is done.
    Done { file: &'a str },
}

/// The text of an event, with its line end; empty when the language has no words for it.
pub(crate) fn text(event: Event<'_>, language: Language) -> String {
    let chinese = language == Language::Chinese;
    let pick = |english: String, in_chinese: String| if chinese { in_chinese } else { english };
    let body = match event {
        Event::Cell { server, client } => {
            let frame = "=".repeat(100);
            let word = if chinese { "组合" } else { "CELL" };
            format!("{frame}\n[{word}] SERVER={server}  CLIENT={client}\n{frame}")
        }
        Event::Start { server, command } => pick(
            format!("[SERVER] starting {server}: {command}"),
            format!("[SERVER] 启动 {server}: {command}"),
        ),
        Event::Ready { server, sign } => pick(
            format!("[SERVER] {server} is ready: {sign}"),
            format!("[SERVER] {server} 就绪检测到：{sign}"),
        ),
        Event::Kept { server } => pick(
            format!("[SERVER] {server} is kept"),
            format!("[SERVER] 保留 {server}"),
        ),
        Event::Load {
            server,
            client,
            command,
        } => {
            let first = pick(
                format!("[CLIENT] running {client}: {command}"),
                format!("[CLIENT] 运行 {client}: {command}"),
            );
            let frame = "#".repeat(80);
            format!(
                "{first}\n\n\n{frame}\nSERVER: {server}\nCLIENT: {client}\nCOMMAND: {command}\n{frame}"
            )
        }
        Event::Output { out, err } => {
            format!(
                "{}\n\n[STDERR]\n\n{}",
                stripped(out),
                stripped(err).trim_end()
            )
        }
        Event::Ended { client, code } => pick(
            format!("[CLIENT] {client} finished with exit code {code}"),
            format!("[CLIENT] {client} 完成，退出码 {code}"),
        ),
        Event::Failed { reason, last_lines } => {
            let first = pick(
                format!("[CELL] failed: {reason}"),
                format!("[组合] 失败：{reason}"),
            );
            let skipped = last_lines.len().saturating_sub(LAST_LINES);
            let lines = last_lines[skipped..].iter();
            lines.fold(first, |told, line| format!("{told}\n    | {line}"))
        }
        Event::Noticed { finding } => {
            pick(format!("[NOTE] {finding}"), format!("[注意] {finding}"))
        }
        Event::Stop { server } => pick(
            format!("[SERVER] stopping {server}"),
            format!("[SERVER] 关闭 {server}"),
        ),
        Event::Stopped { server, gracefully } => match (gracefully, chinese) {
            (true, true) => format!("[SERVER] {server} 已优雅退出"),
            (true, false) => format!("[SERVER] {server} ended by itself"),
            (false, true) => format!("[SERVER] {server} 已被强制终止"),
            (false, false) => format!("[SERVER] {server} had to be killed"),
        },
        Event::Done { file } => pick(
            format!("\nAll cells are done. Results: {file}"),
            format!("\n所有组合测试完成！结果保存在：{file}"),
        ),
    };
    body + "\n"
}

/// Lines without the blanks at their ends; bars that redraw themselves have a line per state.
fn stripped(text: &str) -> String {
    let states = text.split(['\n', '\r']).map(str::trim_end);
    let lines: Vec<&str> = states.collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// Tells events to a person, briefly, and to a file, in full.
pub(crate) struct Teller<'a> {
    /// The language of both.
    pub(crate) language: Language,
    /// The person.
    pub(crate) person: &'a mut dyn Write,
    /// The file.
    pub(crate) file: Option<File>,
}

impl Teller<'_> {
    /// Tells an event. What cannot be written is not worth stopping for.
    pub(crate) fn tell(&mut self, event: Event<'_>) {
        let whole = text(event, self.language);
        if let Some(file) = &mut self.file {
            file.write_all(whole.as_bytes()).ok();
        }
        let brief = match event {
            Event::Output { .. } => "",
            Event::Load { .. } => whole.split_inclusive('\n').next().unwrap_or_default(),
            _ => &whole,
        };
        self.person.write_all(brief.as_bytes()).ok();
        self.person.flush().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::runs;

    const TABLE: &str = "#Input tokens: 1\n\n============ Serving Benchmark Result ============\n\
        Request throughput (req/s):              2.50      \n\
        ==================================================\n";

    fn log(language: Language) -> String {
        let command = "python3 -m sglang.bench_serving --num-prompts 8";
        let events = [
            Event::Cell {
                server: "a",
                client: "b",
            },
            Event::Start {
                server: "a",
                command: "X=1 python3 -m sglang.launch_server --model-path m/tiny",
            },
            Event::Ready {
                server: "a",
                sign: "up",
            },
            Event::Load {
                server: "a",
                client: "b",
                command,
            },
            Event::Output {
                out: TABLE,
                err: "  0%|\r100%|  \n",
            },
            Event::Ended {
                client: "b",
                code: 0,
            },
            Event::Stop { server: "a" },
            Event::Stopped {
                server: "a",
                gracefully: true,
            },
            Event::Done { file: "r.txt" },
        ];
        events.map(|event| text(event, language)).concat()
    }

    #[test]
    fn the_log_is_that_of_the_runner_people_know() {
        let chinese = log(Language::Chinese);
        let frame = "=".repeat(100);
        assert!(chinese.starts_with(&format!(
            "{frame}\n[组合] SERVER=a  CLIENT=b\n{frame}\n[SERVER] 启动 a: X=1"
        )));
        assert!(chinese.contains("[SERVER] a 就绪检测到：up\n[CLIENT] 运行 b: python3"));
        assert!(chinese.contains("8\n\n\n####"));
        assert!(chinese.contains("==\n\n[STDERR]\n\n  0%|\n100%|\n[CLIENT] b 完成，退出码 0\n"));
        assert!(
            chinese.ends_with("[SERVER] a 已优雅退出\n\n所有组合测试完成！结果保存在：r.txt\n")
        );
    }

    #[test]
    fn a_failure_comes_with_the_last_lines() {
        let lines: Vec<String> = (0..9).map(|line| format!("line {line}")).collect();
        let event = Event::Failed {
            reason: "it ended",
            last_lines: &lines,
        };
        assert_eq!(
            text(event, Language::English),
            "[CELL] failed: it ended\n    | line 5\n    | line 6\n    | line 7\n    | line 8\n"
        );
    }

    #[test]
    fn what_we_write_we_can_read_in_both_languages() {
        for language in [Language::English, Language::Chinese] {
            let found = runs("log", &log(language));
            assert_eq!(found.len(), 1);
            let run = &found[0].run;
            assert_eq!(
                (run.subject.name.as_str(), run.load.name.as_str()),
                ("a", "b")
            );
            assert_eq!(run.figures.get("request_throughput"), Some(2.5));
            assert_eq!(run.subject.environment["X"], "1");
        }
    }
}
