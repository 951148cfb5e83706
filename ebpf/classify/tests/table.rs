//! The table, natively.

#[path = "table/mod.rs"]
mod table;

use plimsoll_classify::{Class, WINDOW, classify};

/// Classifies `frame` in a window that held `before`.
fn native(frame: &[u8], before: &[u8; WINDOW]) -> Class {
    let mut window = *before;
    let seen = frame.len().min(WINDOW);
    window[..seen].copy_from_slice(&frame[..seen]);
    classify(&window, frame.len() as u32)
}

#[test]
fn every_frame_is_what_the_table_says() {
    let mut wrong = Vec::new();
    let mut last = [0x11; WINDOW];
    for row in table::rows() {
        // What lies behind the frame's end must not matter: zeros, ones, and what an earlier frame left.
        for before in [[0x00; WINDOW], [0xFF; WINDOW], last] {
            let found = native(&row.frame, &before);
            if found != row.class {
                wrong.push(format!("{}\n  is    {found:?}\n  wants {:?}", row.name, row.class));
            }
        }
        let seen = row.frame.len().min(WINDOW);
        last[..seen].copy_from_slice(&row.frame[..seen]);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_table_is_as_large_as_it_should_be_and_names_are_unique() {
    let mut names: Vec<String> = table::rows().into_iter().map(|row| row.name).collect();
    assert!(table::whole().len() >= 150, "{} rows", table::whole().len());
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "two rows have the same name");
}
