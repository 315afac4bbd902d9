//! Having the server profile itself.

use super::options::Options;
use super::surroundings::Surroundings;
use crate::client::{Control, Url};
use crate::python_text;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LONGEST: Duration = Duration::from_hours(6);

/// The servers to be profiled.
pub(super) enum Profile {
    /// None.
    Off,
    /// The one under test.
    One(Control),
    /// Separate servers, each with its name.
    Several(Vec<(String, String, Option<Control>)>),
}

impl Profile {
    pub(super) fn of(
        options: &Options,
        control: &Control,
        surroundings: &mut Surroundings<'_>,
    ) -> Self {
        if !options.given.switch("profile") {
            return Self::Off;
        }
        if !options.given.switch("pd-separated") {
            return Self::One(control.clone());
        }
        let workers = |option: &str, kind: &str| -> Vec<(String, String, Option<Control>)> {
            let urls = options.given.list(option).unwrap_or_default();
            let worker = |(place, url): (usize, &str)| {
                let control = Url::parse(url).ok().map(|url| control.elsewhere(url));
                (format!("{kind}-{place}"), url.to_owned(), control)
            };
            urls.into_iter().enumerate().map(worker).collect()
        };
        let mut all = workers("profile-prefill-url", "Prefill");
        all.extend(workers("profile-decode-url", "Decode"));
        if all.is_empty() {
            surroundings.say(
                "Warning: PD separated mode requires --profile-prefill-url or --profile-decode-url",
            );
            surroundings.say("Skipping profiler start. Please specify worker URLs for profiling.");
        }
        Self::Several(all)
    }

    pub(super) fn start(&self, options: &Options, surroundings: &mut Surroundings<'_>) {
        self.call("start", options, surroundings);
    }

    /// Ends it, unless it ends by itself after a number of steps.
    pub(super) fn stop(&self, options: &Options, surroundings: &mut Surroundings<'_>) {
        let by_itself = options.given.integer("profile-steps").is_some()
            || (matches!(self, Self::One(_))
                && options.given.integer("profile-num-steps").is_some());
        if !by_itself {
            self.call("stop", options, surroundings);
        }
    }

    fn call(&self, mode: &str, options: &Options, surroundings: &mut Surroundings<'_>) {
        let (doing, done) = if mode == "start" {
            ("Starting", "started")
        } else {
            ("Stopping", "stopped")
        };
        match self {
            Self::Off => {}
            Self::One(control) => {
                surroundings.say(&format!("{doing} profiler..."));
                if post(control, mode, options, surroundings).is_ok() {
                    surroundings.say(&format!("Profiler {done}"));
                }
            }
            Self::Several(workers) if workers.is_empty() => {}
            Self::Several(workers) => {
                surroundings.say(&format!("{doing} profiler..."));
                for (name, url, control) in workers {
                    let answer = match control {
                        Some(control) => post(control, mode, options, surroundings),
                        None => Err("not an http address".to_owned()),
                    };
                    surroundings.say(&match answer {
                        Ok(()) => format!("Profiler {done} for {name} worker at {url}"),
                        Err(error) => {
                            format!("Failed to {mode} profiler for {name} worker at {url}: {error}")
                        }
                    });
                }
            }
        }
    }
}

fn post(
    control: &Control,
    mode: &str,
    options: &Options,
    surroundings: &mut Surroundings<'_>,
) -> Result<(), String> {
    let path = format!("/{mode}_profile");
    let body = body(mode, options, surroundings.profile_folder.clone());
    let url = Value::from(control.url(&path));
    surroundings.say(&format!(
        "async_request_profile api_url={} body={}",
        python_text::repr(&url),
        python_text::repr(&body)
    ));
    let body = with_steps(body, options);
    match control.post(&path, Some(&body), LONGEST) {
        Ok(reply) if reply.is_ok() => Ok(()),
        Ok(reply) => Err(reply.words()),
        Err(error) => Err(error.to_string()),
    }
}

fn body(mode: &str, options: &Options, folder: Option<PathBuf>) -> Value {
    let given = &options.given;
    let newer = options.release.has(9);
    if newer && mode == "stop" {
        return json!({});
    }
    let by_stage = given.switch("profile-by-stage");
    let mut steps = given.integer("profile-num-steps");
    if newer && by_stage {
        steps = steps.or(Some(5));
    }
    let mut body = Map::new();
    body.insert(
        "activities".to_owned(),
        json!(given.list("profile-activities")),
    );
    body.insert("num_steps".to_owned(), json!(steps));
    body.insert("profile_by_stage".to_owned(), json!(by_stage));
    body.insert(
        "profile_stages".to_owned(),
        json!(given.list("profile-stages")),
    );
    if newer {
        let folder = given
            .text("profile-output-dir")
            .map(PathBuf::from)
            .or(folder);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let folder = folder
            .unwrap_or_else(|| "/tmp".into())
            .join(now.as_secs_f64().to_string());
        body.insert("output_dir".to_owned(), json!(folder));
        body.insert(
            "profile_prefix".to_owned(),
            json!(given.text("profile-prefix")),
        );
    }
    Value::Object(body)
}

/// Steps are sent as texts.
fn with_steps(mut body: Value, options: &Options) -> Value {
    for (option, key) in [
        ("profile-start-step", "start_step"),
        ("profile-steps", "num_steps"),
    ] {
        if let Some(step) = options.given.integer(option) {
            body[key] = json!(step.to_string());
        }
    }
    body
}
