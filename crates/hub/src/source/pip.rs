//! `python3 -m pip download`, watched while it works.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::error::HubError;
use crate::progress::Progress;

const REDRAW: Duration = Duration::from_millis(100);

/// What to download, where to, and what to say when it cannot be.
pub(crate) struct Request<'a> {
    pub requirement: &'a str,
    pub folder: &'a Path,
    pub advice: &'a str,
}

/// Runs pip with the first interpreter there is; returns the package file.
pub(crate) fn download(
    pythons: &[String],
    request: &Request<'_>,
    progress: &mut dyn Progress,
) -> Result<PathBuf, HubError> {
    let (python, mut child) = start(pythons, request)?;
    let said = listen(&mut child);
    let transcript = loop {
        match said.recv_timeout(REDRAW) {
            Ok(transcript) => break transcript,
            Err(RecvTimeoutError::Timeout) => progress.advance(size_of(request.folder)),
            Err(RecvTimeoutError::Disconnected) => break String::new(),
        }
    };
    let status = child.wait().map_err(HubError::io("wait for", &python))?;
    if status.success() {
        progress.advance(size_of(request.folder));
        return package_in(request, &transcript);
    }
    let advice = request.advice.to_owned();
    if transcript.contains("No module named pip") {
        return Err(HubError::NoPip { python, advice });
    }
    Err(failed(request, &transcript))
}

fn start(pythons: &[String], request: &Request<'_>) -> Result<(String, Child), HubError> {
    for python in pythons {
        let spawned = Command::new(python)
            .args([
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--disable-pip-version-check",
            ])
            .args(["--no-input", "--progress-bar", "off", "--dest"])
            .args([request.folder.as_os_str(), request.requirement.as_ref()])
            // partial downloads land here too, so that they can be measured and are cleaned up
            .env("TMPDIR", request.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        match spawned {
            Ok(child) => return Ok((python.clone(), child)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(HubError::io("run", python)(error)),
        }
    }
    Err(HubError::NoPython {
        tried: pythons.to_vec(),
        advice: request.advice.to_owned(),
    })
}

/// What pip complains about, sent when it ends.
fn listen(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    let mut stderr = child.stderr.take().expect("stderr was asked for as a pipe");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn package_in(request: &Request<'_>, transcript: &str) -> Result<PathBuf, HubError> {
    let entries = fs::read_dir(request.folder).map_err(HubError::io("read", request.folder))?;
    let package = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    package.ok_or_else(|| failed(request, transcript))
}

fn failed(request: &Request<'_>, transcript: &str) -> HubError {
    let lines = || {
        transcript
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let reason = lines()
        .rfind(|line| line.contains("ERROR"))
        .or_else(|| lines().next_back());
    HubError::PipFailed {
        package: request.requirement.to_owned(),
        reason: reason
            .unwrap_or("it left no package and said nothing")
            .to_owned(),
        advice: request.advice.to_owned(),
    }
}

fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(facts) if facts.is_dir() => size_of(&entry.path()),
            Ok(facts) => facts.len(),
            Err(_) => 0,
        });
    sizes.sum()
}
