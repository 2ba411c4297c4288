//! Facts about pairs of actors that channels between groups connect.

use placement::ix::{ActorIx, UnitIx};
use placement::{Assignment, Snapshot};
use policy::Policy;

/// A number of movable actors of one group, and of fixed actors of two groups of another application, on one unit, with
/// channels and drag.
fn world(own: usize, others: usize) -> Snapshot {
    let actors = |id: &str, group: &str, many: usize, more: &str| -> Vec<String> {
        let actor = |at| format!(r#"{{"id":"{id}-{at}","group":"{group}","runsOn":{{"cpu":1}}{more}}}"#);
        (0..many).map(actor).collect()
    };
    let fixed = r#","fixed":true,"current":"u""#;
    let all = [
        actors("n/own/w", "w", own, ""),
        actors("m/other/x", "x", others, fixed),
        actors("m/other/y", "y", others, fixed),
    ];
    let channel = |from: &str, to: &str, count: u64, drag: u64| {
        format!(r#"{{"from":"{from}","to":"{to}","count":{count},"drag":{drag}}}"#)
    };
    let channels = [
        channel("m/other/x", "m/other/y", 3, 4),
        channel("n/own/w", "m/other/x", 2, 1),
        channel("n/own/w", "n/own/w", 1, 5),
    ];
    let program = ":- run_on(A,U), run_on(B,U), msg_exch_rate(A,B,R), mutual_annoyance(A,B,N), R > N.";
    let text = format!(
        r#"{{"version":1,"units":[{{"id":"u","kind":"cpu","node":"n","capacity":9}}],"actors":[{}],
            "messages":[{{"from":"n/own/w-0","to":"m/other/x-0","count":7}},
                        {{"from":"n/own/w-0","to":"m/other/y-0","count":8}}],
            "groupMessages":[{}],"exchangeCost":{{"otherKind":1}},"policy":{{"name":"p","program":"{program}"}}}}"#,
        all.concat().join(","),
        channels.join(",")
    );
    Snapshot::read(&text).unwrap()
}

/// The facts about pairs, or why there are none.
fn pairs(snapshot: &Snapshot) -> Result<Vec<String>, String> {
    let policy = Policy::of(snapshot).unwrap().unwrap();
    let there: Assignment = ActorIx::first(snapshot.actors()).map(|_| Some(UnitIx::new(0))).collect();
    let facts = policy.question(&there).map_err(|problem| problem.to_string())?.facts;
    let of_pairs = |line: &&str| line.contains("msg_exch_rate") || line.contains("mutual_annoyance");
    Ok(facts.lines().filter(of_pairs).map(str::to_owned).collect())
}

/// Group channels are read as the pairs that they stand for, except those between foreign actors.
#[test]
fn group_channels_are_read_as_pairs_of_own_actors() {
    let written = world(3, 4);
    let whole = Snapshot::with_most_pairs(written.file().clone(), 0).unwrap();
    assert!(!written.problem().channels.are_whole() && whole.problem().channels.are_whole());
    assert_eq!((whole.problem().channels.pairs, whole.problem().channels.open_pairs), (16 + 12 + 3, 12 + 3));
    let is_own = |fact: &String| fact.contains("own");
    let expected: Vec<String> = pairs(&written).unwrap().into_iter().filter(is_own).collect();
    // Each pair with its rate and its drag, and one explicit message more.
    assert_eq!(expected.len(), 2 * (12 + 3) + 1);
    assert_eq!(pairs(&whole).unwrap(), expected);
}

#[test]
fn channels_of_other_applications_cause_no_refusal() {
    let said = pairs(&world(2, 500)).unwrap();
    assert_eq!(said.len(), 2 * (2 * 500 + 1) + 1);
    let refused = pairs(&world(700, 1)).unwrap_err();
    let expected = "`msg_exch_rate` reads pairs of actors, and the channels between groups make 245350; at most 200000 are";
    assert!(refused.contains(expected), "{refused}");
}
