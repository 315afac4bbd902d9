use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::record;

record! {
    /// The body of `/parse_function_call`.
    pub struct ParseFunctionCallRequest {
        /// What the model said.
        @required text: String,
        /// The functions it may call.
        tools: Value,
        /// How it writes calls.
        @required tool_call_parser: String,
    }
}

/// The answer of `/parse_function_call`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParseFunctionCallResponse {
    /// What was no call.
    pub normal_text: String,
    /// The calls.
    pub calls: Vec<FoundCall>,
}

/// A call of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundCall {
    /// Which call.
    pub tool_index: usize,
    /// The function.
    pub name: String,
    /// Its arguments as JSON.
    pub parameters: String,
}

record! {
    /// The body of `/separate_reasoning`.
    pub struct SeparateReasoningRequest {
        /// What the model said.
        @required text: String,
        /// How it marks its thinking.
        @required reasoning_parser: String,
    }
}

/// The answer of `/separate_reasoning`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeparateReasoningResponse {
    /// What it said to itself.
    pub reasoning_text: String,
    /// What it said to the user.
    pub text: String,
}
