//! What `cargo metadata` says about our crates and everybody else's.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// Packages of the workspace and all they depend on, on Linux.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
}

/// One version of one package.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
}

/// What a package asks for.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for an ordinary one, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// Where it comes from; `None` for one of ours.
    pub(crate) source: Option<String>,
}

impl Dependency {
    /// Whether only tests use it.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Metadata {
    /// Asks cargo.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let output = Command::new("cargo")
            .args([
                "metadata",
                "--format-version=1",
                "--filter-platform",
                &platform,
            ])
            .current_dir(root)
            .output()
            .context("cannot run cargo metadata")?;
        ensure!(
            output.status.success(),
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Self::parse(&output.stdout)
    }

    /// Reads its JSON.
    pub(crate) fn parse(json: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(json).context("cargo metadata is not as expected")
    }

    /// Our crates, by name.
    pub(crate) fn ours(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Other people's packages.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| !self.workspace_members.contains(&package.id))
    }

    /// Whether one of our crates asks for this package by name.
    pub(crate) fn is_used_by_us(&self, name: &str) -> bool {
        let mut asked = self.ours().flat_map(|package| &package.dependencies);
        asked.any(|dependency| dependency.source.is_some() && dependency.name == name)
    }
}
