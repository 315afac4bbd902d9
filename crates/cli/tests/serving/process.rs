//! A server process and plain HTTP to it.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Dimensions of a model small enough for any test, with room for an answer that takes a while.
const DIMENSIONS: &str = r#"{
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256,
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "head_dim": 16,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2
}"#;

const PROGRAM: &str = env!("CARGO_BIN_EXE_peregrine");

/// The program in a home of its own, with a variable that PyTorch would read.
pub(crate) fn command(home: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .env_clear()
        .env("HOME", home)
        .env("PYTORCH_ALLOC_CONF", "x");
    command
}

/// A signal by the name that `kill` knows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    Terminate,
    Interrupt,
    HangUp,
}

/// A server on a free port; ended when dropped.
pub(crate) struct Server {
    child: Child,
    /// Its log, read as it comes: a full pipe would stop the server.
    log: Receiver<String>,
    lines: Vec<String>,
    pub(crate) address: String,
    _home: TempDir,
}

impl Server {
    /// Random weights, token ids in and out.
    pub(crate) fn tiny(args: &[&str]) -> Self {
        Self::invented(&[&["--skip-tokenizer-init"], args].concat())
    }

    /// Random weights and this tokenizer.
    pub(crate) fn with_tokenizer(path: &str, args: &[&str]) -> Self {
        Self::invented(&[&["--tokenizer-path", path], args].concat())
    }

    fn invented(args: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let model = Self::description(home.path());
        let dummy = ["--load-format", "dummy"];
        let program = command(home.path());
        Self::launch(program, home, &["serve", &model], &[&dummy, args].concat())
    }

    /// A folder with the description of a tiny model, without weights.
    pub(crate) fn description(home: &Path) -> String {
        std::fs::write(home.join("config.json"), DIMENSIONS).unwrap();
        home.to_str().unwrap().to_owned()
    }

    /// A real model.
    pub(crate) fn of(model: &Path, args: &[&str]) -> Self {
        Self::start(&["serve", model.to_str().unwrap()], args)
    }

    /// By these words of a command line.
    pub(crate) fn start(words: &[&str], args: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let program = command(home.path());
        Self::launch(program, home, words, args)
    }

    /// A real model, with the shell's `ulimit` so from the beginning.
    pub(crate) fn limited(limit: &str, model: &Path, args: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut shell = Command::new("/bin/sh");
        shell
            .env_clear()
            .env("HOME", home.path())
            .arg("-c")
            .arg(format!("ulimit {limit} && exec \"$0\" \"$@\""))
            .arg(PROGRAM);
        Self::launch(shell, home, &["serve", model.to_str().unwrap()], args)
    }

