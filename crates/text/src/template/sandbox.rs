//! Templates rendered in processes of their own, so that one that crashes, stalls or fills memory costs one request.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::wire::{Allowance, COMPILE, Conversation, DONE, FAILED, Frame, Order, RENDER, json};
use super::{ContentFormat, RenderInput, TemplateError};
use crate::tokenizer::SpecialTokens;

/// After a conversation longer than this the process is ended, so that its memory is given back.
const LARGE: u64 = 4 << 20;

/// How long a process may wait for a processor beyond the time that it may take of one.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a template may take, and how many are rendered at a time.
#[derive(Clone, Copy, Debug)]
pub struct SandboxLimits {
    /// Bytes of memory for a short conversation.
    pub memory: u64,
    /// Bytes of memory more for each byte of the conversation as JSON.
    pub memory_per_byte: u64,
    /// Seconds of a processor for a short conversation; another for each further mebibyte.
    pub seconds: u64,
    /// Processes.
    pub processes: usize,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        let processors = std::thread::available_parallelism();
        Self {
            memory: 256 << 20,
            memory_per_byte: 32,
            seconds: 3,
            processes: processors.map_or(2, |count| count.get().clamp(2, 8)),
        }
    }
}

impl SandboxLimits {
    fn allowance(&self, length: u64) -> Allowance {
        let more = length.saturating_mul(self.memory_per_byte);
        Allowance {
            memory: self.memory.saturating_add(more),
            seconds: self.seconds + (length >> 20),
        }
    }
}

/// Processes that render templates. They are started when they are needed and end with the sandbox.
pub struct Sandbox {
    program: PathBuf,
    words: Vec<OsString>,
    limits: SandboxLimits,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Renderer>,
    /// Idle or rendering.
    alive: usize,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Sandbox");
        shown.field("program", &self.program);
        shown.field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Sandbox {
    /// A sandbox of processes that run this program with these words, upon which it calls
    /// [`serve_sandbox`](super::serve_sandbox). They get no environment and the root as their folder.
    pub fn new(program: &Path, words: &[&str], limits: SandboxLimits) -> Arc<Self> {
        Arc::new(Self {
            program: program.to_owned(),
            words: words.iter().map(Into::into).collect(),
            limits,
            pool: Mutex::default(),
            returned: Condvar::new(),
        })
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process that nobody else uses, best one that has this template already.
    fn borrow(&self, template: u64) -> Result<Borrowed<'_>, TemplateError> {
        let mut pool = self.pool();
        loop {
            let has_it = |renderer: &Renderer| renderer.template == Some(template);
            let found = pool.idle.iter().rposition(has_it);
            let last = pool.idle.len().checked_sub(1);
            if let Some(at) = found.or(last) {
                let mut renderer = pool.idle.swap_remove(at);
                if renderer.is_alive() {
                    return Ok(Borrowed::new(self, Some(renderer)));
                }
                pool.alive -= 1;
            } else if pool.alive < self.limits.processes {
                pool.alive += 1;
                drop(pool);
                let mut borrowed = Borrowed::new(self, None);
                let started = Renderer::start(&self.program, &self.words);
                borrowed.renderer = Some(started.map_err(|error| {
                    TemplateError::NoProcess(format!("{}: {error}", self.program.display()))
                })?);
                return Ok(borrowed);
            } else {
                let waited = self.returned.wait_timeout(pool, 3 * PATIENCE);
                let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                pool = again;
                if timeout.timed_out() {
                    let busy = format!("all {} are busy", self.limits.processes);
                    return Err(TemplateError::NoProcess(busy));
                }
            }
        }
    }
}

/// A process in use; it goes back to the others unless it was lost.
struct Borrowed<'a> {
    sandbox: &'a Sandbox,
    renderer: Option<Renderer>,
}

impl<'a> Borrowed<'a> {
    fn new(sandbox: &'a Sandbox, renderer: Option<Renderer>) -> Self {
        Self { sandbox, renderer }
    }

    /// Sends a message and waits for the answer; a process that does not answer is ended.
    fn ask(&mut self, frame: &Frame, allowance: Allowance) -> Result<Vec<u8>, TemplateError> {
        let renderer = self.renderer.as_mut();
        let renderer = renderer.ok_or_else(|| TemplateError::NoProcess("it is gone".to_owned()))?;
        let answer = renderer.ask(frame, allowance);
        let lost = || TemplateError::ProcessEnded("it gave no answer".to_owned());
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let renderer = self.renderer.take();
                return Err(renderer.map_or_else(lost, |lost| lost.why(&error, allowance)));
            }
        };
        if frame.len() > LARGE {
            self.renderer = None;
        }
        let part = answer.parts.into_iter().next().ok_or_else(lost)?;
        match answer.kind {
            DONE => Ok(part),
            FAILED => Err(serde_json::from_slice(&part).unwrap_or_else(|_| lost())),
            _ => Err(lost()),
        }
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut pool = self.sandbox.pool();
        match self.renderer.take() {
            Some(renderer) => pool.idle.push(renderer),
            None => pool.alive -= 1,
        }
        drop(pool);
        self.sandbox.returned.notify_one();
    }
}

