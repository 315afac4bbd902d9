//! Log lines in SGLang's shape: `[YYYY-MM-DD HH:MM:SS] message`, in local time, on standard error.

use std::fmt::{self, Write as _};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// What to log: SGLang's level names, or a filter that overrides them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Levels<'a> {
    /// `--log-level`.
    pub(crate) all: &'a str,
    /// `--log-level-http`, for the access log.
    pub(crate) access: Option<&'a str>,
    /// `PEREGRINE_LOG`.
    pub(crate) filter: Option<&'a str>,
}

/// Starts logging; a filter that cannot be read is an error.
pub(crate) fn start(levels: Levels<'_>) -> anyhow::Result<()> {
    let filter = directives(levels)?;
    let filter: EnvFilter = filter.parse()?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // Told on standard error, which panics when that is what failed: a full disk, a reader that is gone.
        .log_internal_errors(false)
        .event_format(Line)
        .finish();
    // A second start in one process keeps the first: tests run several commands.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(())
}

fn directives(levels: Levels<'_>) -> anyhow::Result<String> {
    if let Some(filter) = levels.filter {
        return Ok(filter.to_owned());
    }
    let mut directives = level(levels.all)?.to_owned();
    if let Some(access) = levels.access {
        write!(directives, ",server::access_log={}", level(access)?)?;
    }
    Ok(directives)
}

fn level(name: &str) -> anyhow::Result<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "debug" => Ok("debug"),
        "info" => Ok("info"),
        "warning" | "warn" => Ok("warn"),
        "error" | "critical" | "fatal" => Ok("error"),
        "trace" => Ok("trace"),
        _ => anyhow::bail!("log level '{name}' is none of debug, info, warning, error, critical"),
    }
}

struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut words = Words::default();
        event.record(&mut words);
        writeln!(
            out,
            "[{}] {}{}{}",
            local_time(SystemTime::now()),
            mark(*event.metadata().level()),
            words.message,
            words.fields
        )
    }
}

/// What a line begins with that a person should not miss.
fn mark(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR: ",
        Level::WARN => "WARNING: ",
        _ => "",
    }
}

/// The message, and other fields as ` name=value` after it.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// `YYYY-MM-DD HH:MM:SS` where this machine is.
pub(crate) fn local_time(now: SystemTime) -> String {
    let seconds = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let parts = broken_down(seconds as libc::time_t);
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}

#[expect(unsafe_code, reason = "the C library alone knows the local time zone")]
fn broken_down(seconds: libc::time_t) -> libc::tm {
    // SAFETY: all-zero bytes are a valid `tm`: integers and a null pointer.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right types; localtime_r keeps neither.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
    parts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_have_the_shape_that_log_parsers_expect() {
        let text = local_time(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let shape: String = text
            .chars()
            .map(|c| if c.is_ascii_digit() { '9' } else { c })
            .collect();
        assert_eq!(shape, "9999-99-99 99:99:99");
        assert!(text.starts_with("2023-11-1"), "{text}");
    }

    #[test]
    fn only_what_should_not_be_missed_is_marked() {
        let marks = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG].map(mark);
        assert_eq!(marks, ["ERROR: ", "WARNING: ", "", ""]);
    }

    #[test]
    fn levels_have_pythons_names() {
        let levels = |all, access, filter| {
            directives(Levels {
                all,
                access,
                filter,
            })
        };
        assert_eq!(levels("WARNING", None, None).unwrap(), "warn");
        assert_eq!(
            levels("info", Some("error"), None).unwrap(),
            "info,server::access_log=error"
        );
        assert_eq!(levels("info", None, Some("kv=trace")).unwrap(), "kv=trace");
        assert!(levels("loud", None, None).is_err());
    }
}
