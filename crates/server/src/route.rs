use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use protocol::json::FromJson;
use serde_json::Value;

use crate::auth::Access;
use crate::state::Shared;

/// A path: who answers, and what clients are told about it. Both come from here, so that neither is without the other.
pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) methods: Vec<Method>,
    pub(crate) router: MethodRouter<Shared>,
    pub(crate) access: Access,
    /// In a few words.
    pub(crate) summary: &'static str,
    /// What the body may have.
    pub(crate) body: Option<Value>,
    /// Parameters in the path or behind it, with what they mean.
    pub(crate) parameters: &'static [Parameter],
    /// The forms in which it answers.
    pub(crate) content: &'static [&'static str],
    /// How it fails, besides being unauthorised.
    pub(crate) failures: Failures,
}

/// A parameter that is part of the address.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// `path` or `query`.
    pub(crate) place: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) about: &'static str,
}

/// Statuses of failures, and how they are written.
#[derive(Clone, Copy)]
pub(crate) struct Failures {
    pub(crate) statuses: &'static [u16],
    /// The name of the form; none where the body is empty or text.
    pub(crate) form: Option<&'static str>,
}

/// What reads fails like this.
const BODY: &[u16] = &[400, 408, 413, 415, 500, 503];

pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain";
pub(crate) const EVENTS: &str = "text/event-stream";

/// The forms of errors: see `routes/openapi.rs`.
pub(crate) const NATIVE_ERROR: &str = "NativeError";
pub(crate) const OPENAI_ERROR: &str = "OpenAiError";

impl Route {
    /// A path for clients that takes no body and answers with JSON.
    pub(crate) fn new<H, T>(
        methods: &[Method],
        path: &'static str,
        handler: H,
        summary: &'static str,
    ) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let filters = methods.iter().map(|method| {
            MethodFilter::try_from(method.clone()).expect("our methods are all well known")
        });
        let filter = filters.reduce(MethodFilter::or);
        Self {
            path,
            methods: methods.to_vec(),
            router: on(filter.expect("a route has a method"), handler),
            access: Access::Client,
            summary,
            body: None,
            parameters: &[],
            content: &[JSON],
            failures: Failures {
                statuses: &[],
                form: None,
            },
        }
    }

    /// It reads a body and fails in this form.
    pub(crate) fn reads<T: FromJson>(mut self, form: &'static str) -> Self {
        self.body = Some(T::schema());
        self.fails(BODY, Some(form))
    }

    /// The same, and its answer is generated, whole or as a stream.
    pub(crate) fn generates<T: FromJson>(self, form: &'static str) -> Self {
        self.reads::<T>(form).answers(&[JSON, EVENTS])
    }

    /// It fails with these statuses.
    pub(crate) fn fails(mut self, statuses: &'static [u16], form: Option<&'static str>) -> Self {
        self.failures = Failures { statuses, form };
        self
    }

    /// It is for others than clients.
    pub(crate) fn open_to(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// It answers in these forms; with none, by its status alone.
    pub(crate) fn answers(mut self, content: &'static [&'static str]) -> Self {
        self.content = content;
        self
    }

    /// Its address has parameters.
    pub(crate) fn takes(mut self, parameters: &'static [Parameter]) -> Self {
        self.parameters = parameters;
        self
    }
}
