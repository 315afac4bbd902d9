//! A server that answers by script and behaves as badly as it is told, for the laboratory's tests.

use std::io::{Write, stdout};
use std::net::SocketAddr;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flags::{FlagSpec, Parsed, Preset};
use lab::statistics::Draw;
use serde_json::json;
use testkit::scripted_server::{Generation, Request, Script, ScriptedServer, Voice, standard};

const FLAGS: &[FlagSpec] = &[
    FlagSpec::integer("port", "Where it listens.").required(),
    FlagSpec::text("model", "What it says it serves.").default(Preset::Text("scripted")),
    FlagSpec::float("first", "Milliseconds to the first token.").default(Preset::Float(4.0)),
    FlagSpec::float("gap", "Milliseconds between tokens.").default(Preset::Float(1.0)),
    FlagSpec::float(
        "noise",
        "By how much a whole run is faster or slower, as a share.",
    )
    .default(Preset::Float(0.0)),
    FlagSpec::integer("seed", "Of the noise.").default(Preset::Integer(0)),
    FlagSpec::switch("deaf", "Never become ready."),
    FlagSpec::integer("crash-after", "End in the middle of so many requests."),
    FlagSpec::switch("leave-child", "Start a process that outlives the server."),
    FlagSpec::switch("flood", "Print without end."),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match flags::parse(FLAGS, &args) {
        Ok(parsed) => serve(&parsed),
        Err(error) => {
            say(&error.to_string());
            ExitCode::from(error.exit_code())
        }
    }
}

fn serve(parsed: &Parsed) -> ExitCode {
    say("starting");
    if parsed.switch("leave-child") {
        let stray = Command::new("setsid")
            .args(["sleep", "600"])
            .stdout(Stdio::null())
            .spawn();
        say(&format!("a child was started: {}", stray.is_ok()));
    }
    if parsed.switch("deaf") {
        loop {
            std::thread::park();
        }
    }
    let port = parsed
        .integer("port")
        .and_then(|port| u16::try_from(port).ok())
        .unwrap_or(0);
    let model = parsed.text("model").unwrap_or_default().to_owned();
    let crash = parsed.integer("crash-after");
    let mut draw = Draw::seeded(parsed.integer("seed").unwrap_or(0).unsigned_abs());
    let speed = (parsed.float("noise").unwrap_or(0.0) * draw.normal()).exp();
    let time = |name: &str| {
        Duration::from_secs_f64(parsed.float(name).unwrap_or(0.0).max(0.0) * speed / 1000.0)
    };
    let (first, gap) = (time("first"), time("gap"));
    let asked = AtomicUsize::new(0);
    let answer = move |request: &Request| {
        if let Some(script) = standard(request, &model) {
            return script;
        }
        let count = asked.fetch_add(1, Ordering::Relaxed) + 1;
        say(&format!("request {count}"));
        if crash == Some(count as i64) {
            say("about to crash");
            std::process::abort();
        }
        generation(request, first, gap)
    };
    let server = ScriptedServer::start_on(SocketAddr::from(([127, 0, 0, 1], port)), answer);
    let Ok(_server) = server else {
        say("no such port");
        return ExitCode::FAILURE;
    };
    say("The server is fired up and ready to roll!");
    let flood = "flood, flood, flood, flood\n".repeat(4000);
    while parsed.switch("flood") {
        say(&flood);
    }
    loop {
        std::thread::park();
    }
}

/// A stream of as many tokens as were asked for.
fn generation(request: &Request, first: Duration, gap: Duration) -> Script {
    let body = request.json();
    let (voice, asked) = match request.path.as_str() {
        "/generate" => (Voice::Native, &body["sampling_params"]["max_new_tokens"]),
        "/v1/completions" => (Voice::Completions, &body["max_tokens"]),
        _ => return Script::json(&json!({ "error": "no such path" })),
    };
    let tokens = asked.as_u64().unwrap_or(1) as usize;
    Generation::steady(voice, tokens, first, gap).script()
}

fn say(line: &str) {
    let mut out = stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}
