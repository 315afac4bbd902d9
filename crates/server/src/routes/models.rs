use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use protocol::openai::{ModelCard, ModelList, ModelNotFound};

use crate::state::{self, Shared};

/// `/v1/models`
pub(crate) async fn list(State(state): State<Shared>) -> Json<ModelList> {
    Json(ModelList::new(vec![card(&state)]))
}

/// `/v1/models/{id}`
pub(crate) async fn one(State(state): State<Shared>, Path(id): Path<String>) -> Response {
    if id == state.config.served_model_name {
        Json(card(&state)).into_response()
    } else {
        (StatusCode::NOT_FOUND, Json(ModelNotFound::new(&id))).into_response()
    }
}

fn card(state: &state::State) -> ModelCard {
    ModelCard::new(
        &state.config.served_model_name,
        state.started,
        state.context_length(),
    )
}
