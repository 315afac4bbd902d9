//! The native API: `/generate` and what surrounds it.

mod admin;
mod cumulative;
mod finish;
mod generate;
mod info;
mod log_probs;
mod meta_info;
mod parse;
mod sampling_params;
mod step_count;
mod token_limit;
mod tokenize;

pub use admin::{AbortRequest, FlushCacheQuery, Load, LoadsQuery, StartProfileRequest};
pub use cumulative::CumulativeEvent;
pub use finish::{FinishReason, Matched};
pub use generate::{ErrorBody, ErrorMessage, GenerateRequest, GenerateResponse};
pub use info::ModelInfo;
pub use log_probs::{LogProb, LogProbs};
pub use meta_info::{MetaInfo, Timing};
pub use parse::{
    FoundCall, ParseFunctionCallRequest, ParseFunctionCallResponse, SeparateReasoningRequest,
    SeparateReasoningResponse,
};
pub use sampling_params::SamplingParams;
pub use step_count::StepCount;
pub use token_limit::TokenLimit;
pub use tokenize::{
    DetokenizeRequest, DetokenizeResponse, Each, TokenizeRequest, TokenizeResponse,
};
