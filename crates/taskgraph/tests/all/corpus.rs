//! Bounded run of the fuzz target's harness over its corpus and mutations of it; `cargo fuzz` runs without end.

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::{Index, select};

#[path = "../../../../fuzz/taskgraph.rs"]
mod harness;

/// Every corpus file, by name.
static CORPUS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/taskgraph");
    let entries = std::fs::read_dir(folder).expect("the corpus is there");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort_unstable();
    assert!(files.len() >= 9, "{} files", files.len());
    files.into_iter().map(|file| std::fs::read(file).expect("a file")).collect()
});

#[test]
fn no_corpus_file_causes_a_panic() {
    CORPUS.iter().for_each(|file| harness::taskgraph(file));
}

/// A mutation: position, number of bytes removed, bytes inserted.
fn any_change() -> impl Strategy<Value = (Index, u8, Vec<u8>)> {
    let words = vec![
        "9007199254740993",
        "-1",
        "1e999",
        ".nan",
        "null",
        "[[[[",
        "\"\"",
        "{}",
        "\\u0000",
        ",",
        "}",
        "0",
        "\n- ",
        ": ",
        "&a ",
        "*a",
        "1e300",
        "cpu",
        "parallel",
        "measured",
        "work",
    ];
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..4),
        select(words).prop_map(|text| text.as_bytes().to_vec()),
    ];
    (any::<Index>(), 0..9_u8, piece)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_byte_mutation_causes_a_panic(file in any::<Index>(), changes in proptest::collection::vec(any_change(), 1..4)) {
        let mut bytes: Vec<u8> = file.get(&CORPUS).clone();
        for (at, cut, piece) in changes {
            let from = at.index(bytes.len() + 1);
            let to = (from + usize::from(cut)).min(bytes.len());
            bytes.splice(from..to, piece);
        }
        harness::taskgraph(&bytes);
    }
}
