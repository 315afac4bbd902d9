//! Lines of a matrix runner's log, in Chinese and in English.

/// What a line of such a log says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// A new pair of server and client.
    Cell { server: &'a str, client: &'a str },
    /// The command that starts the server.
    Start { command: &'a str },
    /// The command that runs the client.
    Load { command: &'a str },
    /// The client has ended with this code.
    Ended { code: i32 },
    /// All pairs are done.
    Done,
}

const CELL: &[&str] = &["[组合] ", "[CELL] "];
const START: &[&str] = &["[SERVER] 启动 ", "[SERVER] starting "];
const LOAD: &[&str] = &["[CLIENT] 运行 ", "[CLIENT] running "];
const ENDED: &[&str] = &[" 完成，退出码 ", " finished with exit code "];
const DONE: &[&str] = &["所有组合测试完成！", "All cells are done."];

/// What a line says, if it is one of such a log.
pub(super) fn said(line: &str) -> Option<Said<'_>> {
    let after = |marks: &[&str]| marks.iter().find_map(|mark| line.strip_prefix(mark));
    if let Some(rest) = after(CELL) {
        let (server, client) = rest.strip_prefix("SERVER=")?.split_once("CLIENT=")?;
        return Some(Said::Cell {
            server: server.trim(),
            client: client.trim(),
        });
    }
    if let Some(rest) = after(START) {
        return rest
            .split_once(": ")
            .map(|(_, command)| Said::Start { command });
    }
    if let Some(rest) = after(LOAD) {
        return rest
            .split_once(": ")
            .map(|(_, command)| Said::Load { command });
    }
    if let Some(rest) = line.strip_prefix("[CLIENT] ") {
        let code = ENDED.iter().find_map(|mark| rest.split_once(mark))?.1;
        return code.trim().parse().ok().map(|code| Said::Ended { code });
    }
    after(DONE).map(|_| Said::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_say_the_same() {
        let cases = [
            (
                "[组合] SERVER=a  CLIENT=b",
                "[CELL] SERVER=a  CLIENT=b",
                Said::Cell {
                    server: "a",
                    client: "b",
                },
            ),
            (
                "[SERVER] 启动 a: X=1 serve",
                "[SERVER] starting a: X=1 serve",
                Said::Start {
                    command: "X=1 serve",
                },
            ),
            (
                "[CLIENT] 运行 b: load",
                "[CLIENT] running b: load",
                Said::Load { command: "load" },
            ),
            (
                "[CLIENT] b 完成，退出码 0",
                "[CLIENT] b finished with exit code 0",
                Said::Ended { code: 0 },
            ),
            (
                "所有组合测试完成！结果保存在：x",
                "All cells are done. Results: x",
                Said::Done,
            ),
        ];
        for (chinese, english, expected) in cases {
            assert_eq!(said(chinese), Some(expected), "{chinese}");
            assert_eq!(said(chinese), said(english), "{english}");
        }
        assert_eq!(said("[SERVER] a 已优雅退出"), None);
        assert_eq!(said("prose"), None);
    }
}
