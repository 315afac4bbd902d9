//! Chat templates, which are programs of whoever made the model: this binary renders them in processes of its own.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use text::{Sandbox, SandboxLimits, SpecialTokens, Template, TemplateError, serve_sandbox};

/// The first word of such a process; no command, so that it is in no help.
pub(crate) const WORD: &str = "--render-chat-templates";

/// The file that this process runs, even where another has taken its name since.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Renders for the process that started this one.
pub(crate) fn serve() -> ExitCode {
    match serve_sandbox() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Compiles a template; all of them share their processes.
pub(crate) fn compile(source: &str, special: &SpecialTokens) -> Result<Template, TemplateError> {
    static SANDBOX: OnceLock<Arc<Sandbox>> = OnceLock::new();
    let sandbox = SANDBOX
        .get_or_init(|| Sandbox::new(Path::new(THIS_PROGRAM), &[WORD], SandboxLimits::default()));
    Template::compile_in(sandbox, source, special)
}
