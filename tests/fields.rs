//! The named fields of records against our JSON: for every capture, what a field says is what the JSON of the same record
//! says.

mod dnstap_support;

use dnstap_support::captured;
use serde_json::Value as Json;
use tapflow::dnstap::DnstapView;
use tapflow::fields::{Field, Subject, specs};
use tapflow::format::json;

/// A field's value as text.
fn text(field: &Field, subject: &mut Subject<'_>) -> Option<String> {
    let mut out = Vec::new();
    field.of(subject)?.write(&mut out);
    Some(String::from_utf8(out).unwrap())
}

/// What the JSON of a record says for a field; `None` is absent.
fn wanted(name: &str, record: &Json) -> Option<String> {
    let is_response = record["type"].as_str().unwrap().ends_with("RESPONSE");
    let dns = &record["dns"];
    let plain = |value: &Json| match value {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        // serde_json reads 0.001 as a floating point number.
        Json::Number(number) if number.is_f64() => Some(format!("{:.9}", number.as_f64().unwrap())),
        Json::Bool(flag) => Some(u8::from(*flag).to_string()),
        other => Some(other.to_string()),
    };
    let list = |values: Vec<String>, between: &str| {
        Some(values.join(between)).filter(|text| !text.is_empty())
    };
    let has_header = !dns["id"].is_null();
    let option = |code: u64| {
        let options = dns["edns"]["option_values"].as_array()?;
        let well_formed = |option: &&Json| option["code"] == code && option["malformed"].is_null();
        options.iter().find(well_formed)
    };
    let flags = || -> Vec<String> {
        let flags = dns["flags"].as_array().unwrap();
        flags
            .iter()
            .map(|flag| flag.as_str().unwrap().to_owned())
            .collect()
    };
    let side = if is_response { "response" } else { "query" };
    match name {
        "timestamp" => plain(&record[format!("{side}_time")]),
        "client" => plain(&record["query_address"]),
        "policy.type" => plain(&record["policy"]["type"]),
        "policy.rule" => plain(&record["policy"]["rule"]),
        "policy.action" => plain(&record["policy"]["action"]),
        "policy.match" => plain(&record["policy"]["match"]),
        "policy.value" => plain(&record["policy"]["value"]),
        "qname_labels" => {
            let name = dns["qname"].as_str()?;
            let escaped = name.matches("\\.").count();
            let dots = name.matches('.').count() - escaped;
            Some(if name == "." { 0 } else { dots }.to_string())
        }
        "rcode" if !is_response => None,
        "qname" | "qtype" | "qclass" | "opcode" | "id" | "rcode" => plain(&dns[name]),
        "flags" if has_header => Some(flags().join(" ")),
        "qr" | "aa" | "tc" | "rd" | "ra" | "z" | "ad" | "cd" if has_header => {
            Some(u8::from(flags().iter().any(|flag| flag == name)).to_string())
        }
        "flags" | "qr" | "aa" | "tc" | "rd" | "ra" | "z" | "ad" | "cd" => None,
        "do" | "udp_size" => plain(&dns["edns"][name]),
        "edns" => plain(&dns["edns"]["version"]),
        "questions" => plain(&dns["counts"]["qd"]),
        "answers" => plain(&dns["counts"]["an"]),
        "authorities" => plain(&dns["counts"]["ns"]),
        "additionals" => plain(&dns["counts"]["ar"]),
        "length" => plain(&record[format!("{side}_size")]),
        "edns_options" => {
            let codes = dns["edns"]["options"].as_array()?;
            list(codes.iter().map(Json::to_string).collect(), ",")
        }
        "ecs" => {
            let subnet = option(8)?;
            Some(format!(
                "{}/{}",
                plain(&subnet["address"])?,
                subnet["source_prefix"]
            ))
        }
        "nsid" => plain(&option(3)?["id"]),
        "cookie" => {
            let cookie = option(10)?;
            let part = |key: &str| cookie[key].as_str().unwrap_or_default().to_owned();
            Some(part("client") + &part("server"))
        }
        "ede" => plain(&option(15)?["info_code"]),
        "ede_text" => plain(&option(15)?["text"]),
        "rdata" => {
            let answers = dns["answers"].as_array()?;
            let data = |answer: &Json| answer["rdata"].as_str().unwrap().to_owned();
            list(answers.iter().map(data).collect(), ",")
        }
        "malformed" => {
            let odd = record["odd"].get(0).and_then(plain_text);
            plain(&dns["malformed"]["reason"]).or(odd)
        }
        "received" | "listener" | "peer" => plain(&record["source"][name]),
        _ => plain(&record[name]),
    }
}

fn plain_text(value: &Json) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[test]
fn every_field_says_of_every_captured_record_what_the_json_says() {
    let mut seen = vec![0; specs().len()];
    let mut records = 0;
    // Every seventh: senders send their kinds of records in turn, and a debug build is slow.
    for payload in captured().iter().step_by(7) {
        let view = DnstapView::parse(payload).unwrap();
        let mut line = Vec::new();
        json::write(&mut line, &view, &Default::default()).unwrap();
        let record: Json = serde_json::from_slice(&line).unwrap();
        records += 1;
        for (spec, seen) in specs().iter().zip(&mut seen) {
            // Each of a new subject, so that none leans on what another decoded.
            let value = text(&Field::Known(spec), &mut Subject::new(&view));
            assert_eq!(
                value,
                wanted(spec.name, &record),
                "{} of {record}",
                spec.name
            );
            *seen += usize::from(value.is_some());
        }
    }
    assert!(records > 1000, "{records} records");
    for (spec, seen) in specs().iter().zip(seen) {
        println!("{:<18}{seen:>6}", spec.name);
    }
}
