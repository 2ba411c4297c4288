//! Bounded run of the fuzz target of policies over its corpus and over hostile ConfigMaps; `cargo fuzz` runs without end.

use std::path::Path;
use std::process::Command;
use std::thread;

#[path = "../../../../fuzz/policy.rs"]
mod harness;

/// A thread of the operator's runtime has four times as much.
const STACK: usize = 512 << 10;

/// The address space of the process that reads hostile texts, in KiB.
const MEMORY: &str = "2097152";

/// Set in that process.
const IS_LIMITED: &str = "CAIRN_TEST_MEMORY_IS_LIMITED";

fn on_a_small_stack(texts: Vec<String>) {
    let read = move || texts.iter().for_each(|text| harness::policy(text.as_bytes()));
    thread::Builder::new().stack_size(STACK).spawn(read).unwrap().join().expect("no text causes a panic");
}

fn corpus() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/policy");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    assert!(files.len() >= 6, "{} files", files.len());
    files.into_iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// What a program can be made of, often enough to fill it.
const PIECES: [(&str, &str, &str); 17] = [
    ("p(", "1+", "1)."),
    (":- X = ", "1*", "1, X > 0."),
    ("p(", "f(", "1"),
    ("p(", "(", "1"),
    ("p(", "-", "1)."),
    ("p(", "|", "1"),
    ("q. :- ", "q, ", "q."),
    ("q. :- #count { ", "1;", "1 } > 3."),
    ("q. :- #count { 1 : ", "q,", "q } > 3."),
    ("q. ", "p :- q. ", ""),
    ("", "q.", ""),
    ("", "p(1..10000).", ""),
    ("", "p(1..10000,1..10000).", ""),
    ("", ":- X = 1..10000, Y = 1..10000, f(X,Y) = g(X,Y).", ""),
    ("", "a :- a.", ""),
    ("forbid(A,U) :- actor(A), cu(U)", ", not fixed(A)", "."),
    (":- ", "run_on(_,_), ", "run_on(_,_)."),
];

/// The same of parameters.
const PARAMETERS: [(&str, &str, &str); 6] = [
    ("objectives: ", "[", ""),
    ("exchangeCost: {kinds: ", "{a: ", "1"),
    ("window: ", "9", "s"),
    ("budget: {wall: 1", "0", "s, memory: 1"),
    ("budget: {memory: 1", "0", "}"),
    ("moveCost: {fixed: 9", "9", "}"),
];

#[test]
fn no_policy_of_the_corpus_causes_a_panic() {
    on_a_small_stack(corpus());
}

#[test]
fn no_hostile_policy_exceeds_its_stack_or_memory() {
    if std::env::var_os(IS_LIMITED).is_none() {
        let limited = Command::new("sh")
            .args(["-c", &format!("ulimit -v {MEMORY} && exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "corpus::no_hostile_policy_exceeds_its_stack_or_memory"])
            .env(IS_LIMITED, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&limited.stdout);
        assert!(limited.status.success() && said.contains("1 passed"), "{limited:?}");
        return;
    }
    let repeated = |key: &'static str, (before, piece, after): (&str, &str, &str)| {
        let all = [1, 49, 50, 63, 1_000, (64 << 10) / piece.len() - 16, (1 << 20) / piece.len()];
        let text = |times: usize| format!("## {key}\n{before}{}{after}\n", piece.repeat(times));
        all.map(text)
    };
    let programs = PIECES.into_iter().flat_map(|piece| repeated("program.lp", piece));
    let parameters = PARAMETERS.into_iter().flat_map(|piece| repeated("policy.yaml", piece));
    on_a_small_stack(programs.chain(parameters).collect());
}

/// Each text of the corpus, cut at each byte and with one character more there.
#[test]
fn no_cut_or_inserted_character_causes_a_panic() {
    let changed = corpus().into_iter().flat_map(|text| {
        let cuts = (0..text.len()).step_by(3).filter(|at| text.is_char_boundary(*at)).collect::<Vec<_>>();
        cuts.into_iter().zip("().,:-{}#~|_A1\"[]%;".chars().cycle()).flat_map(move |(at, more)| {
            [text[..at].to_owned(), format!("{}{more}{}", &text[..at], &text[at..])]
        })
    });
    on_a_small_stack(changed.collect());
}
