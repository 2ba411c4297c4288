//! The names keep to Prometheus' conventions, and the documentation has them.

use std::{fs, path::Path};

use metric_names::{
    agent::AGENT, application::APPLICATION, broken_conventions, documented, operator::OPERATOR,
};

#[test]
fn names_keep_to_the_conventions() {
    for (names, prefix) in [(AGENT, "cairn_"), (APPLICATION, "actor_"), (OPERATOR, "cairn_")] {
        assert_eq!(broken_conventions(names, prefix), Vec::<String>::new());
    }
}

#[test]
fn the_documentation_has_every_name() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let text = fs::read_to_string(&file).unwrap();
    let mut wanted = text.clone();
    for (list, names) in [("agent", AGENT), ("application", APPLICATION), ("operator", OPERATOR)] {
        wanted = documented(&wanted, list, names)
            .unwrap_or_else(|| panic!("docs/reference/metrics.md has no table `{list}`"));
    }
    if wanted != text {
        fs::write(&file, wanted).unwrap();
        panic!(
            "the names changed, so docs/reference/metrics.md was written anew; look at the difference and commit it"
        );
    }
}
