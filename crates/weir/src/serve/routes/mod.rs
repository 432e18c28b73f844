//! The list of routes. The router and the OpenAPI document are generated from it.

mod alerts;
pub mod asked;
mod dumps;
mod filter;
mod flows;
mod history;
mod lists;
mod mutes;
mod packets;
mod plan;
mod query;
mod sensor;
mod settings;
mod signatures;
mod subscriptions;
pub mod table;
mod tables;

use super::app::Shared;
use super::rights::Right;
use super::security::{Door, admit};
use super::{live, pages};
use axum::Router;
use axum::handler::Handler;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::MethodRouter;
use std::sync::Arc;
use utoipa::openapi::path::{ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, Ref, RefOr, Required, ResponseBuilder};
use utoipa::{Modify, OpenApi};

pub use asked::Ask;
pub use settings::{MAX_CHANGES, MAX_CHECKS, MAX_CHECKS_OF_ONE};
pub use subscriptions::sweep;

/// A route of the HTTP interface. Every field is required, the right too: a route without one does not compile.
pub struct Route {
    /// `get`, `post` or `delete`.
    pub method: &'static str,
    /// The path, in which `{id}` stands for a part.
    pub path: &'static str,
    /// The right that a client needs; `None` if every client is answered.
    pub right: Option<Right>,
    serve: fn() -> MethodRouter<Shared>,
}

/// The right in a line of the list.
macro_rules! right {
    (anyone) => {
        None
    };
    (look) => {
        Some(Right::Look)
    };
    (packets) => {
        Some(Right::Packets)
    };
    (write) => {
        Some(Right::Write)
    };
}

macro_rules! served {
    ($($right:ident $method:ident $path:literal $($handler:ident)::+;)+) => {
        /// All routes.
        pub static ROUTES: &[Route] = &[$(Route {
            method: stringify!($method),
            path: $path,
            right: right!($right),
            serve: || axum::routing::$method($($handler)::+),
        }),+];

        /// Source of the OpenAPI document.
        #[derive(OpenApi)]
        #[openapi(
            info(
                title = "Weir",
                description = "Data of a passive network monitor. The pages use this interface and no other. \
                    Times are seconds since the epoch, rates are per second. `partial` explains what a limit has omitted. \
                    Strings may contain arbitrary text from packets; they are never markup.",
                version = "1",
                license(name = "MIT OR Apache-2.0")
            ),
            paths($($($handler)::+),+),
            modifiers(&Rights, &Formats, &Answers)
        )]
        pub struct Document;
    };
}

served! {
    look get "/api/v1/status" sensor::status;
    look get "/api/v1/sensor" sensor::sensor;
    look get "/api/v1/events" mutes::events;
    write post "/api/v1/events/acknowledge" mutes::acknowledge;
    look get "/api/v1/mutes" mutes::mutes;
    write post "/api/v1/mutes" mutes::mute;
    look post "/api/v1/mutes/preview" mutes::preview_mute;
    write delete "/api/v1/mutes/{number}" mutes::unmute;
    look get "/api/v1/charts" history::charts;
    look get "/api/v1/series" history::series;
    look get "/api/v1/range" history::range;
    look get "/api/v1/series/data" history::data;
    look get "/api/v1/series/band" history::band;
    look get "/api/v1/lists" lists::lists;
    look get "/api/v1/top" lists::top;
    look get "/api/v1/tables" tables::tables;
    look get "/api/v1/paths" lists::paths;
    look get "/api/v1/distinct" lists::distinct;
    look get "/api/v1/new" lists::news;
    look get "/api/v1/findings" lists::findings;
    look get "/api/v1/alerts" alerts::alerts;
    look get "/api/v1/signatures" signatures::signatures;
    look get "/api/v1/query" query::query;
    look get "/api/v1/flows" flows::flows;
    look get "/api/v1/flows/{id}" flows::flow;
    look get "/api/v1/protocols" flows::protocols;
    look get "/api/v1/records/{table}" flows::records;
    look get "/api/v1/filter" filter::filter;
    look get "/api/v1/fields" filter::fields;
    look get "/api/v1/filter/try" filter::attempt;
    look get "/api/v1/plan" plan::plan;
    look get "/api/v1/functions" plan::functions;
    look get "/api/v1/config" settings::config;
    look post "/api/v1/config/check" settings::check;
    write post "/api/v1/config/apply" settings::apply;
    look get "/api/v1/subscriptions" subscriptions::list;
    write post "/api/v1/subscriptions" subscriptions::add;
    look get "/api/v1/subscriptions/{id}" subscriptions::one;
    write delete "/api/v1/subscriptions/{id}" subscriptions::remove;
    packets get "/api/v1/packets" packets::packets;
    packets get "/api/v1/packets/size" packets::size;
    look get "/api/v1/dumps" dumps::dumps;
    packets get "/api/v1/dumps/{name}" dumps::dump;
    write delete "/api/v1/dumps/{name}" dumps::remove_dump;
    look get "/api/v1/live" live::live;
    look get "/api/openapi.json" document;
    look get "/metrics" sensor::metrics;
    anyone get "/healthz" sensor::health;
}

