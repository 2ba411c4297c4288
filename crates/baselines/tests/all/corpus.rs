//! Bounded run of the fuzz targets' harness over their corpus and mutations of it; `cargo fuzz` runs without end.

use std::path::Path;
use std::sync::LazyLock;

use placement::file::SnapshotFile;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

#[path = "../../../../fuzz/harness.rs"]
mod harness;

/// Every corpus file, by name.
static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut files: Vec<_> = ["plan", "snapshot"]
        .iter()
        .flat_map(|target| std::fs::read_dir(folder.join(target)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort_unstable();
    assert!(files.len() > 60, "{} files", files.len());
    files.into_iter().map(|file| std::fs::read(file).unwrap()).collect()
});

#[test]
fn no_corpus_file_causes_a_panic() {
    for file in CORPUS.iter() {
        harness::plan(file);
    }
}

/// Boundary numbers: of 32 bits, half of them, of file fields, and of sums.
const EDGES: [u64; 8] = [0, 1, (1 << 31) - 1, 1 << 32, 1 << 52, (1 << 53) - 1, 1 << 53, (1 << 53) + 1];

/// Every number of every document at two boundaries, one at a time; numbers that follow each other are at different ones.
#[test]
fn each_number_is_exact_or_rejected() {
    for file in CORPUS.iter() {
        let Some(document) = accepted(file) else { continue };
        let is_number = |path: &String| document.pointer(path).is_some_and(Value::is_u64);
        for (at, path) in paths(&document).into_iter().filter(is_number).enumerate() {
            for edge in EDGES.iter().skip(at % 4).step_by(4) {
                let mut changed = document.clone();
                *changed.pointer_mut(&path).unwrap() = json!(edge);
                harness::plan(changed.to_string().as_bytes());
            }
        }
    }
}

/// All numbers of every document except its version, scaled by one factor, up to where their sums are rejected.
#[test]
fn all_numbers_scaled_are_exact_or_rejected() {
    for file in CORPUS.iter() {
        let Some(document) = accepted(file) else { continue };
        for bits in (4..56).step_by(4) {
            harness::plan(larger(&document, bits).to_string().as_bytes());
        }
    }
}

/// Random snapshots, original and with numbers too large for clingo.
#[test]
fn random_snapshots_satisfy_all_invariants() {
    let worlds: [fn(u64) -> SnapshotFile; 3] = [testkit::world, testkit::over_full, testkit::grouped];
    for seed in 0..100 {
        for world in worlds {
            let document = serde_json::to_value(world(seed)).unwrap();
            for bits in [0, 30] {
                harness::plan(larger(&document, bits).to_string().as_bytes());
            }
        }
    }
}

/// A document that is a valid snapshot.
fn accepted(file: &[u8]) -> Option<Value> {
    harness::snapshot(file).map(|snapshot| serde_json::from_str(&snapshot.write()).unwrap())
}

/// The document with scaled numbers, except its version.
fn larger(document: &Value, bits: u32) -> Value {
    let mut larger = document.clone();
    for path in paths(document).iter().filter(|path| *path != "/version") {
        let value = larger.pointer_mut(path).unwrap();
        if let Some(number) = value.as_u64() {
            *value = json!(number.saturating_mul(1 << bits));
        }
    }
    larger
}

/// A mutation of bytes.
fn any_bytes() -> impl Strategy<Value = (Index, u8, Vec<u8>)> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..4),
        select(vec!["9007199254740993", "-1", "1e999", "null", "[[[[", "\"\"", "{}", "\\u0000", ",", "}"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ];
    (any::<Index>(), 0..9u8, piece)
}

/// A mutation of one value of a document.
fn any_value() -> impl Strategy<Value = (Index, Change)> {
    let change = prop_oneof![
        select(vec![
            json!(0),
            json!(1),
            json!(-1),
            json!(1.5),
            json!(1_u64 << 31),
            json!(1_u64 << 45),
            json!(9_007_199_254_740_991_u64),
            json!(9_007_199_254_740_992_u64),
            json!(u64::MAX),
            json!(1e300),
            json!(""),
            json!("n"),
            json!([]),
            json!({}),
            json!(null),
            json!(true),
        ])
        .prop_map(Change::Put),
        Just(Change::Remove),
        Just(Change::Twice),
        any::<Index>().prop_map(Change::CopyOf),
    ];
    (any::<Index>(), change)
}

#[derive(Clone, Debug)]
enum Change {
    Put(Value),
    Remove,
    Twice,
    CopyOf(Index),
}

/// Paths of all values in a document, as JSON pointers.
fn paths(value: &Value) -> Vec<String> {
    let below = |key: String, value: &Value| {
        let key = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        std::iter::once(key.clone())
            .chain(paths(value).into_iter().map(move |path| format!("{key}{path}")))
            .collect::<Vec<_>>()
    };
    match value {
        Value::Array(list) => list.iter().enumerate().flat_map(|(i, v)| below(i.to_string(), v)).collect(),
        Value::Object(map) => map.iter().flat_map(|(key, v)| below(key.clone(), v)).collect(),
        _ => Vec::new(),
    }
}

fn changed(document: &mut Value, at: Index, change: Change) {
    let paths = paths(document);
    if paths.is_empty() {
        return;
    }
    let path = at.get(&paths);
    let value = match change {
        Change::Put(value) => value,
        Change::CopyOf(other) => document.pointer(other.get(&paths).as_str()).unwrap().clone(),
        Change::Remove | Change::Twice => {
            let (parent, key) = path.rsplit_once('/').unwrap();
            let is_removal = matches!(change, Change::Remove);
            match document.pointer_mut(parent).unwrap() {
                Value::Array(list) if is_removal => _ = list.remove(key.parse().unwrap()),
                Value::Array(list) => list.push(list[key.parse::<usize>().unwrap()].clone()),
                Value::Object(map) if is_removal => {
                    _ = map.remove(&key.replace("~1", "/").replace("~0", "~"));
                }
                _ => {}
            }
            return;
        }
    };
    *document.pointer_mut(path).unwrap() = value;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn no_byte_mutation_causes_a_panic(file in any::<Index>(), changes in proptest::collection::vec(any_bytes(), 1..4)) {
        let mut bytes: Vec<u8> = file.get(&CORPUS).clone();
        for (at, cut, piece) in changes {
            let from = at.index(bytes.len() + 1);
            let to = (from + usize::from(cut)).min(bytes.len());
            bytes.splice(from..to, piece);
        }
        harness::plan(&bytes);
    }

    #[test]
    fn no_value_mutation_causes_a_panic(file in any::<Index>(), changes in proptest::collection::vec(any_value(), 1..4)) {
        let file: &Vec<u8> = file.get(&CORPUS);
        if let Ok(mut document) = serde_json::from_slice::<Value>(file) {
            for (at, change) in changes {
                changed(&mut document, at, change);
            }
            harness::plan(document.to_string().as_bytes());
        }
    }
}
