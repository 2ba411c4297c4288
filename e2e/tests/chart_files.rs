//! `charts/cairn/files` holds what the chart takes from elsewhere in the tree: Helm reads nothing outside a chart.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Each folder of the chart, and the folder that its YAML files come from.
const COPIES: [(&str, &str); 2] =
    [("charts/cairn/files/crds", "crds/manifests"), ("charts/cairn/files/policies", "policies")];

#[test]
fn the_chart_holds_the_definitions_and_the_policies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut changed = Vec::new();
    for (copy, source) in COPIES {
        let wanted = manifests(&root.join(source));
        assert!(!wanted.is_empty(), "no manifest in {source}");
        let held = manifests(&root.join(copy));
        fs::create_dir_all(root.join(copy)).unwrap();
        for (name, text) in wanted.iter().filter(|(name, text)| held.get(*name) != Some(text)) {
            fs::write(root.join(copy).join(name), text).unwrap();
            changed.push(format!("{copy}/{name}"));
        }
        for name in held.keys().filter(|name| !wanted.contains_key(*name)) {
            fs::remove_file(root.join(copy).join(name)).unwrap();
            changed.push(format!("{copy}/{name}"));
        }
    }
    assert!(
        changed.is_empty(),
        "the chart's copies were out of date and are now right; commit the result: {changed:?}"
    );
}

/// The YAML files of a folder, by name; none when there is no such folder.
fn manifests(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let is_manifest = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "yaml");
    let named = |file: PathBuf| {
        (file.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&file).unwrap())
    };
    files.filter(is_manifest).map(named).collect()
}
