//! The text of `--help`, made from the table.

use std::fmt::Write as _;

use crate::spec::{Command, FlagSpec, Kind, Preset, Takes};
use crate::value::Value;

const WIDTH: usize = 96;
const INDENT: usize = 8;

impl Command<'_> {
    /// One line: the program, its words, and that it has options.
    pub fn usage(&self) -> String {
        let mut usage = format!("usage: {}", self.program);
        for positional in self.positionals {
            let _ = match positional.takes {
                Takes::One => write!(usage, " {}", positional.name),
                Takes::Any | Takes::Some => write!(usage, " [{}...]", positional.name),
                _ => write!(usage, " [{}]", positional.name),
            };
        }
        usage + " [options]"
    }

    /// The whole help text: usage, purpose, words, and the flags group by group.
    pub fn help(&self) -> String {
        let mut text = self.usage();
        if !self.about.is_empty() {
            text += "\n\n";
            wrap(&mut text, self.about, 0);
        }
        if !self.positionals.is_empty() {
            text += "\narguments:\n";
        }
        for positional in self.positionals {
            let _ = writeln!(text, "  {}", positional.name);
            wrap(&mut text, positional.help, INDENT);
        }
        for group in self.groups.iter().filter(|group| !group.flags.is_empty()) {
            let _ = write!(text, "\n{}:\n", group.title);
            for flag in group.flags {
                describe(&mut text, flag);
            }
        }
        text
    }
}

fn describe(text: &mut String, flag: &FlagSpec) {
    let names = std::iter::once(&flag.name).chain(flag.aliases);
    let on_off = if flag.takes == Takes::OnOff {
        "[no-]"
    } else {
        ""
    };
    let spelled: Vec<String> = names.map(|name| format!("--{on_off}{name}")).collect();
    let _ = writeln!(text, "  {}{}", spelled.join(", "), placeholder(flag));
    let mut help = flag.help.to_owned();
    if let Kind::Choice(choices) = flag.kind {
        let _ = write!(help, " One of: {}.", choices.join(", "));
    }
    match flag.preset {
        Preset::Unset | Preset::Switch(false) => {}
        Preset::Text(words) => {
            let _ = write!(
                help,
                " Default: {}.",
                if words.is_empty() { "''" } else { words }
            );
        }
        Preset::Words(words) => {
            let _ = write!(help, " Default: {}.", words.join(" "));
        }
        preset => {
            let _ = write!(help, " Default: {}.", Value::from(preset));
        }
    }
    if flag.required {
        help += " Required.";
    }
    wrap(text, help.trim_start(), INDENT);
}

fn placeholder(flag: &FlagSpec) -> String {
    let word = match flag.kind {
        Kind::Text => "TEXT",
        Kind::Integer | Kind::Count => "N",
        Kind::Float => "X",
        Kind::Choice(_) => "CHOICE",
    };
    match flag.takes {
        Takes::Nothing | Takes::OnOff => String::new(),
        Takes::One => format!(" {word}"),
        Takes::Maybe(_) => format!(" [{word}]"),
        Takes::Some => format!(" {word} [{word}...]"),
        Takes::Any => format!(" [{word}...]"),
    }
}

fn wrap(text: &mut String, prose: &str, indent: usize) {
    let mut column = 0;
    for word in prose.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > WIDTH {
            text.push('\n');
            column = 0;
        }
        if column == 0 {
            text.push_str(&" ".repeat(indent));
            column = indent + width;
        } else {
            text.push(' ');
            column += 1 + width;
        }
        text.push_str(word);
    }
    if column > 0 {
        text.push('\n');
    }
}
