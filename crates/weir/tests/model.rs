//! A capture that is generated from a model gives that model again.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::weir;

fn fit(name: &str, parameters: Value, max: f64) -> Value {
    let mut fit = parameters;
    fit["name"] = json!(name);
    let fitted = json!({ "fit": fit, "distance": 0.0, "p": 1.0 });
    json!({ "count": 1, "mean": 1.0, "min": 0.0, "max": max, "quantiles": [], "fits": [fitted] })
}

/// The model: one of each distribution.
fn model() -> Value {
    json!({ "v": 1, "groups": [{
        "protocol": "tcp played", "from": "inside", "to": "outside", "ip_proto": 6, "port": 7777, "flows": 1,
        "quantities": {
            "flow_gap": fit("exponential", json!({ "rate": 10.0 }), 1e3),
            "requests": fit("lognormal", json!({ "mu": 1.5, "sigma": 0.5 }), 1e3),
            "request_size": fit("weibull", json!({ "scale": 600.0, "shape": 1.4 }), 1e6),
            "response_size": fit("lognormal", json!({ "mu": 6.5, "sigma": 1.0 }), 1e8),
            "wait": fit("lognormal", json!({ "mu": -5.0, "sigma": 0.8 }), 1e3),
            "think": fit("pareto", json!({ "scale": 0.02, "shape": 2.5 }), 1e3),
            "round_trip": fit("lognormal", json!({ "mu": -4.0, "sigma": 0.4 }), 1e3),
        } }] })
}

fn play(model: &Path, to: &Path, seed: &str) {
    let [model, to] = [model, to].map(|path| path.to_str().expect("a plain path"));
    weir(["generate", model, "-o", to, "--seconds", "400", "--seed", seed]).exits(0);
}

/// The shares exceed five standard errors of each estimate with some 4,000 flows and 20,000 requests, plus the effects
/// of whole bytes and of flows truncated at the end.
const TOLERANCE: [(&str, &str, f64); 7] = [
    ("flow_gap", "exponential", 0.08),
    ("requests", "lognormal", 0.08),
    ("request_size", "weibull", 0.05),
    ("response_size", "lognormal", 0.05),
    ("wait", "lognormal", 0.05),
    ("think", "pareto", 0.08),
    ("round_trip", "lognormal", 0.08),
];

#[test]
fn a_generated_capture_gives_its_model() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("in.json"), model().to_string()).expect("the model is written");
    for name in ["one.pcap", "two.pcap"] {
        play(&path("in.json"), &path(name), "5");
    }
    play(&path("in.json"), &path("three.pcap"), "6");
    let [one, two, three] =
        ["one.pcap", "two.pcap", "three.pcap"].map(|name| std::fs::read(path(name)).expect("a capture"));
    assert!(one == two && one != three, "equal captures need equal seeds");

    let names =
        ["one.pcap", "page.html", "out.json", "csv"].map(|name| path(name).to_string_lossy().into_owned());
    let [capture, page, out, csv] = names.each_ref().map(String::as_str);
    weir(["report", capture, "-o", page, "--model", out, "--csv", csv]).exits(0);
    let found: Value = serde_json::from_slice(&std::fs::read(out).expect("a model")).expect("JSON");
    let groups = found["groups"].as_array().expect("groups");
    // A flow truncated at the end may resemble another kind.
    assert!(groups.len() <= 3, "{}", groups.len());
    let (generated, wanted) = (&groups[0], &model()["groups"][0]);
    assert!(generated["flows"].as_u64() > Some(3600), "{}", generated["flows"]);
    for (quantity, distribution, tolerance) in TOLERANCE {
        let was = &wanted["quantities"][quantity]["fits"][0]["fit"];
        let fits = generated["quantities"][quantity]["fits"].as_array().expect("fits");
        let is = fits.iter().map(|fitted| &fitted["fit"]).find(|fit| fit["name"] == distribution);
        let is = is.expect("each distribution is fitted");
        for (name, value) in was.as_object().expect("parameters").iter().filter(|(name, _)| *name != "name") {
            let [was, is] = [value, &is[name]].map(|value| value.as_f64().expect("a number"));
            assert!((is / was - 1.0).abs() < tolerance, "{quantity} {name}: {was} became {is}");
        }
    }
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("<svg") && page.ends_with("</html>\n") && !page.contains("<script"));
    for name in ["distributions.csv", "fits.csv"] {
        assert!(std::fs::read_to_string(path("csv").join(name)).expect("CSV").contains(",think,s,"));
    }
}

#[test]
fn an_invalid_model_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("in.json");
    let out = directory.path().join("out.pcap");
    let [file, out] = [&path, &out].map(|path| path.to_str().expect("a plain path"));
    let mut sigma = model();
    sigma["groups"][0]["quantities"]["wait"]["fits"][0]["fit"]["sigma"] = json!(-1.0);
    let mut version = model();
    version["v"] = json!(9);
    for bad in [json!({}), json!({ "v": 1, "groups": [] }), version, sigma] {
        std::fs::write(&path, bad.to_string()).expect("the model is written");
        weir(["generate", file, "-o", out]).exits(1);
    }
}
