//! The environment that chat templates are written for.

use std::borrow::Cow;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};

use super::compiled::Raised;
use super::{python_json, python_repr, python_text};

pub(super) fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
        .expect("the usual delimiters are valid");
    environment.set_syntax(syntax);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_unknown_method_callback(python_text::method);
    minijinja_contrib::add_to_environment(&mut environment);
    environment.set_formatter(|out, _, value| Ok(out.write_str(&python_repr::text(value)?)?));
    environment.add_filter("string", |value: &Value| {
        python_repr::text(value).map(Cow::into_owned)
    });
    environment.add_filter("tojson", python_json::tojson);
    environment.add_function("raise_exception", raise_exception);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
    environment
}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    let message = message.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, "refused").with_source(Raised(message)))
}

/// In Python everything with a length and items is a sequence, text and dictionaries too.
fn is_sequence(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map
    )
}

fn is_iterable(value: &Value) -> bool {
    is_sequence(value) || value.kind() == ValueKind::Iterable
}
