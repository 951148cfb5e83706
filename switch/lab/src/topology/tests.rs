use super::*;

fn refusal(text: &str) -> String {
    Topology::parse("lab.toml", text, &Overrides::default()).map(drop).unwrap_err().to_string()
}

#[test]
fn built_in_labs_are_good() {
    for lab in BUILT_IN {
        let topology = Topology::load(lab.name, &Overrides::default()).unwrap();
        assert_eq!(topology.name, lab.name);
        assert_eq!(topology.warnings, Vec::<String>::new(), "{}", lab.name);
        assert!(topology.description.is_some());
    }
}
