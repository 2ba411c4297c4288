//! The metrics follow Prometheus' conventions and are documented.

use std::{fs, path::Path};

use metric_names::{
    agent::AGENT, application::APPLICATION, convention_violations, operator::OPERATOR, update_table,
};

#[test]
fn metrics_follow_the_conventions() {
    for (names, prefix) in [(AGENT, "cairn_"), (APPLICATION, "actor_"), (OPERATOR, "cairn_")] {
        assert_eq!(convention_violations(names, prefix), Vec::<String>::new());
    }
}

#[test]
fn documentation_lists_every_metric() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let text = fs::read_to_string(&file).unwrap();
    let mut wanted = text.clone();
    for (list, names) in [("agent", AGENT), ("application", APPLICATION), ("operator", OPERATOR)] {
        wanted = update_table(&wanted, list, names)
            .unwrap_or_else(|| panic!("docs/reference/metrics.md has no table `{list}`"));
    }
    if wanted != text {
        fs::write(&file, wanted).unwrap();
        panic!("the metrics changed; commit the regenerated docs/reference/metrics.md");
    }
}