/// One process.
struct Renderer {
    child: Child,
    socket: UnixStream,
    /// The template that it has parsed.
    template: Option<u64>,
}

impl Renderer {
    fn start(program: &Path, words: &[OsString]) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        // In a group of its own, an interrupt from the keyboard does not end it before its requests are drained.
        let child = Command::new(program)
            .args(words)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Self {
            child,
            socket,
            template: None,
        })
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn ask(&mut self, frame: &Frame, allowance: Allowance) -> io::Result<Frame> {
        let patience = Duration::from_secs(allowance.seconds) + PATIENCE;
        self.socket.set_read_timeout(Some(patience))?;
        self.socket.set_write_timeout(Some(patience))?;
        frame.write(io::BufWriter::with_capacity(64 << 10, &self.socket))?;
        let answer = Frame::read(io::BufReader::with_capacity(64 << 10, &self.socket))?;
        answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Ends the process and finds out what went wrong.
    fn why(mut self, error: &io::Error, allowance: Allowance) -> TemplateError {
        let timed_out = matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        );
        // Nothing more is to be had from it, whether or not it ended by itself.
        let _ = self.child.kill();
        let status = self.child.wait();
        let mut said = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(1 << 10).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said);
        let signal = status.as_ref().ok().and_then(ExitStatusExt::signal);
        if timed_out || signal == Some(rustix::process::Signal::XCPU.as_raw()) {
            let seconds = allowance.seconds;
            return TemplateError::OutOfTime { seconds };
        }
        if said.contains("memory allocation of") {
            let limit = allowance.memory;
            return TemplateError::OutOfMemory { limit };
        }
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        TemplateError::ProcessEnded(if said.is_empty() {
            status
        } else {
            format!("{said} ({status})")
        })
    }
}

impl Drop for Renderer {
    fn drop(&mut self) {
        // Without waiting for it, it would stay in the table of processes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A template that is rendered in a sandbox.
#[derive(Debug)]
pub(super) struct Remote {
    sandbox: Arc<Sandbox>,
    number: u64,
    source: String,
    special: SpecialTokens,
}

impl Remote {
    /// Has a process parse it and find out which content it renders.
    pub(super) fn compile(
        sandbox: &Arc<Sandbox>,
        source: &str,
        special: &SpecialTokens,
    ) -> Result<(Self, ContentFormat), TemplateError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let remote = Self {
            sandbox: Arc::clone(sandbox),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            source: source.to_owned(),
            special: special.clone(),
        };
        let format = remote.teach(&mut sandbox.borrow(remote.number)?)?;
        Ok((remote, format))
    }

    pub(super) fn render(&self, input: RenderInput<'_>) -> Result<String, TemplateError> {
        let [messages, tools, kwargs] = Conversation::parts(&input);
        let length = messages.len() + tools.len() + kwargs.len();
        let allowance = self.sandbox.limits.allowance(length as u64);
        let order = json(&Order::Render {
            allowance,
            add_generation_prompt: input.add_generation_prompt,
            continue_final_message: input.continue_final_message,
            now: input.now,
        });
        let frame = Frame::new(RENDER, vec![order, messages, tools, kwargs]);
        let mut borrowed = self.sandbox.borrow(self.number)?;
        let has_it = |renderer: &Renderer| renderer.template == Some(self.number);
        if !borrowed.renderer.as_ref().is_some_and(has_it) {
            self.teach(&mut borrowed)?;
        }
        let text = borrowed.ask(&frame, allowance)?;
        String::from_utf8(text).map_err(|error| TemplateError::EngineBroke(error.to_string()))
    }

    /// Gives a process this template instead of the one it has.
    fn teach(&self, borrowed: &mut Borrowed<'_>) -> Result<ContentFormat, TemplateError> {
        let allowance = self.sandbox.limits.allowance(self.source.len() as u64);
        let order = json(&Order::Compile {
            allowance,
            special: self.special.clone(),
        });
        let frame = Frame::new(COMPILE, vec![order, self.source.clone().into_bytes()]);
        if let Some(renderer) = &mut borrowed.renderer {
            renderer.template = None;
        }
        let format = borrowed.ask(&frame, allowance)?;
        if let Some(renderer) = &mut borrowed.renderer {
            renderer.template = Some(self.number);
        }
        serde_json::from_slice(&format)
            .map_err(|error| TemplateError::EngineBroke(error.to_string()))
    }
}
