//! Accuracy and speed, each figure by one command.

fn main() {}
