//! From the words a person typed to a subcommand, Python spellings included.

use std::ffi::OsString;

use crate::failure::Failure;

/// The commands and what each is for.
pub(crate) const COMMANDS: &[(&str, &str)] = &[
    ("serve", "serve a model over HTTP (also: launch_server)"),
    (
        "generate",
        "answer one message, or continue a text, in the terminal",
    ),
    ("bench", "put a load on a server and measure it"),
    ("lab", "compare servers over many runs, with verdicts"),
    ("pull", "bring a model into the local store"),
    ("list", "list the models of the local store"),
    (
        "inspect",
        "show a model and its memory plan without loading it",
    ),
    ("version", "print the version"),
];

/// Variables of the environment that somebody may want to set.
const VARIABLES: &[(&str, &str)] = &[
    (
        "PEREGRINE_MODELS",
        "folder of pulled models; XDG_CACHE_HOME's or ~/.cache's peregrine/models otherwise",
    ),
    (
        "PEREGRINE_LOG",
        "what is logged, such as server=debug,info; wins over --log-level",
    ),
    ("HF_ENDPOINT", "a mirror of the model hub"),
    ("HF_TOKEN", "the key to models that are not public"),
    (
        "HF_HUB_OFFLINE",
        "1 takes hub models from the cache alone (HF_HUB_CACHE, HF_HOME)",
    ),
    (
        "OPENAI_API_KEY",
        "the key that benchmarks send; API_KEY when it is not set",
    ),
    (
        "CUDA_HOME",
        "a CUDA toolkit, where its libraries are not found by themselves",
    ),
];

/// Python modules that people paste, and the command each stands for.
const MODULES: &[(&str, &[&str])] = &[
    ("sglang.launch_server", &["serve"]),
    ("sglang.serve", &["serve"]),
    ("sglang.bench_serving", &["bench", "serving"]),
    ("sglang.benchmark.serving", &["bench", "serving"]),
];

/// The words as text, which everything that we take is.
pub(crate) fn words(given: impl Iterator<Item = OsString>) -> Result<Vec<String>, Failure> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| Failure::Usage {
            usage: "usage: peregrine COMMAND [options]".to_owned(),
            program: "peregrine",
            error: anyhow::anyhow!("the argument '{}' is not UTF-8", word.display()),
        })
    };
    given.map(text).collect()
}

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
        let named = [module.as_str()];
        let spelled = known
            .map_or(&named[..], |(_, words)| words)
            .iter()
            .map(|word| (*word).to_owned());
        let mut words: Vec<String> = spelled.chain(others.iter().cloned()).collect();
        let command = words.remove(0);
        return (Some(command), words);
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

/// `help serve` is `serve --help`, and `help bench serving` is `bench serving --help`.
pub(crate) fn asked_help(words: &[String]) -> Option<(String, Vec<String>)> {
    let (command, mut words) = split(words);
    words.push("--help".to_owned());
    Some((command?, words))
}

/// What to say about a command that does not exist.
pub(crate) fn unknown(command: &str) -> Failure {
    let names: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
    unknown_of("peregrine", command, &names)
}

/// The same for the commands of a command.
pub(crate) fn unknown_of(program: &'static str, command: &str, names: &[&str]) -> Failure {
    let nearest = flags::nearest(command, names.iter().copied());
    let hint = nearest
        .map(|name| format!("; did you mean {name}?"))
        .unwrap_or_default();
    Failure::Usage {
        usage: format!("usage: {program} COMMAND [options]"),
        program,
        error: anyhow::anyhow!("unknown command '{command}'{hint} (`{program} --help` lists them)"),
    }
}

/// The help of the whole program.
pub(crate) fn help() -> String {
    use std::fmt::Write as _;
    let mut text = String::from("usage: peregrine COMMAND [options]\n\ncommands:\n");
    for (name, purpose) in COMMANDS {
        let _ = writeln!(text, "  {name:<10} {purpose}");
    }
    text += "\nenvironment:\n";
    for (name, meaning) in VARIABLES {
        let _ = writeln!(text, "  {name:<17} {meaning}");
    }
    text + "\n`peregrine COMMAND --help` lists the options of a command.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_of_a_command_is_the_command_with_help() {
        for (line, expected) in [
            ("", None),
            ("serve", Some("serve --help")),
            ("bench serving", Some("bench serving --help")),
            ("launch_server", Some("serve --help")),
            ("servv", Some("servv --help")),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let found = asked_help(&words);
            let found = found.map(|(command, words)| format!("{command} {}", words.join(" ")));
            assert_eq!(found.as_deref(), expected, "{line}");
        }
    }

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
            (
                "python -m sglang.bench_serving --seed 1",
                Some("bench"),
                "serving --seed 1",
            ),
            ("-m sglang.benchmark.serving", Some("bench"), "serving"),
            ("-m other.module x", Some("other.module"), "x"),
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
