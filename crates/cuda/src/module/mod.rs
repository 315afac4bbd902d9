//! The kernels of this build: embedded, loaded once, found by name.

use std::collections::BTreeMap;
use std::ffi::CString;

use cudarc::driver::sys;
use ops::DeviceError;

use crate::card::Generation;
use crate::driver::check;

/// Compiled files by name, as `cargo xtask kernels` left them.
static EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// What names of files end with whose kernels are for Hopper alone; `cargo xtask kernels` names them so.
const FOR_HOPPER: &str = ".hopper";

/// True when kernels of this generation may be in the file of this name.
fn is_wanted(name: &str, generation: Generation) -> bool {
    generation == Generation::Hopper || !name.ends_with(FOR_HOPPER)
}

/// The files for a generation.
fn images(generation: Generation) -> impl Iterator<Item = &'static [u8]> {
    let files = EMBEDDED.iter();
    let files = files.filter(move |(name, _)| is_wanted(name, generation));
    files.map(|(_, image)| *image)
}

/// True when this build has kernels at all.
pub(crate) fn is_embedded() -> bool {
    !EMBEDDED.is_empty()
}

/// A kernel, and the bytes of its one parameter.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    pub(crate) handle: sys::CUfunction,
    pub(crate) parameter: usize,
}

// SAFETY: function handles may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// Kernels and the program that uses them were not made of the same sources.
pub(crate) fn outdated(what: &str) -> DeviceError {
    DeviceError::Lost {
        device: "cuda".into(),
        message: format!("{what}; run `cargo xtask kernels` and build again"),
    }
}

/// The kernels of a generation, loaded.
pub(crate) struct Modules {
    functions: BTreeMap<String, Function>,
    generation: Generation,
}

impl Modules {
    /// Loads all files that a generation needs; the context must be current.
    pub(crate) fn load(generation: Generation) -> Result<Self, DeviceError> {
        let mut functions = BTreeMap::new();
        for image in images(generation) {
            let mut module = std::ptr::null_mut();
            // SAFETY: a whole fatbin, embedded at build time.
            let result = unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) };
            check(result, "loading kernels")?;
            for function in functions_of(module)? {
                if generation == Generation::Hopper && is_of_text(function)? {
                    return Err(outdated("kernels of this build are for other GPUs alone"));
                }
                let (name, function) = made_ready(function)?;
                functions.insert(name, function);
            }
        }
        Ok(Self {
            functions,
            generation,
        })
    }

    /// As a GPU of this generation would find them, by the names of their code; nothing can be launched.
    #[cfg(test)]
    pub(crate) fn listed(generation: Generation) -> Self {
        const CODE: &[u8] = b".text.";
        let function = Function {
            handle: std::ptr::null_mut(),
            parameter: 0,
        };
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let functions = images(generation).flat_map(|image| {
            let begins = image.windows(CODE.len()).enumerate();
            let begins = begins.filter(|(_, found)| *found == CODE);
            begins.map(move |(at, _)| {
                let name = image[at + CODE.len()..]
                    .iter()
                    .take_while(|byte| is_name(byte));
                (name.map(|&byte| char::from(byte)).collect(), function)
            })
        });
        Self {
            functions: functions.collect(),
            generation,
        }
    }

    /// What the kernels that are to be used are made of.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// The kernel of this name.
    pub(crate) fn find(&self, name: &str) -> Result<Function, DeviceError> {
        self.functions
            .get(name)
            .copied()
            .ok_or_else(|| outdated(&format!("this build has no kernel {name}")))
    }

    /// The kernel of this name, allowed to use `bytes` of dynamic shared memory.
    pub(crate) fn find_with_shared(
        &self,
        name: &str,
        bytes: usize,
    ) -> Result<Function, DeviceError> {
        use sys::CUfunction_attribute as Attribute;
        let function = self.find(name)?;
        for (attribute, value) in [
            (
                Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                bytes as i32,
            ),
            // All of it, or a second block might not fit.
            (
                Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                100,
            ),
        ] {
            // SAFETY: a loaded function.
            let result = unsafe { sys::cuFuncSetAttribute(function.handle, attribute, value) };
            check(result, "asking for shared memory")?;
        }
        Ok(function)
    }
}

