//! The end of the process where a driver that hangs holds it up.
#![expect(
    unsafe_code,
    reason = "an end without handlers has no safe wrapper here"
)]

use std::time::Duration;

/// Time that the end of the process may take.
const HELD_UP: Duration = Duration::from_secs(10);

/// Ends the process with 1 when it is still there after a while: a driver that hangs may hold up its end as well.
pub(crate) fn end_if_held_up() {
    end_after(HELD_UP);
}

fn end_after(time: Duration) {
    std::thread::spawn(move || {
        #[expect(
            clippy::disallowed_methods,
            reason = "the thing itself is the end of this thread"
        )]
        std::thread::sleep(time);
        // SAFETY: takes a number and touches no memory; no handler runs, so none of a driver's can wait.
        unsafe { libc::_exit(1) }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn hang() {
        loop {
            std::thread::park();
        }
    }

    #[test]
    #[ignore = "ends its own process: `a_process_whose_exit_handlers_hang_ends_with_1` runs it in one of its own"]
    fn exit_with_a_handler_that_hangs() {
        // SAFETY: the handler is a function that lives as long as the process and touches nothing.
        assert_eq!(unsafe { libc::atexit(hang) }, 0);
        end_after(Duration::ZERO);
        // SAFETY: takes a number; this thread uses nothing afterwards.
        unsafe { libc::exit(0) }
    }

    #[test]
    fn a_process_whose_exit_handlers_hang_ends_with_1() {
        let tests = std::env::current_exe().expect("a test is a file");
        let name = concat!(module_path!(), "::exit_with_a_handler_that_hangs");
        let (_, name) = name.split_once("::").expect("a module of the binary");
        let ended = std::process::Command::new(tests)
            .args([name, "--exact", "--ignored"])
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&ended.stdout);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("running 1 test"), "{said}");
    }
}
