//! `charts/cairn/files` holds copies of files from elsewhere in the tree, because Helm reads only files of the chart.
//! `docs/reference/chart-values.md` is generated from `values.yaml`.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// Each folder of the chart, and the folder its YAML files are copied from.
const COPIES: [(&str, &str); 2] =
    [("charts/cairn/files/crds", "crds/manifests"), ("charts/cairn/files/policies", "policies")];

#[test]
fn the_chart_contains_the_crds_and_policies() {
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

/// The YAML files of a folder by name; empty if there is no such folder.
fn manifests(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let is_manifest = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "yaml");
    let named = |file: PathBuf| {
        (file.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&file).unwrap())
    };
    files.filter(is_manifest).map(named).collect()
}

/// Table rows: each value of `values.yaml` with its default and its comment after `# --`.
fn values(text: &str) -> String {
    let (mut rows, mut comment, mut path) = (String::new(), String::new(), Vec::<(usize, &str)>::new());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if let Some(words) = line.strip_prefix('#') {
            let words = words.trim();
            match words.strip_prefix("-- ") {
                Some(first) => first.clone_into(&mut comment),
                None if !comment.is_empty() => comment = format!("{comment} {words}"),
                None => {}
            }
            continue;
        }
        let default = if let Some(item) = line.strip_prefix("- ") {
            format!("[{{{item}}}]")
        } else {
            let (name, default) = line.split_once(':').unwrap();
            path.retain(|(above, _)| *above < indent);
            path.push((indent, name));
            default.trim().to_owned()
        };
        if !default.is_empty() {
            let name = path.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(".");
            writeln!(rows, "| `{name}` | `{default}` | {} |", std::mem::take(&mut comment)).unwrap();
        }
    }
    rows
}

#[test]
fn the_reference_lists_every_chart_value() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let rows = values(&fs::read_to_string(root.join("charts/cairn/values.yaml")).unwrap());
    let page = format!(
        "<!-- Generated from charts/cairn/values.yaml by e2e/tests/chart_files.rs. -->\n# Chart values\n\n\
         The chart refuses values that are not listed here.\n\n| value | default | description |\n|---|---|---|\n{rows}"
    );
    let file = root.join("docs/reference/chart-values.md");
    if fs::read_to_string(&file).ok().as_deref() != Some(&page) {
        fs::write(&file, page).unwrap();
        panic!("values.yaml changed, so docs/reference/chart-values.md was written anew; commit it");
    }
}
