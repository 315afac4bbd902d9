//! Model files are mapped; where one becomes shorter or its disk fails, the system ends the process without a word.
#![expect(unsafe_code, reason = "signal handlers have no safe wrapper here")]

use std::path::Path;
use std::sync::OnceLock;

/// What goes before the message: the model that is mapped.
static MODEL: OnceLock<Vec<u8>> = OnceLock::new();

/// Written as it is: a handler may not format.
const MESSAGE: &[u8] =
    b"a mapped model file could not be read: it became shorter, or its disk failed (SIGBUS); \
leave the files of a model alone while they are in use\n";

/// Has the process say what happened and end with 1.
pub(crate) fn explain() {
    let handler: extern "C" fn(libc::c_int) = end;
    // SAFETY: the action is made of zeros, which is valid for all its fields, and a function that lives as long as the
    // process and calls nothing but what is allowed in a handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        // It can only fail for a signal that does not exist.
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

/// Has the message name the model; the first one stays.
pub(crate) fn name(model: &Path) {
    MODEL.get_or_init(|| format!("error: {}: ", model.display()).into_bytes());
}

extern "C" fn end(_: libc::c_int) {
    // Looking whether it is set takes no lock.
    let model = MODEL.get().map_or(&b"error: "[..], Vec::as_slice);
    // SAFETY: the bytes live as long as the process, and both calls are allowed in a handler.
    unsafe {
        for part in [model, MESSAGE] {
            libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len());
        }
        libc::_exit(1)
    }
}

#[cfg(test)]
mod tests {
    use checkpoint::Checkpoint;

    #[test]
    #[ignore = "ends its own process: `a_model_file_that_becomes_shorter_is_told_of` runs it in one of its own"]
    fn read_a_file_that_became_shorter() {
        super::explain();
        super::name("models/shrinks".as_ref());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let data = 1 << 20;
        let header =
            format!(r#"{{"t":{{"dtype":"U8","shape":[{data}],"data_offsets":[0,{data}]}}}}"#);
        let length = (header.len() as u64).to_le_bytes();
        let bytes = [&length, header.as_bytes(), &vec![1; data]].concat();
        std::fs::write(&path, bytes).unwrap();
        let Checkpoint::Safetensors(source) = checkpoint::open(&path).unwrap() else {
            panic!("another format")
        };
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(4096).unwrap();
        let weights: &dyn checkpoint::WeightSource = &source;
        let sum: u64 = weights
            .bytes("t")
            .unwrap()
            .iter()
            .map(|byte| u64::from(*byte))
            .sum();
        panic!("read {sum} from what is gone");
    }

    #[test]
    fn a_model_file_that_becomes_shorter_is_told_of() {
        let tests = std::env::current_exe().unwrap();
        let name = concat!(module_path!(), "::read_a_file_that_became_shorter");
        let (_, name) = name.split_once("::").unwrap();
        let ended = std::process::Command::new(tests)
            .args([name, "--exact", "--ignored"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(
            said.contains("error: models/shrinks: a mapped model file could not be read"),
            "{said}"
        );
    }
}
