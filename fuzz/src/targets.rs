//! The targets by name.

mod agent_request;
mod client_hello;
mod connect_call;
mod control_path;
mod cursor;
mod destination;
mod dns;
mod dockerfile;
mod frames;
mod image_layer;
mod metadata_filter;
mod negotiation;
mod path;
mod planted;
mod request_frames;
mod signature;
mod signed_url;
mod upload;
mod zmtp;

/// Tries one input. Panics if a promise is broken.
pub(crate) type Target = fn(&[u8]);

const TARGETS: &[(&str, Target)] = &[
    ("agent_request", agent_request::check),
    ("client_hello", client_hello::check),
    ("connect_call", connect_call::check),
    ("control_path", control_path::check),
    ("cursor", cursor::check),
    ("dns", dns::check),
    ("dockerfile", dockerfile::check),
    ("frames", frames::check),
    ("image_layer", image_layer::check),
    ("metadata_filter", metadata_filter::check),
    ("negotiation", negotiation::check),
    ("path", path::check),
    ("planted", planted::check),
    ("request_frames", request_frames::check),
    ("signature", signature::check),
    ("signed_url", signed_url::check),
    ("upload", upload::check),
    ("destination", destination::check),
    ("zmtp", zmtp::check),
];

/// The target that `--target=<name>` among the arguments asks for.
pub(crate) fn named_in(mut arguments: impl Iterator<Item = String>) -> Target {
    let name = arguments.find_map(|argument| Some(argument.strip_prefix("--target=")?.to_owned()));
    let found = TARGETS
        .iter()
        .find(|(known, _)| Some(*known) == name.as_deref());
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    found
        .unwrap_or_else(|| panic!("say --target= and one of {}", names.join(", ")))
        .1
}
