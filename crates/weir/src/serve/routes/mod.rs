//! Every question that is answered, in one list: the router and the OpenAPI document are made from it.

pub mod asked;
mod filter;
mod flows;
mod history;
mod lists;
mod query;
mod sensor;
mod settings;

use super::app::Shared;
use super::{live, packets};
use axum::Router;
use utoipa::OpenApi;

pub use asked::Ask;

macro_rules! served {
    ($($method:ident $path:literal $($handler:ident)::+;)+) => {
        /// A router with all of them.
        pub fn router() -> Router<Shared> {
            Router::new()$(.route($path, axum::routing::$method($($handler)::+)))+
        }

        /// What the document is made of.
        #[derive(OpenApi)]
        #[openapi(
            info(
                title = "Weir",
                description = "What a network monitor has seen: all that its pages show, and nothing that they cannot. \
                    Times are seconds since the epoch, rates are per second. What a limit has cut is said in `partial`. \
                    Strings may hold anything that came from a packet: they are text, never markup.",
                version = "1",
                license(name = "MIT OR Apache-2.0")
            ),
            paths($($($handler)::+),+)
        )]
        pub struct Document;

        /// Method and path of each.
        #[cfg(test)]
        pub static ROUTES: &[(&str, &str)] = &[$((stringify!($method), $path)),+];
    };
}

served! {
    get "/api/v1/status" sensor::status;
    get "/api/v1/sensor" sensor::sensor;
    get "/api/v1/events" sensor::events;
    get "/api/v1/charts" history::charts;
    get "/api/v1/series" history::series;
    get "/api/v1/series/data" history::data;
    get "/api/v1/series/band" history::band;
    get "/api/v1/lists" lists::lists;
    get "/api/v1/top" lists::top;
    get "/api/v1/distinct" lists::distinct;
    get "/api/v1/new" lists::news;
    get "/api/v1/query" query::query;
    get "/api/v1/flows" flows::flows;
    get "/api/v1/flows/{id}" flows::flow;
    get "/api/v1/protocols" flows::protocols;
    get "/api/v1/records/{table}" flows::records;
    get "/api/v1/filter" filter::filter;
    get "/api/v1/filter/try" filter::attempt;
    get "/api/v1/config" settings::config;
    post "/api/v1/config/check" settings::check;
    post "/api/v1/config/apply" settings::apply;
    get "/api/v1/packets" packets::packets;
    get "/api/v1/packets/size" packets::size;
    get "/api/v1/live" live::live;
    get "/api/openapi.json" document;
    get "/metrics" sensor::metrics;
    get "/healthz" sensor::health;
}

/// This document.
#[utoipa::path(get, path = "/api/openapi.json", responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub async fn document() -> axum::Json<utoipa::openapi::OpenApi> {
    axum::Json(Document::openapi())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_path_that_is_served_is_documented_and_every_one_documented_is_served() {
        let document = serde_json::to_value(Document::openapi()).unwrap();
        let documented: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, methods)| {
                methods.as_object().unwrap().keys().map(|method| (method.clone(), path.clone()))
            })
            .collect();
        let served: BTreeSet<(String, String)> =
            ROUTES.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect();
        assert_eq!(served, documented);
        assert_eq!(served.len(), ROUTES.len(), "one is there twice");
    }

    /// What is referred to is there, and every question and every field says what it is.
    #[test]
    fn the_document_is_complete() {
        let document = serde_json::to_value(Document::openapi()).unwrap();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for (at, _) in text.match_indices("#/components/schemas/") {
            let name = text[at + "#/components/schemas/".len()..].split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
        for (name, schema) in schemas {
            assert!(schema["description"].is_string() || name == "Failure", "{name}");
        }
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                assert!(operation["summary"].is_string(), "{method} {path}");
                assert!(operation["responses"]["200"].is_object(), "{method} {path}");
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    assert!(parameter["description"].is_string(), "{method} {path} {parameter}");
                }
            }
        }
    }
}
