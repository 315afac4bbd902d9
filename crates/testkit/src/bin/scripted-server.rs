//! A scripted server as a program: streams of tokens at a steady pace, for load generators to measure.
//!
//! `scripted-server PORT MODEL FIRST_MS GAP_MS TOKENS_PER_EVENT EVENTS_PER_WRITE`

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;
use testkit::scripted_server::{
    Generation, Rendered, Request, Script, ScriptedServer, Voice, standard,
};

struct Manner {
    model: String,
    first: Duration,
    gap: Duration,
    tokens_per_event: usize,
    events_per_write: usize,
}

type Answers = BTreeMap<(u8, usize), Rendered>;

impl Manner {
    fn answer(&self, request: &Request, known: &Mutex<Answers>) -> Script {
        if let Some(script) = standard(request, &self.model) {
            return script;
        }
        let body = request.json();
        let (voice, asked) = match request.path.as_str() {
            "/generate" => (Voice::Native, &body["sampling_params"]["max_new_tokens"]),
            "/v1/completions" => (Voice::Completions, &body["max_tokens"]),
            "/v1/chat/completions" => (Voice::Chat, &body["max_completion_tokens"]),
            _ => return Script::whole("404 Not Found", "text/plain", "no such path"),
        };
        let tokens = asked.as_u64().unwrap_or(16) as usize;
        let generation = Generation {
            voice,
            tokens,
            first: self.first,
            gap: self.gap,
            tokens_per_event: self.tokens_per_event,
            events_per_write: self.events_per_write,
            prompt_tokens: 1,
        };
        let mut known = known.lock().expect("no answer panics");
        let answer = known.entry((voice as u8, tokens)).or_insert_with(|| {
            Rendered::new(&generation.writes()).expect("there is memory for an answer")
        });
        generation.script_of(answer.acts())
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| words.get(place).and_then(|word| word.parse::<f64>().ok());
    let milliseconds = |place| Duration::from_secs_f64(number(place).unwrap_or(0.0) / 1000.0);
    let manner = Manner {
        model: words
            .get(1)
            .cloned()
            .unwrap_or_else(|| "scripted".to_owned()),
        first: milliseconds(2),
        gap: milliseconds(3),
        tokens_per_event: number(4).unwrap_or(1.0) as usize,
        events_per_write: number(5).unwrap_or(1.0) as usize,
    };
    let address = SocketAddr::from(([127, 0, 0, 1], number(0).unwrap_or(30000.0) as u16));
    let known = Mutex::new(Answers::new());
    let server = ScriptedServer::start_on(address, move |request| manner.answer(request, &known));
    let _server = server.expect("the port is free");
    loop {
        std::thread::park();
    }
}
