//! `python3 -m pip download`, watched while it works. Only built packages with the pinned hash are
//! taken, so pip has nothing to build and nothing fetched is run.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::error::HubError;
use crate::progress::Progress;

const REDRAW: Duration = Duration::from_millis(100);

/// pip's settings that say where packages are and how to get there. Others may redirect code: `PIP_PYTHON` names
/// another interpreter, `PIP_CONFIG_FILE` a file that may.
const INDEX_SETTINGS: &[&str] = &[
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_NO_INDEX",
    "PIP_FIND_LINKS",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_PROXY",
    "PIP_TIMEOUT",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_RETRIES",
];

/// What to download, where to, and what to say when it cannot be.
pub(crate) struct Request<'a> {
    /// Name and version, as in `name==1.0`.
    pub requirement: &'a str,
    /// SHA-256 of the package file.
    pub sha256: &'a str,
    /// Its size.
    pub bytes: u64,
    /// An empty folder of its own.
    pub folder: &'a Path,
    /// What a person can do without pip.
    pub advice: &'a str,
}

/// The interpreters of this machine, and the environment they run in.
#[derive(Debug, Clone, Default)]
pub struct Pythons {
    /// Names or paths, tried in order.
    pub programs: Vec<String>,
    /// This process's variables; those that could redirect Python or pip are left out.
    pub environment: Vec<(OsString, OsString)>,
}

/// Runs pip with the first interpreter there is; returns the package file.
pub(crate) fn download(
    pythons: &Pythons,
    request: &Request<'_>,
    progress: &mut dyn Progress,
) -> Result<PathBuf, HubError> {
    let (python, mut child) = start(pythons, request)?;
    let said = listen(&mut child);
    let transcript = loop {
        match said.recv_timeout(REDRAW) {
            Ok(transcript) => break transcript,
            Err(RecvTimeoutError::Timeout) => progress.advance(arrived(request.folder)),
            Err(RecvTimeoutError::Disconnected) => break String::new(),
        }
    };
    let status = child.wait().map_err(HubError::io("wait for", &python))?;
    if status.success() {
        progress.advance(request.bytes);
        return package_in(request, &transcript);
    }
    let advice = request.advice.to_owned();
    if transcript.contains("No module named pip") {
        return Err(HubError::NoPip { python, advice });
    }
    if transcript.contains("No space left on device") {
        let full = ErrorKind::StorageFull.into();
        return Err(HubError::io("download into", request.folder)(full));
    }
    Err(failed(request, &transcript))
}

fn start(pythons: &Pythons, request: &Request<'_>) -> Result<(String, Child), HubError> {
    let list = request.folder.join("requirements.txt");
    let line = format!("{} --hash=sha256:{}\n", request.requirement, request.sha256);
    fs::write(&list, line).map_err(HubError::io("write", &list))?;
    let environment = pythons.environment.iter();
    let environment: Vec<_> = environment.filter(|(name, _)| is_harmless(name)).collect();
    for python in &pythons.programs {
        let mut command = Command::new(python);
        end_with_this_process(&mut command);
        let spawned = command
            // isolated: no code from the current folder, the user's packages or PYTHON* variables
            .args(["-I", "-m", "pip", "download", "--no-deps"])
            .args(["--only-binary", ":all:", "--require-hashes"])
            .args(["--no-cache-dir", "--disable-pip-version-check"])
            .args(["--no-input", "--progress-bar", "off", "--dest"])
            .args([
                request.folder.as_os_str(),
                OsStr::new("-r"),
                list.as_os_str(),
            ])
            .current_dir(request.folder)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
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
        tried: pythons.programs.clone(),
        advice: request.advice.to_owned(),
    })
}

/// A pull that is ended by a signal leaves no pip behind that goes on downloading.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec has no safe wrapper"
)]
fn end_with_this_process(command: &mut Command) {
    // SAFETY: takes two numbers and touches no memory.
    let ask = || match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: the closure makes one system call, allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) };
}

fn is_harmless(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let of_pip = name.starts_with("PIP_") || name.starts_with("_PIP_");
    !(of_pip || name.starts_with("PYTHON")) || INDEX_SETTINGS.contains(&name.as_ref())
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

/// Bytes of the package so far: its largest file, since pip copies it once from place to place.
fn arrived(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(facts) if facts.is_dir() => arrived(&entry.path()),
            Ok(facts) => facts.len(),
            Err(_) => 0,
        });
    sizes.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_lies_in_two_places_for_a_moment_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(arrived(folder.path()), 0);
        let unpack = folder.path().join("pip-unpack-1");
        fs::create_dir(&unpack).unwrap();
        fs::write(unpack.join("tiny.whl"), [0; 80]).unwrap();
        fs::write(folder.path().join("tiny.whl"), [0; 60]).unwrap();
        assert_eq!(arrived(folder.path()), 80);
    }
}
