//! The plan in effect, and the functions that a subscription can have.

use crate::desk::Described;
use crate::serve::app::Shared;
use crate::serve::failure::Failure;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use weir_api::{FunctionCall, Level};
use weir_engine::{FUNCTIONS, FunctionSpec, RECORD_FUNCTIONS};
use weir_store::listed;

/// The plan in effect: every subscription, the built-in ones too, and what the pass has to do for them, as `weir explain --plan`
/// prints it.
#[utoipa::path(get, path = "/api/v1/plan",
    responses((status = 200, body = Described), (status = 404, body = Failure)))]
pub async fn plan(State(app): State<Shared>) -> Result<Json<Described>, Failure> {
    let plan = app.hub.described().ok_or_else(|| Failure::unknown("no run: these pages show a store"))?;
    Ok(Json(plan))
}

/// All functions of subscriptions.
#[derive(Serialize, ToSchema)]
pub struct Functions {
    /// In the order of the manual.
    functions: Vec<FunctionInfo>,
}

/// A function of subscriptions.
#[derive(Serialize, ToSchema)]
pub struct FunctionInfo {
    /// Name. A function over records can have the name of one over packets and flows.
    name: String,
    /// Meaning.
    help: String,
    /// Levels that it works on: `packet`, `stream`, `flow`, `record`.
    levels: Vec<String>,
    /// Whether its reading is a list or a count of distinct values, which /api/v1/tables has.
    list: bool,
    /// Arguments; the value of the first needs no name.
    arguments: Vec<ArgumentInfo>,
}

/// An argument of a function.
#[derive(Serialize, ToSchema)]
pub struct ArgumentInfo {
    /// Name.
    name: String,
    /// Meaning and accepted values.
    help: String,
    /// Default; `null` if it has to be given.
    #[schema(required = true)]
    default: Option<String>,
}

/// Whether the reading of a function is a list.
fn is_list(spec: &FunctionSpec) -> bool {
    // Functions over records have tables. One that needs an argument cannot be tried.
    let tried = spec.call(&FunctionCall::new(spec.name), 0).ok();
    spec.levels.contains(&Level::Record) || tried.is_some_and(|mut one| listed::is_list(&one.take()))
}

/// The functions that a subscription can have.
#[utoipa::path(get, path = "/api/v1/functions", responses((status = 200, body = Functions)))]
pub async fn functions() -> Json<Functions> {
    let functions = FUNCTIONS.iter().chain(RECORD_FUNCTIONS).map(|spec| FunctionInfo {
        name: spec.name.to_owned(),
        help: spec.help.to_owned(),
        list: is_list(spec),
        levels: spec.levels.iter().map(|level| level.name().to_owned()).collect(),
        arguments: spec
            .arguments
            .iter()
            .map(|argument| ArgumentInfo {
                name: argument.name.to_owned(),
                help: argument.help.to_owned(),
                default: argument.default.map(str::to_owned),
            })
            .collect(),
    });
    Json(Functions { functions: functions.collect() })
}