/// A router with all routes, each after its check of rights.
pub fn router(app: &Shared) -> Router<Shared> {
    let door = |route: &'static str, right| Door { app: Arc::clone(app), route, right };
    let page = pages::page.layer(from_fn_with_state(door("", Some(Right::Look)), admit));
    ROUTES.iter().fold(Router::new().fallback(page), |router, route| {
        let serve = (route.serve)();
        let is_table = table::TABLES.contains(&route.path) && !table::STREAMED.contains(&route.path);
        let serve = if is_table { serve.layer(from_fn(table::answer)) } else { serve };
        let behind = serve.layer(from_fn_with_state(door(route.path, route.right), admit));
        router.route(route.path, behind)
    })
}

/// Writes the right of each route into the document: as the role of its security requirement, and as `x-right`.
struct Rights;

impl Modify for Rights {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let token = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("A token of --token-file; not needed on loopback if none is configured"))
            .build();
        let password = HttpBuilder::new()
            .scheme(HttpAuthScheme::Basic)
            .description(Some("A user of --user-file, or any name and a token"))
            .build();
        components.add_security_scheme("token", SecurityScheme::Http(token));
        components.add_security_scheme("password", SecurityScheme::Http(password));
        for route in ROUTES {
            let Some(item) = document.paths.paths.get_mut(route.path) else { continue };
            let operation = match route.method {
                "post" => &mut item.post,
                "delete" => &mut item.delete,
                _ => &mut item.get,
            };
            let Some(operation) = operation else { continue };
            let word = route.right.map_or("none", Right::word);
            operation.extensions.get_or_insert_default().insert("x-right".to_owned(), word.into());
            let Some(right) = route.right else { continue };
            let by = |scheme: &str| SecurityRequirement::new(scheme, [right.word()]);
            operation.security = Some(vec![by("token"), by("password")]);
            for (status, when) in [
                ("401", "No user or token was given, or it is wrong".to_owned()),
                ("403", format!("The client does not have the right `{}`", right.word())),
            ] {
                let body = Content::new(Some(Ref::from_schema_name("Failure")));
                let refusal =
                    ResponseBuilder::new().description(when).content("application/json", body).build();
                operation.responses.responses.insert(status.to_owned(), RefOr::T(refusal));
            }
        }
    }
}

/// Writes the parameter `format` of routes whose answers have rows into the document, and the types of these answers.
struct Formats;

impl Modify for Formats {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        for path in table::TABLES {
            let Some(operation) = document.paths.paths.get_mut(*path).and_then(|item| item.get.as_mut())
            else {
                continue;
            };
            let formats = table::Format::ALL.map(|(name, _)| name);
            let schema = ObjectBuilder::new()
                .schema_type(SchemaType::Type(Type::String))
                .enum_values(Some(["json"].into_iter().chain(formats)));
            let parameter = ParameterBuilder::new()
                .name(table::PARAMETER)
                .parameter_in(ParameterIn::Query)
                .required(Required::False)
                .description(Some("`csv` or `ndjson` for the rows alone; the header `x-weir-partial` has what they leave out"))
                .schema(Some(schema.build()));
            operation.parameters.get_or_insert_default().push(RefOr::T(parameter.build()));
            let Some(RefOr::T(answer)) = operation.responses.responses.get_mut("200") else { continue };
            for (_, format) in table::Format::ALL {
                let media = format.media().split(';').next().unwrap_or_default();
                let text = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
                answer.content.insert(media.to_owned(), RefOr::T(Content::new(Some(text.build()))));
            }
        }
    }
}

