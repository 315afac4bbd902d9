//! Command lines as people write them: words, environment, flags.

use serde::{Deserialize, Serialize};

/// Programs that start a server, by the end of a word.
const SERVERS: &[&str] = &[
    "sglang.launch_server",
    "launch_server_from_source.sh",
    "launch_server",
    "llama-server",
    "vllm.entrypoints.openai.api_server",
];
/// Servers that are a program and a subcommand.
const SERVING: &[&str] = &["vllm", "peregrine", "sglang", "trtllm-serve"];
/// Programs that put a load on a server.
const CLIENTS: &[&str] = &[
    "sglang.bench_serving",
    "sglang.benchmark.serving",
    "profile_restful_api.py",
    "benchmark_serving.py",
];

/// A command line taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// As it was written, on one line.
    pub text: String,
    /// Assignments before the program, and those a container is given.
    pub environment: Vec<(String, String)>,
    /// The image it runs in.
    pub image: Option<String>,
    /// The words up to the first flag.
    pub program: Vec<String>,
    /// Flags and their words, in order. A flag without a word is a switch.
    pub flags: Vec<(String, Vec<String>)>,
}

impl CommandLine {
    /// Takes a line apart, if it starts a server.
    pub fn server(text: &str) -> Option<Self> {
        let words = words(text);
        let at = words.iter().position(|word| is_one_of(word, SERVERS));
        let at = at.or_else(|| {
            words.windows(2).position(|pair| {
                is_one_of(&pair[0], SERVING) && (pair[1] == "serve" || pair[1] == "launch_server")
            })
        })?;
        Some(Self::around(&words, at))
    }

    /// Takes a line apart, if it puts a load on a server.
    pub fn client(text: &str) -> Option<Self> {
        let words = words(text);
        let at = words.iter().position(|word| is_one_of(word, CLIENTS));
        let at = at.or_else(|| {
            let bench = |pair: &[String]| pair[0] == "bench" && pair[1].starts_with("serv");
            words.windows(2).position(bench)
        })?;
        Some(Self::around(&words, at))
    }

    /// Takes flags apart that stand alone.
    pub fn flags_only(text: &str) -> Self {
        let words = words(text);
        let (program, flags) = flags_of(&words);
        Self {
            text: text.trim().to_owned(),
            program,
            flags,
            ..Self::default()
        }
    }

    /// The line made of words of a program with its flags after word `at`.
    fn around(words: &[String], at: usize) -> Self {
        let (before, rest) = words.split_at(at + 1);
        let (mut program, flags) = flags_of(rest);
        let start = before.iter().take_while(|word| assignment(word).is_some());
        let assigned = start.count();
        let mut environment: Vec<_> = before.iter().filter_map(|word| assignment(word)).collect();
        let wrapper = &before[assigned..];
        environment.dedup();
        let image = wrapper.iter().find(|word| is_image(word)).cloned();
        let from = image
            .as_ref()
            .and_then(|image| wrapper.iter().position(|word| word == image))
            .map_or(0, |place| place + 1);
        program.splice(0..0, wrapper[from..].iter().cloned());
        Self {
            text: words.join(" "),
            environment,
            image,
            program,
            flags,
        }
    }

    /// The words of a flag, by its exact name with dashes.
    pub fn flag(&self, name: &str) -> Option<&[String]> {
        let found = self.flags.iter().rev().find(|(flag, _)| flag == name);
        found.map(|(_, words)| words.as_slice())
    }

    /// The single word of a flag or of one of its abbreviations down to `shortest`.
    pub fn value(&self, name: &str, shortest: &str) -> Option<&str> {
        let means = |flag: &str| flag.starts_with(shortest) && name.starts_with(flag);
        let found = self.flags.iter().rev().find(|(flag, _)| means(flag));
        found
            .and_then(|(_, words)| words.first())
            .map(String::as_str)
    }

    /// The model it names, without the folders around it.
    pub fn model(&self) -> Option<&str> {
        let named = self
            .value("--model-path", "--model")
            .or_else(|| self.value("-m", "-m"))?;
        named.trim_end_matches('/').rsplit('/').next()
    }
}

fn is_one_of(word: &str, programs: &[&str]) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    programs.contains(&name)
}

