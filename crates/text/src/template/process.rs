//! The inside of a process that renders templates: no files, no clients, nothing but the socket it was given.

use std::io::{self, BufReader, BufWriter};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::compiled::Compiled;
use super::wire::{Allowance, COMPILE, Conversation, DONE, FAILED, Frame, Order, RENDER, json};
use super::{ContentFormat, TemplateError};
use crate::tokenizer::SpecialTokens;

/// Values nested 90,000 deep are dropped within it; a template may nest them deeper, which ends the process.
const STACK: usize = 64 << 20;

/// Serves the socket that is this process's standard input until the other side is gone.
///
/// A program that makes a [`Sandbox`](super::Sandbox) calls this, and ends, when it is started with the words that the
/// sandbox was given.
pub fn serve() -> io::Result<()> {
    // Panics are answered with their message; whoever started this process reads its standard error only when it died.
    std::panic::set_hook(Box::new(|_| {}));
    set(Resource::Core, Some(0))?;
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let thread = std::thread::Builder::new().stack_size(STACK);
    let thread = thread.spawn(move || answer_all(&socket))?;
    thread.join().unwrap_or(Ok(()))
}

fn answer_all(socket: &UnixStream) -> io::Result<()> {
    let (mut from, mut to) = (BufReader::new(socket), BufWriter::new(socket));
    let base = address_space()?;
    let mut compiled = None;
    while let Some(frame) = Frame::read(&mut from)? {
        let answer = match answer(&frame, base, &mut compiled) {
            Ok(text) => Frame::new(DONE, vec![text]),
            Err(error) => Frame::new(FAILED, vec![json(&error)]),
        };
        lift()?;
        answer.write(&mut to)?;
    }
    Ok(())
}

fn answer(
    frame: &Frame,
    base: u64,
    compiled: &mut Option<Compiled>,
) -> Result<Vec<u8>, TemplateError> {
    let misread = || TemplateError::Failed("the conversation cannot be read".to_owned());
    let (order, rest) = frame.parts.split_first().ok_or_else(misread)?;
    let order: Order = serde_json::from_slice(order).map_err(|_| misread())?;
    match (frame.kind, order, rest) {
        (COMPILE, Order::Compile { allowance, special }, [source]) => {
            limit(base, allowance)?;
            // The old one is dropped first.
            *compiled = None;
            let (made, format) = compile(source, &special)?;
            *compiled = Some(made);
            Ok(json(&format))
        }
        (
            RENDER,
            Order::Render {
                allowance,
                add_generation_prompt,
                continue_final_message,
                now,
            },
            [messages, tools, kwargs],
        ) => {
            limit(base, allowance)?;
            let compiled = compiled.as_ref().ok_or_else(misread)?;
            let parts = [messages, tools, kwargs].map(Vec::as_slice);
            let conversation = Conversation::read(parts)
                .map_err(|error| TemplateError::Failed(error.to_string()))?;
            let input = conversation.input(add_generation_prompt, continue_final_message, now);
            compiled.render(input).map(String::into_bytes)
        }
        _ => Err(misread()),
    }
}

fn compile(
    source: &[u8],
    special: &SpecialTokens,
) -> Result<(Compiled, ContentFormat), TemplateError> {
    let source = std::str::from_utf8(source).map_err(|e| TemplateError::Syntax(e.to_string()))?;
    let mut compiled = Compiled::new(source, special)?;
    let format = compiled.find_format();
    Ok((compiled, format))
}

/// From here on the system ends this process where it takes more.
fn limit(base: u64, allowance: Allowance) -> Result<(), TemplateError> {
    let used = clock_gettime(ClockId::ProcessCPUTime)
        .tv_sec
        .cast_unsigned()
        + 1;
    let memory = base.saturating_add(allowance.memory);
    set(Resource::As, Some(memory))
        .and_then(|()| set(Resource::Cpu, Some(used.saturating_add(allowance.seconds))))
        .map_err(|error| TemplateError::NoProcess(format!("it cannot be limited: {error}")))
}

/// Takes the limits away again, so that the next message can be read.
fn lift() -> io::Result<()> {
    set(Resource::As, None)?;
    set(Resource::Cpu, None)
}

fn set(resource: Resource, limit: Option<u64>) -> io::Result<()> {
    let maximum = getrlimit(resource).maximum;
    let current = match (limit, maximum) {
        (Some(limit), Some(maximum)) => Some(limit.min(maximum)),
        (limit, maximum) => limit.or(maximum),
    };
    Ok(setrlimit(resource, Rlimit { current, maximum })?)
}

/// Bytes of address space that this process has.
fn address_space() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes
        .map(|kilobytes| kilobytes << 10)
        .ok_or_else(|| io::Error::other("/proc/self/status has no VmSize"))
}
