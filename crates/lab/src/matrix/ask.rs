//! What servers say about themselves, asked before a session or remembered from an earlier one.

use std::time::SystemTime;

use super::attempt::Scratch;
use super::plan::Plan;
use crate::diff::{Aspect, differences};
use crate::interrupt::Interrupt;
use crate::run::{Run, SubjectFacts, identifier};
use crate::store::{Store, StoreError, disk};
use crate::subject::{HOST, Places, Server, free_port};

/// Starts every subject once, asks it about itself and stops it. A subject that cannot be started is
/// known by its command line, with the reason.
pub(crate) fn ask(
    plan: &Plan,
    (store, places): (&Store, &Places),
    interrupt: &Interrupt,
) -> Result<Vec<(SubjectFacts, Option<String>)>, StoreError> {
    let chance = format!("{:?} {}", SystemTime::now(), std::process::id());
    let mark = format!("ask-{}", identifier(&[&chance]));
    let folder = store.session_folder(&mark);
    let scratch = Scratch::create(folder.clone()).map_err(|source| disk(&folder, source))?;
    let mut asked = Vec::new();
    for (place, subject) in plan.subjects.iter().enumerate() {
        let mut places = places.clone();
        let model = subject.model.clone().unwrap_or_default();
        let scratch_path = scratch.path().display().to_string();
        places.values.extend([
            ("model", model),
            ("host", HOST.to_owned()),
            ("repeat", "1".to_owned()),
            ("scratch", scratch_path),
        ]);
        let plain = subject.facts(&places);
        let port = match free_port() {
            Ok(port) => port,
            Err(error) => {
                asked.push((plain, Some(format!("no free port: {error}"))));
                continue;
            }
        };
        places.values.push(("port", port.to_string()));
        let log = scratch.path().join(format!("server-{place}.log"));
        let mark = format!("{mark}/{place}");
        asked.push(
            match Server::start(subject, (port, &places), &log, &mark, interrupt) {
                Ok(server) => {
                    let facts = server.facts.clone();
                    server.stop();
                    (facts, None)
                }
                Err(failure) => (plain, Some(failure.reason)),
            },
        );
    }
    Ok(asked)
}

/// What a subject said the last time it was started with the same settings.
pub(crate) fn remembered(facts: &SubjectFacts, runs: &[Run]) -> Option<SubjectFacts> {
    let told = runs.iter().rev().filter(|run| run.subject.info.is_some());
    let same = |run: &&Run| {
        let found = differences(facts, &run.subject);
        let mut set = found
            .iter()
            .filter(|one| !matches!(one.aspect, Aspect::Version | Aspect::Resolved));
        run.subject.name == facts.name && set.next().is_none()
    };
    told.filter(same).map(|run| run.subject.clone()).next()
}