fn is_image(word: &str) -> bool {
    let Some((name, tag)) = word.rsplit_once(':') else {
        return false;
    };
    let named = name.contains('/') && !name.contains("://") && !name.starts_with(['/', '-', '$']);
    named && !tag.is_empty() && !tag.contains('/')
}

/// `NAME=value`.
pub(crate) fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let mut letters = name.chars();
    let first = letters.next()?;
    let valid = (first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    valid.then(|| (name.to_owned(), value.to_owned()))
}

fn is_flag(word: &str) -> bool {
    let Some(rest) = word.strip_prefix('-') else {
        return false;
    };
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    rest.starts_with(|letter: char| letter.is_ascii_alphabetic())
}

type Flags = Vec<(String, Vec<String>)>;

fn flags_of(words: &[String]) -> (Vec<String>, Flags) {
    let first = words.iter().position(|word| is_flag(word));
    let (program, rest) = words.split_at(first.unwrap_or(words.len()));
    let mut flags: Flags = Vec::new();
    for word in rest {
        if is_flag(word) {
            flags.push(match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), vec![value.to_owned()]),
                None => (word.clone(), Vec::new()),
            });
        } else if let Some((_, values)) = flags.last_mut() {
            values.push(word.clone());
        }
    }
    (program.to_vec(), flags)
}

/// Splits a line as a shell would: quotes hold words together, a backslash takes the next letter
/// as it is and joins lines. What is never closed runs to the end.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                quoted(letter, &mut letters, word);
            }
            '\\' => match letters.next() {
                Some('\n') | None => {}
                Some(next) => word.get_or_insert_default().push(next),
            },
            space if space.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

fn quoted(quote: char, letters: &mut std::str::Chars<'_>, word: &mut String) {
    while let Some(letter) = letters.next() {
        match letter {
            end if end == quote => return,
            '\\' if quote == '"' => match letters.next() {
                Some(escaped @ ('"' | '\\' | '$' | '`')) => word.push(escaped),
                Some('\n') | None => {}
                Some(other) => word.extend(['\\', other]),
            },
            other => word.push(other),
        }
    }
}

/// A word as a shell would need it written.
pub fn quote(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+{}[]".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        let cases: &[(&str, &[&str])] = &[
            ("a  b\tc", &["a", "b", "c"]),
            (r#"a 'b c' "d \"e\"" f\ g"#, &["a", "b c", "d \"e\"", "f g"]),
            ("one \\\n  two", &["one", "two"]),
            ("''", &[""]),
            ("'never closed", &["never closed"]),
            ("", &[]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line), *expected, "{line}");
        }
    }

    #[test]
    fn quoting_is_undone_by_splitting() {
        for word in ["plain", "two words", "it's", "", "--a=b", "{port}"] {
            assert_eq!(words(&quote(word)), [word]);
        }
    }

    #[test]
    fn a_server_in_a_container_is_taken_apart() {
        let line = "docker run --gpus all --env \"HF_HOME=/cache\" -p 1:1 maker/server:v0.5.1-cu126 \
            python3 -m sglang.launch_server --model-path maker/Model-8B/ --tp 1 --disable-radix";
        let command = CommandLine::server(line).unwrap();
        assert_eq!(command.image.as_deref(), Some("maker/server:v0.5.1-cu126"));
        assert_eq!(command.environment, [("HF_HOME".into(), "/cache".into())]);
        assert_eq!(command.program, ["python3", "-m", "sglang.launch_server"]);
        assert_eq!(command.model(), Some("Model-8B"));
        assert_eq!(command.flag("--disable-radix"), Some(&[][..]));
        assert_eq!(command.flag("--tp"), Some(&["1".to_owned()][..]));
    }

    #[test]
    fn assignments_before_a_program_are_its_environment() {
        let line = "X=1 python -m sglang.bench_serving --num-prompt 256 --seed=3";
        let command = CommandLine::client(line).unwrap();
        assert_eq!(command.environment, [("X".into(), "1".into())]);
        assert_eq!(command.value("--num-prompts", "--num"), Some("256"));
        assert_eq!(command.value("--seed", "--seed"), Some("3"));
    }

    #[test]
    fn other_lines_start_nothing() {
        assert_eq!(CommandLine::server("rm -rf cache"), None);
        assert_eq!(CommandLine::client("python -m sglang.launch_server"), None);
        assert!(CommandLine::server("vllm serve some/model --port 1").is_some());
    }
}
