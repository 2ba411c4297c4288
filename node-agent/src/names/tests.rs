//! The names keep to Prometheus' conventions, and the documentation has them.

use std::{fs, path::Path};

use crds::metrics::{broken_conventions, documented};

use super::{AGENT, application::APPLICATION};

#[test]
fn names_keep_to_the_conventions() {
    assert_eq!(broken_conventions(AGENT, "cairn_"), Vec::<String>::new());
    assert_eq!(broken_conventions(APPLICATION, "actor_"), Vec::<String>::new());
}

#[test]
fn the_documentation_has_every_name() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let text = fs::read_to_string(&file).unwrap();
    let wanted = documented(&text, "agent", AGENT).expect("a table `agent`");
    let wanted = documented(&wanted, "application", APPLICATION).expect("a table `application`");
    if wanted != text {
        fs::write(&file, wanted).unwrap();
        panic!(
            "the names changed, so docs/metrics.md was written anew; look at the difference and commit it"
        );
    }
}