fn functions_of(module: sys::CUmodule) -> Result<Vec<sys::CUfunction>, DeviceError> {
    let mut count = 0;
    // SAFETY: a loaded module and a valid out-pointer.
    let result = unsafe { sys::cuModuleGetFunctionCount(&raw mut count, module) };
    check(result, "counting kernels")?;
    let mut functions = vec![std::ptr::null_mut(); count as usize];
    // SAFETY: room for `count` handles.
    let result = unsafe { sys::cuModuleEnumerateFunctions(functions.as_mut_ptr(), count, module) };
    check(result, "listing kernels")?;
    Ok(functions)
}

/// True when the driver compiled it from text for older GPUs, which says nothing of the order of kernels that overlap.
fn is_of_text(function: sys::CUfunction) -> Result<bool, DeviceError> {
    let version = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION;
    let mut found = 0;
    // SAFETY: a listed function and a valid out-pointer.
    let result = unsafe { sys::cuFuncGetAttribute(&raw mut found, version, function) };
    check(result, "asking what a kernel was compiled for")?;
    Ok(found < 90)
}

/// Loads the kernel now, not at its first launch; with its name.
fn made_ready(function: sys::CUfunction) -> Result<(String, Function), DeviceError> {
    let mut name = std::ptr::null();
    // SAFETY: a listed function; the driver stores the address of its name.
    let result = unsafe { sys::cuFuncGetName(&raw mut name, function) };
    check(result, "asking a kernel's name")?;
    // SAFETY: zero-terminated, alive as long as the module, which is never unloaded.
    let name: CString = unsafe { std::ffi::CStr::from_ptr(name) }.to_owned();
    // SAFETY: a listed function.
    let result = unsafe { sys::cuFuncLoad(function) };
    check(result, "loading a kernel")?;
    let (mut offset, mut parameter) = (0, 0);
    // SAFETY: a loaded function, which has one parameter, and valid out-pointers.
    let result =
        unsafe { sys::cuFuncGetParamInfo(function, 0, &raw mut offset, &raw mut parameter) };
    check(result, "asking what a kernel takes")?;
    let ready = Function {
        handle: function,
        parameter,
    };
    Ok((name.to_string_lossy().into_owned(), ready))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hopper_gets_the_files_that_are_for_it_alone() {
        for (name, generation, expected) in [
            ("norm", Generation::Hopper, true),
            ("norm", Generation::Ampere, true),
            ("megakernel.hopper", Generation::Hopper, true),
            ("megakernel.hopper", Generation::Ampere, false),
        ] {
            assert_eq!(
                is_wanted(name, generation),
                expected,
                "{name}, {generation:?}"
            );
        }
        let is_hoppers = |name: &str| name.ends_with(FOR_HOPPER);
        let hoppers = EMBEDDED.iter().filter(|(name, _)| is_hoppers(name)).count();
        assert!(EMBEDDED.is_empty() || (1..EMBEDDED.len()).contains(&hoppers));
    }

    #[test]
    fn every_kernel_that_was_compiled_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/kernels");
        let Ok(files) = std::fs::read_dir(folder) else {
            println!("skipped: no kernels were compiled, run `cargo xtask kernels`");
            return;
        };
        for file in files {
            let path = file.expect("readable").path();
            if path.extension().is_none_or(|end| end != "fatbin") {
                continue;
            }
            let name = path.file_stem().expect("a name").to_string_lossy();
            let embedded = EMBEDDED.iter().find(|(embedded, _)| *embedded == name);
            let (_, image) = embedded.unwrap_or_else(|| panic!("{name} is not embedded"));
            // what every fatbin begins with
            assert!(image.starts_with(&[0x50, 0xED, 0x55, 0xBA]), "{name}");
        }
    }
}