/// Describes the answers that their routes do not describe: those of success by the description of their body.
struct Answers;

impl Modify for Answers {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let schemas = document.components.get_or_insert_default().schemas.clone();
        let described = |content: &Content| {
            let Some(RefOr::Ref(body)) = &content.schema else { return None };
            let name = body.ref_location.rsplit('/').next()?;
            let schema = serde_json::to_value(schemas.get(name)?).ok()?;
            Some(schema.get("description")?.as_str()?.to_owned())
        };
        let items = document.paths.paths.values_mut();
        for operation in items.flat_map(|item| [&mut item.get, &mut item.post, &mut item.delete]).flatten() {
            for (status, answer) in &mut operation.responses.responses {
                let RefOr::T(answer) = answer else { continue };
                if !answer.description.is_empty() {
                    continue;
                }
                let body = answer.content.values().find_map(|content| match content {
                    RefOr::T(content) => described(content),
                    RefOr::Ref(_) => None,
                });
                answer.description = match status.as_str() {
                    "200" => body.unwrap_or_else(|| "The answer.".to_owned()),
                    "400" => {
                        "The request is invalid; the body contains the error and what is accepted.".to_owned()
                    }
                    "403" => "The client does not have the right.".to_owned(),
                    "404" => "No such object.".to_owned(),
                    _ => "Temporarily unavailable.".to_owned(),
                };
            }
        }
    }
}

/// The OpenAPI document of this interface.
#[utoipa::path(get, path = "/api/openapi.json", responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub async fn document() -> axum::Json<utoipa::openapi::OpenApi> {
    axum::Json(Document::openapi())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn served_paths_equal_documented_paths() {
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
            ROUTES.iter().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
        assert_eq!(served, documented);
        assert_eq!(served.len(), ROUTES.len(), "a route is listed twice");
    }

    /// Routes with payload need `packets`, routes that change anything need `write`, and only the health check needs
    /// no right.
    #[test]
    fn each_route_has_its_right_and_the_document_lists_it() {
        let document = serde_json::to_value(Document::openapi()).unwrap();
        for route in ROUTES {
            let expected = match (route.method, route.path) {
                (_, "/healthz") => None,
                (_, path) if path.starts_with("/api/v1/packets") => Some(Right::Packets),
                ("get", "/api/v1/dumps/{name}") => Some(Right::Packets),
                (
                    "post",
                    "/api/v1/config/apply"
                    | "/api/v1/subscriptions"
                    | "/api/v1/mutes"
                    | "/api/v1/events/acknowledge",
                )
                | ("delete", _) => Some(Right::Write),
                _ => Some(Right::Look),
            };
            assert_eq!(route.right, expected, "{}", route.path);
            let operation = &document["paths"][route.path][route.method];
            let word = expected.map_or("none", Right::word);
            assert_eq!(operation["x-right"], word, "{}", route.path);
            match expected {
                Some(_) => {
                    let roles = serde_json::json!([{"token": [word]}, {"password": [word]}]);
                    assert_eq!(operation["security"], roles, "{}", route.path);
                    assert!(
                        operation["responses"]["403"].is_object()
                            && operation["responses"]["401"].is_object()
                    );
                }
                None => assert!(operation["security"].is_null()),
            }
        }
        for scheme in ["token", "password"] {
            assert_eq!(document["components"]["securitySchemes"][scheme]["type"], "http");
        }
    }

    /// All references in the document resolve, and every route, parameter and field has a description.
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
                let is_good = |status| operation["responses"][status].is_object();
                assert!(is_good("200") || is_good("204"), "{method} {path}");
                for (status, answer) in operation["responses"].as_object().unwrap() {
                    assert!(answer["description"].is_string(), "{method} {path} {status}");
                }
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    assert!(parameter["description"].is_string(), "{method} {path} {parameter}");
                }
            }
        }
    }
}
