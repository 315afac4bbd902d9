use std::sync::mpsc::Sender;

use crate::command::{Command, RequestKey};

/// Cancels a sequence whoever reads its tokens, or nobody.
#[derive(Clone)]
pub struct Canceller {
    pub(crate) key: RequestKey,
    pub(crate) commands: Sender<Command>,
}

impl Canceller {
    /// Ends the sequence, unless it has ended. Its stream ends without a last event.
    pub fn cancel(&self) {
        // An engine that is gone has nothing left to cancel.
        let _ = self.commands.send(Command::Cancel(self.key));
    }
}
