//! Invalid policies, each with the exact message.

use std::fmt::Write as _;

use policy::Program;

/// A text and its faults, one per line.
const REFUSED: &str = include_str!("refused.txt");

/// Texts and messages in the format of the file: a text, `=>` at the start of a line before each fault, a line of dashes.
fn cases() -> Vec<(String, Vec<String>)> {
    let case = |part: &str| {
        let (said, text): (Vec<&str>, Vec<&str>) =
            part.trim_matches('\n').lines().partition(|line| line.starts_with("=> "));
        (text.join("\n"), said.iter().map(|line| line[3..].to_owned()).collect())
    };
    REFUSED.split("\n----\n").map(case).collect()
}

#[test]
fn invalid_policies_are_refused_with_these_messages() {
    let cases = cases();
    assert!(cases.len() >= 60, "{} texts", cases.len());
    let mut wrong = String::new();
    for (text, expected) in cases {
        let said: Vec<String> = match Program::parse(&text) {
            Ok(_) => vec!["accepted".to_owned()],
            Err(faults) => faults.iter().map(ToString::to_string).collect(),
        };
        if said != expected {
            write!(wrong, "{text}\n=> {}\n----\n", said.join("\n=> ")).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn texts_that_are_too_long_or_too_deep_are_refused() {
    let long = "% x\n".repeat(20_000);
    let message = |text: &str| Program::parse(text).unwrap_err()[0].to_string();
    assert_eq!(message(&long), "line 1 column 1: the text has 80000 bytes; a policy has at most 65536");
    let deep = format!("p({}1{}).", "f(".repeat(100), ")".repeat(100));
    assert_eq!(message(&deep), "line 1 column 103: more than 50 terms inside each other; split the rule");
    assert_eq!(
        message(&format!("p({}1).", "-".repeat(100))),
        "line 1 column 52: more than 50 terms inside each other; split the rule"
    );
    assert_eq!(message("p(\"\0\")."), "line 1 column 4: a string cannot hold the character 0; remove it");
    let wide = format!("p({}).", vec!["1"; 40].join(","));
    assert_eq!(message(&wide), "line 1 column 1: `p` has 40 terms; a predicate has at most 32");
}

#[test]
fn texts_of_too_many_parts_are_refused() {
    let refused = |text: &str| {
        let faults = Program::parse(text).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].to_string()
    };
    // 64 KiB, the most that a text may have: each operation nests.
    let chain = format!("p({}1).", "1+".repeat(32_000));
    assert_eq!(refused(&chain), "line 1 column 102: more than 50 terms inside each other; split the rule");
    let chain = format!(":- p(X), X = {}1. p(1).", "1*".repeat(32_000));
    assert_eq!(refused(&chain), "line 1 column 113: more than 50 terms inside each other; split the rule");
    let body = format!(":- {}q. q.", "q, ".repeat(10_000));
    let more = "more than 64 conditions in one body; name some of them by a rule of their own";
    assert_eq!(refused(&body), format!("line 1 column 196: {more}"));
    let condition = format!("q. :- #count {{ 1 : {}q }} > 3.", "q, ".repeat(10_000));
    assert_eq!(refused(&condition), format!("line 1 column 212: {more}"));
    let set = format!("q. :- #count {{ {}1 }} > 3.", "1;".repeat(10_000));
    let split = "line 1 column 4: a statement of 20008 words and signs; at most 2000, split it";
    assert_eq!(refused(&set), split);
    let rules = format!("q. {}", "p:-q.".repeat(10_000));
    let most = "line 1 column 2504: more than 500 statements with a body; a policy has at most that many";
    assert_eq!(refused(&rules), most);
    let facts = "q.".repeat(20_000);
    let most =
        "line 1 column 10001: more than 5000 statements without a body; a policy has at most that many";
    assert_eq!(refused(&facts), most);
}

#[test]
fn valid_policies_are_accepted() {
    for text in [
        "",
        "% nothing but a comment",
        "limit(3). limit(1..5).",
        "far(A,B) :- run_on(A,U), run_on(B,V), cu_zone(U,Y), cu_zone(V,Z), Y != Z.",
        ":- run_on(A,U), not runnable_on(A,U).",
        ":- group(_,G), #count { A : run_on(A,_), group(A,G) } < 2.",
        ":~ run_on(A,U), cu_kind(U,\"gpu\"), work(A,\"gpu\",W). [W/2+1, A]",
        ":- cu(U), not #sum { W,A : run_on(A,U), workload(A,U,W); 5 : cu_kind(U,\"gpu\") } <= 100.",
        ":- unplaced(A), actor_label(A,\"tier\",\"live\").",
        ":- run_on(A,_), run_on(B,V) : msg_exch_rate(A,B,_), cu(V); actor_label(A,\"x\",\"y\").",
        "reach(A,B) :- msg_exch_rate(A,B,_). reach(A,C) :- reach(A,B), msg_exch_rate(B,C,_).",
        "forbid(a(\"shop\",\"app\",\"web-0\"),U) :- cu_kind(U,\"fpga\").",
        "apart(A,B,zone) :- group(A,G), group(B,G), A < B.",
        "n(X) :- X = 1..3. m(Y) :- n(X), Y = |X-5|*2\\3.",
        "pair((A,B)) :- msg_exch_rate(A,B,R), R >= 10. one((A,)) :- actor(A). :- pair((A,B)), run_on(A,U), run_on(B,U).",
        ":- 3 < #count { A : run_on(A,_) } <= 5.",
        "shop(A) :- actor(A), A = a(\"shop\",App,Name), Name != App.",
        "m(X) :- X+1 = #count { A : actor(A) }. l(X) :- X = #min { C : cu_slots(_,C) }.",
        ":- not N = #count { A : run_on(A,_) }, N = #count { U : cu(U) }.",
        "n(-3). m(X) :- n(-X). p(f(2,1)). q(X) :- p(f(X*2,X)), not p(f(_,-X)).",
    ] {
        if let Err(faults) = Program::parse(text) {
            panic!("{text}\n{faults:?}");
        }
    }
}