    fn launch(mut program: Command, home: TempDir, words: &[&str], args: &[&str]) -> Self {
        let mut child = program
            .args(words)
            .args(["--port", "0", "--threads", "1"])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, log) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut server = Self {
            child,
            log,
            lines: Vec::new(),
            address: String::new(),
            _home: home,
        };
        let running = server.wait_for("Uvicorn running on http");
        let rest = running.split("://").nth(1).unwrap();
        let address = rest.split(' ').next().unwrap();
        address.clone_into(&mut server.address);
        server.wait_for("The server is fired up and ready to roll!");
        server
    }

    /// From its next line on nobody reads its log.
    pub(crate) fn ignore_log(&mut self) {
        self.log = channel().1;
    }

    /// The next line of the log with these words.
    pub(crate) fn wait_for(&mut self, words: &str) -> String {
        while let Ok(line) = self.log.recv() {
            self.lines.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
        panic!("the log ended before {words:?}:\n{}", self.lines.join("\n"));
    }

    /// An answer's status and body.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        Asked(self.send(method, path, &body)).answer()
    }

    /// Asks and reads nothing yet.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Asked {
        Asked(self.send("POST", path, &body.to_string()))
    }

    /// Asks for a stream of so many tokens and reads nothing yet.
    pub(crate) fn begin(&self, tokens: u32) -> BufReader<TcpStream> {
        let sampling = json!({"temperature": 0, "max_new_tokens": tokens, "ignore_eos": true});
        let body = json!({"input_ids": [1, 2, 3], "stream": true, "sampling_params": sampling});
        self.send("POST", "/generate", &body.to_string())
    }

    /// A stream that was granted.
    pub(crate) fn stream(&self, tokens: u32) -> Stream {
        Asked(self.begin(tokens)).stream()
    }

    /// HTTP/1.0, so that the body is what comes until the connection closes.
    fn send(&self, method: &str, path: &str, body: &str) -> BufReader<TcpStream> {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            connection,
            "{method} {path} HTTP/1.0\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        BufReader::new(connection)
    }

    /// Asks until the server's load is so.
    pub(crate) fn wait_for_load(&self, requests: u64, waiting: u64) {
        loop {
            let (_, load) = self.ask("GET", "/get_load", &Value::Null);
            if load[0]["num_reqs"] == requests && load[0]["num_waiting_reqs"] == waiting {
                return;
            }
        }
    }

    /// A number that the kernel tells of the process.
    pub(crate) fn told(&self, file: &str, key: &str) -> u64 {
        self.words(file, key)[0].parse().unwrap()
    }

    /// Its threads by name, and how nice each is.
    pub(crate) fn threads(&self) -> Vec<(String, i32)> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        // One that has ended meanwhile has no file.
        let stats = tasks
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
        let parse = |stat: String| {
            let (start, rest) = stat.rsplit_once(") ").unwrap();
            let name = start.split_once('(').unwrap().1.to_owned();
            (name, rest.split(' ').nth(16).unwrap().parse().unwrap())
        };
        stats.map(parse).collect()
    }

    /// How much of something it may have, and how much it could allow itself.
    pub(crate) fn limits(&self, key: &str) -> [u64; 2] {
        let words = self.words("limits", key);
        // There may be no limit to that.
        let hard = words[1].parse().unwrap_or(u64::MAX);
        [words[0].parse().unwrap(), hard]
    }

    /// What the kernel tells of the process behind a key.
    fn words(&self, file: &str, key: &str) -> Vec<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap();
        let rest = text.lines().find_map(|line| line.strip_prefix(key));
        let words = rest.unwrap().split_whitespace();
        words.map(str::to_owned).collect()
    }

    /// The statuses of requests with this body, all sent before an answer is read.
    pub(crate) fn ask_at_once(&self, times: usize, path: &str, body: &Value) -> Vec<u16> {
        let body = body.to_string();
        let answers: Vec<_> = (0..times).map(|_| self.send("POST", path, &body)).collect();
        answers
            .into_iter()
            .map(|mut answer| status(&mut answer))
            .collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let name = match signal {
            Signal::Terminate => "-TERM",
            Signal::Interrupt => "-INT",
            Signal::HangUp => "-HUP",
        };
        let process = self.child.id().to_string();
        let told = Command::new("kill").args([name, &process]).status();
        assert!(told.unwrap().success());
    }

    /// Ends it by a signal; its exit code and its whole log.
    pub(crate) fn stop(self) -> (Option<i32>, String) {
        self.signal(Signal::Terminate);
        let (status, log) = self.end();
        (status.code(), log.join("\n"))
    }

    /// Waits for the process to end by itself; its status and its whole log.
    pub(crate) fn end(mut self) -> (ExitStatus, Vec<String>) {
        let status = self.child.wait().unwrap();
        self.lines.extend(self.log.iter());
        (status, std::mem::take(&mut self.lines))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the head of an answer.
fn status(answer: &mut BufReader<TcpStream>) -> u16 {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = answer.read_line(&mut head).unwrap();
        assert!(read > 0, "no answer: {head}");
    }
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

/// A request whose answer has not been read.
pub(crate) struct Asked(BufReader<TcpStream>);

impl Asked {
    /// A stream that was granted.
    pub(crate) fn stream(mut self) -> Stream {
        assert_eq!(status(&mut self.0), 200);
        Stream(self.0.lines())
    }

    /// Its status and body.
    pub(crate) fn answer(mut self) -> (u16, Value) {
        let status = status(&mut self.0);
        let mut text = String::new();
        self.0.read_to_string(&mut text).unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }
}

/// Events as they come.
pub(crate) struct Stream(Lines<BufReader<TcpStream>>);

impl Stream {
    /// The next event; none at the end, however it came.
    pub(crate) fn event(&mut self) -> Option<String> {
        self.0
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.strip_prefix("data: ")?.to_owned()))
    }

    /// The last two events.
    pub(crate) fn read_to_end(&mut self) -> [String; 2] {
        let mut last = [String::new(), String::new()];
        while let Some(event) = self.event() {
            last.rotate_left(1);
            last[1] = event;
        }
        last
    }
}

/// The root of the repository.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of it, where somebody has made it.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
pub(crate) fn existing(path: &str) -> Option<PathBuf> {
    let path = workspace().join(path);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: there is no {}", path.display());
    None
}
