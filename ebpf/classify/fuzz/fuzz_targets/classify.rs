//! Any octets are a frame: the classifier never panics and keeps its invariants.
#![no_main]

#[path = "../../tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    invariants::check(frame);
});
