use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use protocol::json::Unknown;

/// Names that are remembered; what clients write has no end.
const MAX_NAMES: usize = 256;

/// Members of requests that nothing reads: ignored, as SGLang does, but not without a word.
#[derive(Debug, Default)]
pub(crate) struct UnknownMembers {
    count: AtomicU64,
    names: Mutex<BTreeSet<String>>,
}

impl UnknownMembers {
    /// Counts the unknown members of a request, and logs each name once.
    pub(crate) fn note(&self, unknown: &Unknown) {
        if unknown.names().is_empty() {
            return;
        }
        let count = unknown.names().len() as u64;
        self.count.fetch_add(count, Ordering::Relaxed);
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        for name in unknown.names() {
            if names.len() < MAX_NAMES && !names.contains(name) {
                names.insert(name.clone());
                tracing::warn!(
                    "Request member {name:?} is not known and ignored; /openapi.json lists those that are. Said once."
                );
            }
        }
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use protocol::json::read_noting;
    use protocol::native::GenerateRequest;

    use super::*;

    fn note(members: &UnknownMembers, text: &str) {
        let (_, unknown) = read_noting::<GenerateRequest>(text.as_bytes()).expect("a request");
        members.note(&unknown);
    }

    #[test]
    fn every_unknown_member_counts_and_only_so_many_names_are_kept() {
        let members = UnknownMembers::default();
        note(&members, r#"{"text": "a"}"#);
        assert_eq!(members.count(), 0);
        for _ in 0..2 {
            note(
                &members,
                r#"{"temprature": 1, "sampling_params": {"a": 1}}"#,
            );
        }
        assert_eq!(members.count(), 4);
        let names = || members.names.lock().unwrap().clone();
        assert!(names().iter().eq(["sampling_params.a", "temprature"]));
        for number in 0..2 * MAX_NAMES {
            note(&members, &format!(r#"{{"m{number}": 1}}"#));
        }
        assert_eq!(names().len(), MAX_NAMES);
        assert_eq!(members.count(), 4 + 2 * MAX_NAMES as u64);
    }
}
