//! From the words a person typed to a subcommand, Python spellings included.

use crate::failure::Failure;

/// The commands and what each is for.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("serve", "serve a model over HTTP (also: launch_server)"),
    ("generate", "continue a text once, in the terminal"),
    ("pull", "bring a model into the local store"),
    (
        "inspect",
        "show a model and its memory plan without loading it",
    ),
    ("version", "print the version"),
];

/// Python modules that people paste, and the command each stands for.
const MODULES: &[(&str, &str)] = &[("sglang.launch_server", "serve"), ("sglang.serve", "serve")];

/// Splits off the command's name. `python3 -m sglang.launch_server …`, the same from `-m` on, and
/// `sglang serve …` are understood.
pub(crate) fn split(words: &[String]) -> (Option<String>, Vec<String>) {
    let mut rest = words;
    if let [first, others @ ..] = rest
        && (is_python(first) || first == "sglang")
    {
        rest = others;
    }
    if let [flag, module, others @ ..] = rest
        && flag == "-m"
    {
        let known = MODULES.iter().find(|(name, _)| name == module);
        let command = known.map_or(module.as_str(), |(_, command)| command);
        return (Some(command.to_owned()), others.to_vec());
    }
    match rest {
        [] => (None, Vec::new()),
        [first, others @ ..] => {
            let command = if first == "launch_server" {
                "serve"
            } else {
                first
            };
            (Some(command.to_owned()), others.to_vec())
        }
    }
}

fn is_python(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let rest = name.strip_prefix("python");
    rest.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// What to say about a command that does not exist.
pub(crate) fn unknown(command: &str) -> Failure {
    let nearest = flags::nearest(command, COMMANDS.iter().map(|(name, _)| *name));
    let hint = nearest
        .map(|name| format!("; did you mean {name}?"))
        .unwrap_or_default();
    Failure::Usage {
        usage: "usage: peregrine COMMAND [options]".into(),
        program: "peregrine",
        error: anyhow::anyhow!("unknown command '{command}'{hint} (`peregrine --help` lists them)"),
    }
}

/// The help of the whole program.
pub(crate) fn help() -> String {
    use std::fmt::Write as _;
    let mut text = String::from("usage: peregrine COMMAND [options]\n\ncommands:\n");
    for (name, purpose) in COMMANDS {
        let _ = writeln!(text, "  {name:<10} {purpose}");
    }
    text + "\n`peregrine COMMAND --help` lists the options of a command.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_python_lines_name_our_commands() {
        let cases = [
            ("serve --port 1", Some("serve"), "--port 1"),
            ("launch_server --port 1", Some("serve"), "--port 1"),
            (
                "-m sglang.launch_server --port 1",
                Some("serve"),
                "--port 1",
            ),
            (
                "python3 -m sglang.launch_server --model m",
                Some("serve"),
                "--model m",
            ),
            (
                "/usr/bin/python3.11 -m sglang.launch_server",
                Some("serve"),
                "",
            ),
            ("sglang serve --model m", Some("serve"), "--model m"),
            ("generate python3", Some("generate"), "python3"),
            ("pythonic", Some("pythonic"), ""),
            ("", None, ""),
        ];
        for (line, command, rest) in cases {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let (found, words) = split(&words);
            assert_eq!(
                (found.as_deref(), words.join(" ").as_str()),
                (command, rest),
                "{line}"
            );
        }
    }
}
