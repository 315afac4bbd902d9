//! Where the driver, cuBLASLt and NCCL are found.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ops::DeviceError;

use crate::card::{Capability, Release};

/// Why there is no GPU to use.
#[derive(Debug, thiserror::Error)]
pub enum Absent {
    /// The binary was built without kernels.
    #[error("this build has no GPU kernels; run `cargo xtask kernels` and build again")]
    NoKernels,
    /// A library could not be opened.
    #[error("{name} was not found; searched the loader's path{}", list(.searched))]
    NoLibrary {
        /// Which.
        name: &'static str,
        /// Where we looked besides.
        searched: Vec<PathBuf>,
    },
    /// The driver is too old for our kernels.
    #[error(
        "the driver is of CUDA {found}, and kernels need one of CUDA {needed} or newer (580, say); install a newer driver"
    )]
    OldDriver {
        /// What the driver says.
        found: Release,
        /// What kernels are of.
        needed: Release,
    },
    /// The driver sees no GPU.
    #[error("the driver sees no GPU; CUDA_VISIBLE_DEVICES may hide it")]
    NoDevice,
    /// A GPU that our kernels do not run on.
    #[error(
        "{name} has compute capability {capability}, and kernels need {needed} (Ampere) or newer{}", hint(.other.as_ref())
    )]
    Unsuited {
        /// What the maker calls it.
        name: String,
        /// What it can do.
        capability: Capability,
        /// What the kernels need.
        needed: Capability,
        /// Name and number of another one of this machine that would do.
        other: Option<(String, String)>,
    },
    /// A GPU that has kernels which were never run on one of its kind.
    #[error(
        "{name} has compute capability {capability}, and kernels for it are tested without a GPU only, and slower than \
         Hopper's; --device cuda uses it all the same{}", hint(.other.as_ref())
    )]
    Untried {
        /// What the maker calls it.
        name: String,
        /// What it can do.
        capability: Capability,
        /// Name and number of another one of this machine that would do.
        other: Option<(String, String)>,
    },
    /// The device failed while it was opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// To another GPU, for a sentence that ends with it.
fn hint(other: Option<&(String, String)>) -> String {
    other.map_or_else(String::new, |(name, id)| {
        format!("; this machine has {name} too, CUDA_VISIBLE_DEVICES={id} makes it the first")
    })
}

/// Folders, for a sentence that ends with them.
fn list(folders: &[PathBuf]) -> String {
    let names = folders
        .iter()
        .map(|folder| format!(", {}", folder.display()));
    names.collect()
}

/// Makes the driver loadable by name: opens it from `folders` when the loader does not know it.
pub(crate) fn prepare_driver(folders: &[PathBuf]) -> Result<(), Absent> {
    need("libcuda.so.1", c"cuInit", folders)?;
    // SAFETY: only tries to open a library.
    let present = unsafe { cudarc::driver::sys::is_culib_present() };
    present
        .then_some(())
        .ok_or_else(|| missing("the NVIDIA driver (libcuda)", folders))
}

/// As [`prepare_driver`], for cuBLASLt.
pub(crate) fn prepare_cublaslt(folders: &[PathBuf]) -> Result<(), Absent> {
    need("libcublasLt.so.13", c"cublasLtCreate", folders)?;
    // SAFETY: only tries to open a library.
    let present = unsafe { cudarc::cublaslt::sys::is_culib_present() };
    present
        .then_some(())
        .ok_or_else(|| missing("cuBLASLt (libcublasLt)", folders))
}

/// Says what was searched for it.
pub(crate) fn missing(name: &'static str, folders: &[PathBuf]) -> Absent {
    Absent::NoLibrary {
        name,
        searched: folders.to_vec(),
    }
}

/// A file of the right name that lacks `symbol` is a stand-in, not the library.
fn need(name: &'static str, symbol: &CStr, folders: &[PathBuf]) -> Result<(), Absent> {
    let whole = |library: Library| library.symbol(symbol).is_some();
    let mut found = candidates(name, folders).filter_map(|path| Library::at(&path));
    found
        .any(whole)
        .then_some(())
        .ok_or_else(|| missing(name, folders))
}

fn candidates(name: &str, folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    std::iter::once(PathBuf::from(name)).chain(folders.iter().map(move |folder| folder.join(name)))
}

/// A library that stays open for the life of the process.
pub(crate) struct Library(*mut c_void);

impl Library {
    /// Opens it from the loader's path, else from one of the folders.
    pub(crate) fn open(name: &str, folders: &[PathBuf]) -> Option<Self> {
        candidates(name, folders).find_map(|path| Self::at(&path))
    }

    fn at(path: &Path) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: a zero-terminated text.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        (!library.is_null()).then_some(Self(library))
    }

    /// The address of a function.
    pub(crate) fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: an open library and a zero-terminated text.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol)
    }
}
