//! What people read at the start: one block about what runs, one line about what has no effect.

use std::fmt::Write as _;

use crate::args::Notice;
use crate::progress::{count, size};
use crate::start::Started;

/// Says in one line which settings change nothing; why is for those who ask.
pub(crate) fn tell<'a>(notices: impl Iterator<Item = &'a Notice>) {
    let mut names = Vec::new();
    for notice in notices {
        tracing::debug!("{notice}");
        names.push(notice.flag.as_str());
    }
    if let Some(line) = without_effect(&names) {
        tracing::warn!("{line}");
    }
}

fn without_effect(names: &[&str]) -> Option<String> {
    let settings = match names.len() {
        0 => return None,
        1 => "1 setting has".to_owned(),
        many => format!("{many} settings have"),
    };
    let names = names.join(", ");
    Some(format!(
        "{settings} no effect here: {names} (why: --log-level debug, or accepted_without_effect in /server_info)"
    ))
}

/// Where a server can be reached.
pub(crate) struct Reach<'a> {
    /// `--host`.
    pub(crate) host: &'a str,
    /// `--port`; 0 for any.
    pub(crate) port: u16,
    /// Whether clients need a key.
    pub(crate) key: bool,
    /// Whether connections are encrypted.
    pub(crate) tls: bool,
}

/// What runs, on what, with how much memory, and where it is reached.
pub(crate) fn screen(name: &str, started: &Started, reach: &Reach<'_>) -> Vec<String> {
    let spec = &started.spec;
    let device = &started.device;
    let executor = &started.launch.executor;
    let mut memory = format!("weights {}", size(started.memory.weights as u64));
    if started.memory.folded > 0 {
        let _ = write!(memory, " + {}", size(started.memory.folded as u64));
    }
    let _ = write!(
        memory,
        ", KV cache {} for {} tokens, {} in all of {}",
        size(started.memory.kv as u64),
        executor.pages * executor.page_size,
        size((started.memory.total() + started.graphs) as u64),
        size(device.memory_total as u64)
    );
    vec![
        format!("peregrine {} serves {name}", env!("CARGO_PKG_VERSION")),
        format!(
            "  model    {}, {} parameters, {} tokens of context",
            spec.architecture,
            count(spec.parameters()),
            started.launch.engine.context_length
        ),
        format!(
            "  device   {} ({}), {}: {}",
            device.name,
            device.kind,
            if device.kind == "cpu" {
                "threads"
            } else {
                "multiprocessors"
            },
            device.units
        ),
        format!("  memory   {memory}"),
        format!("  address  {}", reach.line()),
    ]
}

impl Reach<'_> {
    fn line(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.to_owned()
        };
        let key = if self.key {
            "an API key is needed"
        } else {
            "no API key"
        };
        let scheme = if self.tls { "https" } else { "http" };
        match self.port {
            0 => format!("{scheme}://{host}, a free port, {key}"),
            port => {
                let address = format!("{scheme}://{host}:{port}");
                format!("{address} (OpenAI: {address}/v1), {key}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_effect_is_one_line_whatever_there_is() {
        assert_eq!(without_effect(&[]), None);
        let one = without_effect(&["--a"]).unwrap();
        assert!(
            one.starts_with("1 setting has no effect here: --a (why: "),
            "{one}"
        );
        let two = without_effect(&["--a", "B"]).unwrap();
        assert!(
            two.starts_with("2 settings have no effect here: --a, B (why: "),
            "{two}"
        );
    }

    #[test]
    fn an_address_can_be_copied() {
        let line = |host, port, key| {
            let tls = key;
            Reach {
                host,
                port,
                key,
                tls,
            }
            .line()
        };
        assert_eq!(
            line("127.0.0.1", 30000, false),
            "http://127.0.0.1:30000 (OpenAI: http://127.0.0.1:30000/v1), no API key"
        );
        assert_eq!(
            line("::1", 8000, true),
            "https://[::1]:8000 (OpenAI: https://[::1]:8000/v1), an API key is needed"
        );
        assert_eq!(line("::", 0, false), "http://[::], a free port, no API key");
    }
}
