//! Writes the test table's frames as the fuzz target's first corpus.
//!
//! ```text
//! cargo run -p plimsoll-classify --example fuzz_seeds && cd ebpf/classify && cargo +nightly fuzz run classify
//! ```

#[path = "../tests/table/mod.rs"]
mod table;

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/classify");
    fs::create_dir_all(&corpus)?;
    let frames = table::whole();
    for (number, row) in frames.iter().enumerate() {
        fs::write(corpus.join(format!("table-{number:03}")), &row.frame)?;
    }
    println!("{} frames in {}", frames.len(), corpus.display());
    Ok(())
}
